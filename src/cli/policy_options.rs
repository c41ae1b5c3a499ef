//! The policy options that `run` and `policy explain` share.

use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::policy::{NamedText, PolicyOptions};
use crate::types::read_bounded;

use super::presets;

const HEADING: &str = "Policy";

/// What the sandbox may reach, and with which credentials. Options add to the policy files; a contradiction is an error.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct PolicyArgs {
    /// Read a policy file; several are joined
    ///
    /// It is TOML, a GitLab agent-config.yml (its `network_policy`), or the settings of Anthropic's sandbox runtime (srt):
    /// known by what is in it.
    #[arg(help_heading = HEADING, long = "policy", value_name = "FILE")]
    pub policy: Vec<PathBuf>,

    /// Add a policy that comes with the program, such as github; `policy presets` lists them
    ///
    /// Presets add to each other and to files. Those of languages permit the package indexes that pip, npm or cargo is
    /// configured with on this machine, and say which.
    #[arg(help_heading = HEADING, long, value_name = "NAME", value_parser = presets::names(), hide_possible_values = true)]
    pub preset: Vec<String>,

    /// Merge a GitLab administrator's settings (YAML or JSON) with the project's agent-config.yml
    ///
    /// Keys: allowed_domains, denied_domains, include_recommended_allowed, allow_all_unix_sockets, allow_project_extension
    /// (without it the project may take away and not add), always_allowed, and recommended_directory, whose *.txt files add
    /// to the recommended domains.
    #[arg(help_heading = HEADING, long, value_name = "FILE")]
    pub gitlab_settings: Option<PathBuf>,

    /// Permit https to exactly this host; the port is 443 unless it is given
    ///
    /// No wildcards, schemes or paths: the rules of a policy file have patterns and paths, and its deny rules beat this
    /// option. A private address is opened by --allow-cidr, never by its name alone.
    #[arg(help_heading = HEADING, long, value_name = "HOST[:PORT]")]
    pub allow: Vec<String>,

    /// Permit no host (the default) or every host; private addresses stay blocked
    #[arg(help_heading = HEADING, long, value_name = "MODE", value_parser = ["none", "all"])]
    pub network: Option<String>,

    /// Permit dialling these addresses by number, on every port
    ///
    /// An entry that lies wholly inside one blocked range, such as 10.1.2.0/24, also opens it for permitted names; a wider
    /// one opens public addresses only. A cloud metadata address opens by an entry of that one address alone.
    #[arg(help_heading = HEADING, long, value_name = "CIDR")]
    pub allow_cidr: Vec<String>,

    /// Open private, loopback and this host's own addresses to permitted names (never cloud metadata addresses)
    #[arg(help_heading = HEADING, long)]
    pub allow_private_ips: bool,

    /// Put a secret into a header of https requests, such as 'api.example.com/v1/ Authorization: Bearer {API_KEY}'
    ///
    /// The host has to be permitted as well. Without a path, the binding is for every path; a path is a plain prefix.
    #[arg(help_heading = HEADING, long, value_name = "'HOST[:PORT][/PATH] HEADER: PREFIX{SECRET}SUFFIX'")]
    pub bind: Vec<String>,

    /// Where a secret comes from: env:VAR, file:PATH or command:CMDLINE
    ///
    /// The sandbox never sees it. A command line is split as a shell does, quotes included, but runs without one: nothing
    /// is expanded.
    #[arg(help_heading = HEADING, long, value_name = "NAME=SOURCE")]
    pub secret: Vec<String>,

    /// Give the sandbox a stand-in for a secret in a variable, for tools that insist on one: SECRET[=VARIABLE]
    ///
    /// It is shaped like the secret, fresh for each run, and worthless anywhere else. Where the secret is bound it is swapped, also
    /// inside Basic credentials; in any other header it is refused.
    #[arg(help_heading = HEADING, long, value_name = "SECRET[=VARIABLE]")]
    pub placeholder: Vec<String>,

    /// Use the Mistral API as the owner of the key in MISTRAL_API_KEY, which the sandbox never sees
    ///
    /// Inside, MISTRAL_API_KEY is a key that only this proxy accepts, and MISTRAL_API_HTTP_PROXY the proxy's URL. The host
    /// api.mistral.ai has to be permitted as well. --secret MISTRAL_API_KEY=SOURCE takes the key from elsewhere.
    #[arg(help_heading = HEADING, long)]
    pub mistral_api: bool,

    /// Use GitHub as you, for this repository only: git, gh, its APIs and LFS; may be given more than once
    ///
    /// The token is that of `gh auth token`, or --secret GITHUB_TOKEN=SOURCE; the sandbox never sees it. git and gh work inside without
    /// any set-up, over ssh URLs, too. Every request is judged: what is not of these repositories is refused. `all` is every repository
    /// that the token reaches. A policy file has push rules, GitHub Apps, options and other hosts.
    #[arg(help_heading = HEADING, long, value_name = "OWNER/REPO|all")]
    pub github: Vec<String>,

    /// Dial every upstream through this HTTP proxy, such as http://proxy.example.com:3128
    ///
    /// It is asked (CONNECT) for addresses: names are resolved and checked here, before. HTTPS_PROXY is not followed.
    #[arg(help_heading = HEADING, long, value_name = "URL")]
    pub upstream_proxy: Option<String>,

    /// The secret that holds USER:PASSWORD for the upstream proxy
    #[arg(help_heading = HEADING, long, value_name = "SECRET")]
    pub upstream_proxy_auth: Option<String>,
}

impl PolicyArgs {
    /// The policy files, and the options that add to them; presets are read by [`presets::Presets`], an administrator's
    /// settings by [`super::gitlab::read`].
    pub fn into_parts(self) -> (Vec<PathBuf>, PolicyOptions) {
        let options = PolicyOptions {
            allow: self.allow,
            network: self.network,
            allow_cidr: self.allow_cidr,
            allow_private_ips: self.allow_private_ips,
            bind: self.bind,
            secret: self.secret,
            placeholder: self.placeholder,
            mistral_api: self.mistral_api,
            github: self.github,
            upstream_proxy: self.upstream_proxy,
            upstream_proxy_auth: self.upstream_proxy_auth,
            gitlab: None,
            is_service: false,
        };
        (self.policy, options)
    }
}

/// Reads a policy file of at most 1 MiB.
///
/// # Errors
/// The file cannot be opened or read, is too long, or is not UTF-8; the text names it.
pub fn read_policy_file(path: &Path) -> anyhow::Result<NamedText> {
    let file = File::open(path).with_context(|| unreadable(path))?;
    read_policy(file, path)
}

/// The same of a file that is open.
///
/// # Errors
/// As [`read_policy_file`].
pub fn read_policy(file: File, path: &Path) -> anyhow::Result<NamedText> {
    const MOST: u32 = 1;
    let name = path.display().to_string();
    let bytes = read_bounded(&file, MOST).with_context(|| unreadable(path))?;
    let text = String::from_utf8(bytes)
        .map_err(|e| anyhow::anyhow!("the policy file {name} is not UTF-8 (byte {})", e.utf8_error().valid_up_to()))?;
    Ok(NamedText { name, text })
}

/// What to say of a policy file that cannot be read, before the reason.
pub fn unreadable(path: &Path) -> String {
    format!("cannot read the policy file {}", path.display())
}
