//! What the command finds inside: environment, files, and above all what it does not find.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, ensure};

use crate::credentials::{Placeholder, Source, Supply};
use crate::launcher::{self, Around, FilePlan, Identity, Placed, Placeholders, Plan};
use crate::policy::{Accepts, Binding, MistralApiBinding};
use crate::tls::{NamedPem, SandboxCa};
use crate::trust;
use crate::types::SandboxId;

use super::RunArgs;
use super::files::{self, Rules};
use super::github::{self, Forge};
use super::opened::Opened;

/// What is the sandbox's alone.
pub struct Own<'a> {
    /// Its name.
    pub id: &'a SandboxId,
    /// Its authority.
    pub ca: &'a SandboxCa,
    /// What it holds in place of credentials.
    pub placeholders: &'a [Placeholder],
    /// Those for GitHub bindings, in the order of the policy's.
    pub github: &'a [Placeholder],
}

/// A sandbox that can be made.
pub struct Inside {
    /// What pid 1 is told.
    pub plan: Plan,
    /// Names that are taken as long as the command runs.
    pub placeholders: Placeholders,
}

/// Makes the plan for pid 1.
///
/// # Errors
/// Whatever could not be hidden from the command, with the cure.
pub fn plan(args: &RunArgs, identity: &Identity, opened: &Opened, own: &Own<'_>) -> Result<Inside> {
    // The kernel's answer, so there is no link in it.
    let directory = std::env::current_dir().context("the working directory cannot be told")?;
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
    // Root could use whatever lies in /tmp, other services' private directories and sockets above all, also those that are made later.
    let private_tmp = args.private_tmp || identity.real_root;
    let private = launcher::private_directories(runtime.as_deref(), private_tmp);
    let mut environment = environment(args, identity)?;
    environment.extend(stand_ins(args, opened, own)?);
    let search_path: Vec<PathBuf> =
        environment.get(OsStr::new("PATH")).map(|path| std::env::split_paths(path).collect()).unwrap_or_default();
    let resolved = search_path.iter().filter_map(|path| path.canonicalize().ok());
    let needed: Vec<PathBuf> = [identity.home.clone(), directory.clone()].into_iter().chain(resolved).collect();
    let others = identity.real_root.then(launcher::all_homes);
    let homes = Homes { own: identity, others: others.as_deref() };
    let mounts = std::fs::read("/proc/self/mountinfo").context("the mounts cannot be listed")?;
    let around = Around {
        home: &identity.home,
        directory: &directory,
        homes: others.as_deref(),
        private: &private,
        mounts: &mounts,
    };
    let rules = files::rules(&opened.compiled.files, around, args.quiet)?;
    let place = Place { directory: &directory, needed: &needed, private: &private, mounts: &mounts };
    // Side by side: both are mostly waiting for the kernel, and the command waits for both.
    let (placed, hidden) = std::thread::scope(|scope| {
        let hidden = || hidden(&homes, opened, &rules, &place);
        let hidden = std::thread::Builder::new().spawn_scoped(scope, hidden).context("the system gives no thread")?;
        let placed = trust_in(own.ca, &opened.upstream_ca, &mut environment)?;
        Ok::<_, anyhow::Error>((placed, hidden.join().map_err(|_| anyhow!("a thread of the start has panicked"))??))
    })?;
    let Hidden { masks, pins, unchanged } = hidden;
    let mut closed = masks.clone();
    closed.extend(rules.plan.iter().filter_map(|plan| plan.mask_of(&directory)).map(Path::to_owned));
    // Where the policy says what may be written, root's limits were looked at with it.
    let homes = others.as_deref().filter(|_| rules.plan.is_none());
    launcher::working_directory(&directory, homes, &private, &closed)?;
    // As they are written: one that is a link in a private directory is given back as that link.
    let kept = search_path.iter().chain([&directory]);
    let kept = kept.filter(|path| private.iter().any(|private| path.starts_with(private)));
    let kept = kept.chain(&rules.kept);
    let names = |paths: Vec<PathBuf>| paths.into_iter().map(PathBuf::into_os_string).collect();
    let plan = Plan {
        command: args.command.clone(),
        kept: kept.map(|path| path.clone().into_os_string()).collect(),
        directory: directory.into_os_string(),
        environment: environment.into_iter().collect(),
        host_name: format!("sandbox-{}", &own.id.as_str()[..8]),
        ports: opened.compiled.policy.ports(),
        placed,
        masks: names(masks),
        pins: names(pins),
        unchanged: names(unchanged),
        runtime_directory: runtime.map(PathBuf::into_os_string),
        private_tmp,
        real_root: identity.real_root,
        files: rules.plan,
        sockets: rules.sockets,
    };
    Ok(Inside { plan, placeholders: rules.placeholders })
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

/// The variables with placeholders, and the one with the proxy's URL for clients of the Mistral API.
fn stand_ins(args: &RunArgs, opened: &Opened, own: &Own<'_>) -> Result<Vec<(OsString, OsString)>> {
    let policy = &opened.compiled.policy;
    let hosts: Vec<String> = policy.githubs().iter().map(|github| github.host().host.to_string()).collect();
    let forges = hosts.iter().zip(policy.githubs()).zip(own.github).map(|((host, github), placeholder)| Forge {
        host,
        listed: github.repos().unwrap_or_default(),
        placeholder: placeholder.value(),
    });
    let forges: Vec<Forge<'_>> = forges.collect();
    let of_github = github::variables(&forges);
    let shown = own.placeholders.iter().map(|known| (known.variable().to_owned(), known.value().to_owned()));
    let mut variables = Vec::<(OsString, OsString)>::new();
    for (variable, value) in shown.chain(of_github) {
        let kept = args.keep_env.contains(&variable);
        ensure!(!kept, "--keep-env {variable}: that variable is set for the sandbox; take the option out");
        variables.push((variable.into(), value.into()));
    }
    let takes_placeholder = |binding: &Binding| binding.accepts() == Accepts::PlaceholderOnly;
    if policy.bindings().iter().any(takes_placeholder) {
        let url = format!("http://127.0.0.1:{}", launcher::EXPLICIT_PORT);
        variables.push((MistralApiBinding::PROXY_VARIABLE.into(), url.into()));
    }
    Ok(variables)
}

/// Has the sandbox trust its authority, and those of upstreams: files to place, variables to set.
fn trust_in(
    ca: &SandboxCa,
    upstream: &[NamedPem],
    environment: &mut BTreeMap<OsString, OsString>,
) -> Result<Vec<Placed>> {
    let directory = Path::new(launcher::PRIVATE_DIRECTORY);
    let read = |name: &str| match name {
        // The user's own bundle is merged in; any other variable counts as the sandbox will see it.
        "SSL_CERT_FILE" => std::env::var_os(name),
        _ => environment.get(OsStr::new(name)).cloned(),
    };
    let upstream = upstream.iter().map(|file| file.bytes.as_slice()).collect();
    let authorities = trust::Authorities { pem: ca.pem(), der: ca.der(), upstream };
    let trust = trust::plan(&authorities, directory, &read, &trust::HostFs)?;
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

/// The homes in which credentials are looked for.
struct Homes<'a> {
    own: &'a Identity,
    /// Everybody's, for root.
    others: Option<&'a [PathBuf]>,
}

/// What the command must not see, and what must keep its name for that.
struct Hidden {
    masks: Vec<PathBuf>,
    pins: Vec<PathBuf>,
    /// What steers the run, by every name.
    unchanged: Vec<PathBuf>,
}

/// Where the command starts, and what it needs there.
struct Place<'a> {
    directory: &'a Path,
    /// The home and the working directory first.
    needed: &'a [PathBuf],
    private: &'a [PathBuf],
    mounts: &'a [u8],
}

fn hidden(homes: &Homes<'_>, opened: &Opened, rules: &Rules, place: &Place<'_>) -> Result<Hidden> {
    let others = homes.others.unwrap_or_default();
    let home = &homes.own.home;
    let all: Vec<&Path> =
        std::iter::once(home).chain(&homes.own.passwd_home).chain(others).map(PathBuf::as_path).collect();
    let read = |name: &str| std::env::var_os(name);
    let launcher::StorePaths { mut masks, mut links } =
        launcher::credential_paths(&all, homes.own.uid, &place.needed[..2], &read)?;
    rules.refuse_credentials(&masks)?;
    links.extend(opened.links.iter().chain(&rules.links).cloned());
    masks.extend(behind_secrets(&opened.sources, place, rules)?);
    masks.extend(opened.audit.iter().filter_map(|audit| audit.path.clone()));
    masks.extend(opened.learned.iter().map(|(path, _)| path.clone()));
    let unchanged = launcher::everywhere(opened.steering.clone(), place.mounts);
    let named = masks.iter().chain(&unchanged).map(PathBuf::as_path);
    let pins = launcher::pins(named.chain(rules.plan.iter().flat_map(FilePlan::named)), &links);
    let mut places = vec![PathBuf::from("/tmp"), PathBuf::from("/var/tmp"), home.clone(), place.directory.to_owned()];
    places.extend(rules.host_sockets.iter().filter_map(|socket| socket.parent()).map(Path::to_owned));
    places.retain(|directory| !place.private.contains(directory));
    let sockets = rules.host_sockets.iter().cloned().chain(launcher::stray_sockets(&places));
    masks.extend(sockets.filter(|socket| !rules.shows_socket(socket)));
    Ok(Hidden { masks: launcher::everywhere(masks, place.mounts), pins, unchanged })
}

fn behind_secrets(sources: &[(String, Supply)], place: &Place<'_>, rules: &Rules) -> Result<Vec<PathBuf>> {
    let open = match &rules.plan {
        Some(plan) => plan.writable().map(Path::to_owned).collect(),
        None => vec![place.directory.to_owned()],
    };
    let writable = open.into_iter().chain([PathBuf::from("/tmp")]).collect();
    let bounds = launcher::Bounds { writable, needed: place.needed.to_vec() };
    let mut masks = Vec::new();
    for (name, source) in sources {
        let context = || format!("secret {name}");
        let source = match source {
            Supply::Read(source) => source,
            Supply::Http(_) | Supply::OAuth2(_) | Supply::Vault(_) => continue,
            Supply::GitHubApp(_) | Supply::GitHubScoped(_) => continue,
        };
        match &**source {
            Source::Env(_) => {}
            Source::File(file) => masks.push(launcher::guard_secret(file.path(), &bounds).with_context(context)?),
            Source::Command(command) => {
                masks.extend(behind_command(&command.argv, place.needed).with_context(context)?)
            }
        }
    }
    Ok(masks)
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
