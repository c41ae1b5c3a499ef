//! What the policy says about files and sockets, on this machine.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::launcher::{self, Around, FilePlan, FileRules, HostSockets, Placeholders, sockets_shown};
use crate::policy::files::{FilePath, FilePolicy, UnixSockets};

use super::say;

/// What is permitted, and what it takes.
pub struct Rules {
    /// For pid 1; `None` where the policy limits nothing.
    pub plan: Option<FilePlan>,
    /// Links by which denied paths are found.
    pub links: Vec<PathBuf>,
    /// Must be kept until the command has ended.
    pub placeholders: Placeholders,
    /// The sockets that the command may connect to.
    pub sockets: HostSockets,
    /// The sockets of the host's programs that the kernel knows by a path.
    pub host_sockets: Vec<PathBuf>,
    /// Sockets that private directories would hide, as they are written.
    pub kept: Vec<PathBuf>,
}

/// Looks up what a policy names.
///
/// # Errors
/// What cannot be limited, with the cure.
pub fn rules(policy: &FilePolicy, around: Around<'_>, quiet: bool) -> Result<Rules> {
    let mut rules = Rules {
        plan: None,
        links: Vec::new(),
        placeholders: Placeholders::default(),
        sockets: HostSockets::Masked,
        host_sockets: Vec::new(),
        kept: Vec::new(),
    };
    let mut absent = Vec::new();
    if let Some(limits) = &policy.limits {
        let found = FileRules::new(limits, around).context("files")?;
        absent = found.absent;
        rules.plan = Some(found.plan);
        rules.links = found.links;
        rules.placeholders = found.placeholders;
    }
    let table = std::fs::read("/proc/net/unix").context("the host's sockets cannot be listed")?;
    rules.host_sockets = launcher::host_sockets(&table);
    match &policy.unix_sockets {
        UnixSockets::Masked => {}
        UnixSockets::Listed(paths) => rules.show(paths, around, &mut absent)?,
        UnixSockets::All => {
            rules.sockets = HostSockets::All;
            rules.kept.clone_from(&rules.host_sockets);
        }
    }
    if !quiet {
        for path in absent {
            say(&format!("files: {path} does not exist, so nothing is permitted there"));
        }
    }
    Ok(rules)
}

impl Rules {
    fn show(&mut self, paths: &[FilePath], around: Around<'_>, absent: &mut Vec<FilePath>) -> Result<()> {
        let (shown, missing) = sockets_shown(paths, around, self.plan.as_ref()).context("files")?;
        absent.extend(missing);
        self.kept = paths.iter().map(|path| path.resolve(around.home, around.directory)).collect();
        self.sockets = HostSockets::Listed(shown.into_iter().map(PathBuf::into_os_string).collect());
        Ok(())
    }

    /// Whether the command may connect to a socket.
    pub fn shows_socket(&self, socket: &Path) -> bool {
        match &self.sockets {
            HostSockets::Masked => false,
            HostSockets::Listed(shown) => shown.iter().any(|shown| socket.starts_with(shown)),
            HostSockets::All => true,
        }
    }

    /// Credential stores stay hidden, an agent's socket too.
    ///
    /// # Errors
    /// The path that the policy shows, and the store.
    pub fn refuse_credentials(&self, stores: &[PathBuf]) -> Result<()> {
        let HostSockets::Listed(shown) = &self.sockets else { return Ok(()) };
        for path in shown.iter().map(Path::new) {
            if let Some(store) = stores.iter().find(|store| path.starts_with(store)) {
                let (path, store) = (path.display(), store.display());
                bail!(
                    "files: unix_sockets: {path} belongs to the credentials in {store}, which stay hidden; take it out"
                );
            }
        }
        Ok(())
    }
}
