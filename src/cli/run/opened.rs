//! The files that steer a run, opened before anything untrusted exists and used by descriptor from there on.

use std::fs::File;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};

use crate::audit::AuditFile;
use crate::credentials::{SecretFile, Source, Supply, check_secret_file};
use crate::launcher::{self, Identity, Links, OpenedFile, Purpose, open_file};
use crate::policy::{Compiled, NamedText, SecretSource};
use crate::tls::NamedPem;
use crate::types::read_bounded;

use super::super::gitlab;
use super::super::policy_options::{read_policy, unreadable};
use super::super::presets::Presets;
use super::reload::Origin;
use super::{RunArgs, say};

/// The longest `--upstream-ca` file, in MiB.
const CA_FILE_MAX: u32 = 8;

/// Everything that is opened before the child exists.
pub struct Opened {
    pub compiled: Compiled,
    /// What the policy was made from.
    pub origin: Origin,
    pub sources: Vec<(String, Supply)>,
    pub audit: Option<Audit>,
    /// The empty file of `--learn`, and where it is.
    pub learned: Option<(PathBuf, File)>,
    pub upstream_ca: Vec<NamedPem>,
    /// The files that steer the run, resolved: the command must not change them for the next one.
    pub steering: Vec<PathBuf>,
    /// The symbolic links by which these, the secrets and the audit are found.
    pub links: Vec<PathBuf>,
}

/// The file of `--audit`.
pub struct Audit {
    /// Resolved; none for a pipe, a terminal or /dev/null, where nothing has to be hidden.
    pub path: Option<PathBuf>,
    pub file: AuditFile,
}

impl Opened {
    /// Opens all that the arguments name, with the rights that this process has now: under sudo those of root.
    ///
    /// # Errors
    /// What cannot be opened, read or hidden, links that a sandbox could have made where they count, and every mistake of the
    /// policy.
    pub fn open(args: &RunArgs, identity: &Identity) -> Result<Self> {
        let mut opener = Opener {
            links: if identity.from_sudo { Links::OfRoot } else { Links::All },
            uid: identity.uid,
            steering: Vec::new(),
            followed: Vec::new(),
        };
        let (files, mut options) = args.policy.clone().into_parts();
        if let Some(path) = &args.policy.gitlab_settings {
            options.gitlab = Some(gitlab::read(path, |path| opener.steering(path, Purpose::Read))?);
        }
        let learn = args.learn.is_some();
        let mut origin = Origin { texts: Vec::new(), files: Vec::new(), options, learn };
        for path in files {
            let file = opener.steering(&path, Purpose::Read).with_context(|| unreadable(&path))?;
            let read = file.try_clone().with_context(|| unreadable(&path))?;
            origin.texts.push(read_policy(read, &path)?);
            origin.files.push((path, file));
        }
        origin.texts.append(&mut opener.presets(&args.policy.preset, &identity.home, args.quiet)?);
        let compiled = origin.compile(&origin.texts)?;
        if !args.quiet {
            compiled.warnings.iter().for_each(|warning| say(&warning.to_string()));
        }
        let mut sources = Vec::new();
        for secret in &compiled.secrets {
            let source = opener.source(&secret.source).with_context(|| format!("secret {}", secret.name))?;
            sources.push((secret.name.clone(), source));
        }
        let audit = args.audit.as_ref().map(|path| opener.audit(path)).transpose()?;
        let learned = args.learn.as_ref().map(|path| opener.learned(path)).transpose()?;
        let upstream_ca = args.upstream_ca.iter().map(|path| opener.authority(path)).collect::<Result<Vec<_>>>()?;
        let Opener { steering, followed, .. } = opener;
        Ok(Self { compiled, origin, sources, audit, learned, upstream_ca, steering, links: followed })
    }
}

struct Opener {
    links: Links<'static>,
    /// Whom a secret's file has to belong to, unless it is root's.
    uid: u32,
    steering: Vec<PathBuf>,
    followed: Vec<PathBuf>,
}

impl Opener {
    /// A file that the next run may be steered by, too, or a directory of them.
    fn steering(&mut self, path: &Path, purpose: Purpose) -> Result<File> {
        let OpenedFile { file, path, links } = open_file(path, purpose, self.links)?;
        // What is no file, such as a pipe, cannot be written again.
        let metadata = file.metadata()?;
        if metadata.is_file() || metadata.is_dir() {
            self.steering.push(path);
            self.followed.extend(links);
        }
        Ok(file)
    }

    /// Some of them read settings of this user's tools.
    fn presets(&mut self, names: &[String], home: &Path, quiet: bool) -> Result<Vec<NamedText>> {
        let presets = Presets::read(names, home, self.links)?;
        if !quiet {
            presets.notes.iter().for_each(|note| say(note));
        }
        self.steering.extend(presets.files);
        self.followed.extend(presets.links);
        Ok(presets.texts)
    }

    fn authority(&mut self, path: &Path) -> Result<NamedPem> {
        let name = path.display().to_string();
        let context = || format!("--upstream-ca: cannot read {name}");
        let file = self.steering(path, Purpose::ReadFile).with_context(context)?;
        let metadata = file.metadata().with_context(context)?;
        ensure!(metadata.is_file(), "--upstream-ca: {name} is not a file");
        let bytes = read_bounded(&file, CA_FILE_MAX).with_context(context)?;
        Ok(NamedPem { name, bytes })
    }

    fn source(&mut self, source: &SecretSource) -> Result<Supply> {
        Ok(match source {
            SecretSource::Env(variable) => Supply::Read(Arc::new(Source::Env(variable.clone()))),
            SecretSource::Command(command) => Supply::Read(Arc::new(Source::Command(command.clone()))),
            SecretSource::File(path) => Supply::Read(Arc::new(self.secret_file(path)?)),
            SecretSource::Http(source) => Supply::Http(source.clone()),
            SecretSource::OAuth2(source) => Supply::OAuth2(source.clone()),
            SecretSource::Vault(source) => Supply::Vault(source.clone()),
            SecretSource::GitHubApp(source) => Supply::GitHubApp(source.clone()),
            SecretSource::GitHubScoped(source) => Supply::GitHubScoped(source.clone()),
            SecretSource::Store(name) => {
                bail!("the secret {name} of a workspace is for sandboxes of the service alone")
            }
        })
    }

    fn secret_file(&mut self, path: &Path) -> Result<Source> {
        let opened = open_file(path, Purpose::ReadFile, self.links);
        let OpenedFile { file, path, links } = opened.with_context(|| format!("cannot read {}", path.display()))?;
        check_secret_file(&path, &file, self.uid)?;
        let path = launcher::opened_as(&path, &file)?;
        self.followed.extend(links);
        Ok(Source::File(SecretFile::new(path, file)))
    }

    /// What is learned steers a later run, so the command must not write it.
    fn learned(&mut self, path: &Path) -> Result<(PathBuf, File)> {
        let context = || format!("--learn: cannot open {}", path.display());
        let (file, place) = self.written(path).with_context(context)?;
        let metadata = file.metadata().with_context(context)?;
        ensure!(metadata.is_file(), "--learn: {} is no regular file", path.display());
        ensure!(metadata.len() == 0, "--learn: {} is not empty; name a new file, or remove it", path.display());
        Ok((launcher::guard_audit(&place, &file).context("--learn")?, file))
    }

    /// A file that is written. A link that an earlier run may have left would have it written somewhere else.
    fn written(&mut self, path: &Path) -> Result<(File, PathBuf)> {
        let writable = [std::env::current_dir()?, PathBuf::from("/tmp")];
        let links = match self.links {
            Links::OfRoot => Links::OfRoot,
            Links::All | Links::Outside(_) => Links::Outside(&writable),
        };
        let OpenedFile { file, path, links } = open_file(path, Purpose::Append, links)?;
        if file.metadata()?.is_file() {
            self.followed.extend(links);
        }
        Ok((file, path))
    }

    fn audit(&mut self, path: &Path) -> Result<Audit> {
        let context = || format!("--audit: cannot open {}", path.display());
        let (file, place) = self.written(path).with_context(context)?;
        let kind = file.metadata().with_context(context)?.file_type();
        let resolved = if kind.is_char_device() || kind.is_fifo() {
            None
        } else {
            Some(launcher::guard_audit(&place, &file).context("--audit")?)
        };
        let file = AuditFile::new(file).with_context(|| format!("--audit: cannot write {}", path.display()))?;
        Ok(Audit { path: resolved, file })
    }
}
