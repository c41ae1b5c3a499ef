//! What the command finds inside: environment, files, and above all what it does not find.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::credentials::source::Source;
use crate::launcher::{self, Identity, Placed, Plan};
use crate::tls::SandboxCa;
use crate::trust;
use crate::types::SandboxId;

use super::{Opened, RunArgs};

/// Makes the plan for pid 1.
///
/// # Errors
/// Whatever could not be hidden from the command, with the cure.
pub fn plan(args: &RunArgs, identity: &Identity, opened: &Opened, id: &SandboxId, ca: &SandboxCa) -> Result<Plan> {
    let Opened { compiled, sources, audit, .. } = opened;
    let audit = audit.as_ref();
    let directory = std::env::current_dir().context("the working directory cannot be told")?;
    let directory = directory.canonicalize().context("the working directory cannot be resolved")?;
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
    let private = launcher::private_directories(runtime.as_deref(), args.private_tmp);
    let mut environment = environment(args, identity)?;
    let placed = trust_in(ca, &mut environment)?;
    let search_path: Vec<PathBuf> =
        environment.get(OsStr::new("PATH")).map(|path| std::env::split_paths(path).collect()).unwrap_or_default();
    let resolved = search_path.iter().filter_map(|path| path.canonicalize().ok());
    let needed: Vec<PathBuf> = [identity.home.clone(), directory.clone()].into_iter().chain(resolved).collect();
    let masks = masks(identity, sources, audit, &needed, &directory)?;
    launcher::working_directory(&directory, identity.real_root, &private, &masks)?;
    // As they are written: one that is a link in a private directory is given back as that link.
    let kept = search_path.iter().chain([&directory]);
    let kept = kept.filter(|path| private.iter().any(|private| path.starts_with(private)));
    Ok(Plan {
        command: args.command.clone(),
        kept: kept.map(|path| path.clone().into_os_string()).collect(),
        directory: directory.into_os_string(),
        environment: environment.into_iter().collect(),
        host_name: format!("sandbox-{}", &id.as_str()[..8]),
        ports: compiled.policy.ports(),
        placed,
        masks: masks.into_iter().map(PathBuf::into_os_string).collect(),
        pins: pins(sources, audit).into_iter().map(PathBuf::into_os_string).collect(),
        runtime_directory: runtime.map(PathBuf::into_os_string),
        private_tmp: args.private_tmp,
        real_root: identity.real_root,
    })
}

/// The scrubbed environment, with the identity's own values where this process was started by somebody else.
fn environment(args: &RunArgs, identity: &Identity) -> Result<BTreeMap<OsString, OsString>> {
    let names = launcher::variable_names();
    let mut environment = launcher::environment(&names, &args.keep_env, &|name| std::env::var_os(name))?;
    if identity.from_sudo {
        environment.insert("HOME".into(), identity.home.clone().into_os_string());
        environment.insert("USER".into(), identity.user.clone());
        environment.insert("LOGNAME".into(), identity.user.clone());
        environment.insert("SHELL".into(), identity.shell.clone());
    }
    Ok(environment)
}

/// Has the sandbox trust its authority: files to place, variables to set.
fn trust_in(ca: &SandboxCa, environment: &mut BTreeMap<OsString, OsString>) -> Result<Vec<Placed>> {
    let directory = Path::new(launcher::PRIVATE_DIRECTORY);
    let read = |name: &str| match name {
        // The user's own bundle is merged in; any other variable counts as the sandbox will see it.
        "SSL_CERT_FILE" => std::env::var_os(name),
        _ => environment.get(OsStr::new(name)).cloned(),
    };
    let trust = trust::plan(ca.pem(), ca.der(), directory, &read, &trust::HostFs)?;
    for name in &trust.unset {
        environment.remove(OsStr::new(name));
    }
    environment.extend(trust.env.into_iter().map(|(name, value)| (name.into(), value)));
    let place = |file: trust::TrustFile| {
        let covered = trust.overrides.iter().filter(|covered| covered.file == file.name).map(|covered| &covered.path);
        let paths = std::iter::once(&directory.join(&file.name)).chain(covered).map(|path| path.into()).collect();
        Placed::new(paths, file.bytes)
    };
    Ok(trust.files.into_iter().map(place).collect())
}

/// What the command must not see.
fn masks(
    identity: &Identity,
    sources: &[(String, Source)],
    audit: Option<&(PathBuf, File)>,
    needed: &[PathBuf],
    directory: &Path,
) -> Result<Vec<PathBuf>> {
    let read = |name: &str| std::env::var_os(name);
    let homes: Vec<&Path> =
        std::iter::once(&identity.home).chain(&identity.passwd_home).map(PathBuf::as_path).collect();
    let mut masks = launcher::credential_paths(&homes, identity.uid, &needed[..2], &read)?;
    let bounds =
        launcher::Bounds { writable: vec![directory.to_owned(), PathBuf::from("/tmp")], needed: needed.to_vec() };
    for (name, source) in sources {
        match source {
            Source::Env(_) => {}
            Source::File { path, file } => {
                masks.push(launcher::guard_secret(path, file, &bounds).with_context(|| format!("secret {name}"))?);
            }
            Source::Command(argv) => {
                masks.extend(behind_command(argv, needed).with_context(|| format!("secret {name}"))?);
            }
        }
    }
    if let Some((path, file)) = audit
        && !writes_to_device(file)
    {
        masks.push(launcher::guard_audit(path, file).context("--audit")?);
    }
    let sockets = std::fs::read("/proc/net/unix").context("the host's sockets cannot be listed")?;
    let sockets = launcher::host_sockets(&sockets);
    let mut places =
        vec![PathBuf::from("/tmp"), PathBuf::from("/var/tmp"), identity.home.clone(), directory.to_owned()];
    places.extend(sockets.iter().filter_map(|socket| socket.parent()).map(Path::to_owned));
    masks.extend(sockets);
    masks.extend(launcher::stray_sockets(&places));
    let mounts = std::fs::read("/proc/self/mountinfo").context("the mounts cannot be listed")?;
    Ok(launcher::everywhere(masks, &mounts))
}

/// The directories above the audit file and the secrets' files, which must keep their names.
fn pins(sources: &[(String, Source)], audit: Option<&(PathBuf, File)>) -> Vec<PathBuf> {
    let secrets = sources.iter().filter_map(|(_, source)| match source {
        Source::File { path, .. } => Some(path),
        Source::Env(_) | Source::Command(_) => None,
    });
    let audit = audit.filter(|(_, file)| !writes_to_device(file)).map(|(path, _)| path);
    let resolved = secrets.chain(audit).filter_map(|path| path.canonicalize().ok());
    resolved.flat_map(|path| launcher::pins(&path)).collect()
}

/// What a secret's command is given by name: a key, a directory of keys, a script of the user's own. What it reads besides
/// cannot be known.
fn behind_command(argv: &[String], needed: &[PathBuf]) -> Result<Vec<PathBuf>> {
    const SYSTEM: [&str; 6] = ["/usr", "/bin", "/sbin", "/lib", "/opt", "/nix"];
    let values = argv.iter().flat_map(|argument| [Some(argument.as_str()), argument.split_once('=').map(|(_, v)| v)]);
    let mut masks = Vec::new();
    for path in values.flatten().filter(|value| value.contains('/')).filter_map(|v| Path::new(v).canonicalize().ok()) {
        let of_system = SYSTEM.iter().any(|tree| path.starts_with(tree));
        if of_system || needed.iter().any(|needed| needed.starts_with(&path)) {
            continue;
        }
        let metadata = path.metadata().with_context(|| format!("cannot look at {}", path.display()))?;
        let names = if metadata.is_file() { metadata.nlink() } else { 1 };
        ensure!(names == 1, "{} has {names} hard links, so it cannot be hidden from the sandbox", path.display());
        masks.push(path);
    }
    Ok(masks)
}

/// A pipe, terminal or /dev/null has nothing to be hidden.
fn writes_to_device(file: &File) -> bool {
    file.metadata().is_ok_and(|metadata| {
        let kind = metadata.file_type();
        kind.is_char_device() || kind.is_fifo()
    })
}
