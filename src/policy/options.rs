//! The policy options of the command line, as a document of their own.

use std::path::PathBuf;

use super::binding::{Field, Kind};
use super::dialect::GitlabSettings;
use super::document::{Document, RawBinding, RawGitHub, RawMistralApi, RawPlaceholder, RawRepos, RawSecret};
use super::mistake::{At, Collector, Place, did_you_mean, quoted};
use super::source::{CommandSource, SecretSource};

/// What the policy options of `run` and `policy explain` say. They add to the policy files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicyOptions {
    /// `--allow HOST[:PORT]`.
    pub allow: Vec<String>,
    /// `--network none|all`.
    pub network: Option<String>,
    /// `--allow-cidr CIDR`.
    pub allow_cidr: Vec<String>,
    /// `--allow-private-ips`.
    pub allow_private_ips: bool,
    /// `--bind 'HOST[:PORT][/PATH] HEADER: PREFIX{SECRET}SUFFIX'`.
    pub bind: Vec<String>,
    /// `--mistral-api`.
    pub mistral_api: bool,
    /// `--github OWNER/REPO|all`.
    pub github: Vec<String>,
    /// `--placeholder SECRET[=VARIABLE]`.
    pub placeholder: Vec<String>,
    /// `--upstream-proxy URL`.
    pub upstream_proxy: Option<String>,
    /// `--upstream-proxy-auth SECRET`.
    pub upstream_proxy_auth: Option<String>,
    /// `--secret NAME=env:VAR|file:PATH|command:CMDLINE`.
    pub secret: Vec<String>,
    /// `--gitlab-settings FILE`, with what it names.
    pub gitlab: Option<GitlabSettings>,
    /// It is the policy of a sandbox of the service: secrets come from the store and from nowhere else, since whoever writes it does not
    /// run the service.
    pub is_service: bool,
}

const BIND_FORM: &str = "write --bind 'HOST[:PORT][/PATH] HEADER: PREFIX{SECRET}SUFFIX', \
                         such as --bind 'api.example.com Authorization: Bearer {API_KEY}'";
const SECRET_FORM: &str = "write --secret NAME=env:VAR, --secret NAME=file:PATH or --secret NAME='command:PROGRAM ARG'";

/// The options as a document. `--allow` means mode `allow`, `--allow-cidr` mode `custom`.
pub(super) fn document(options: &PolicyOptions, mistakes: &mut Collector) -> Document {
    let mut document = Document::default();
    if let Some(mode) = &options.network {
        let mode = at("--network", mode);
        match mode.value.as_str() {
            "none" | "all" => document.network_modes.push(mode),
            word => {
                let what = format!("{} is not a network mode of this option", quoted(word));
                mistakes.add(&mode.place, what, "write none or all; --allow HOST permits single hosts");
            }
        }
    }
    document.hosts_given = !options.allow.is_empty();
    document.hosts = options.allow.iter().map(|host| at("--allow", host)).collect();
    if let Some(first) = document.hosts.first() {
        document.network_modes.push(At { value: "allow".to_owned(), place: first.place.clone() });
    }
    document.cidrs_given = !options.allow_cidr.is_empty();
    document.cidrs = options.allow_cidr.iter().map(|cidr| at("--allow-cidr", cidr)).collect();
    if let Some(first) = document.cidrs.first() {
        document.egress_modes.push(At { value: "custom".to_owned(), place: first.place.clone() });
    }
    if options.allow_private_ips {
        document.block_private.push(At { value: false, place: at("--allow-private-ips", "").place });
    }
    document.proxies = options.upstream_proxy.iter().map(|url| at("--upstream-proxy", url)).collect();
    document.proxy_auths = options.upstream_proxy_auth.iter().map(|name| at("--upstream-proxy-auth", name)).collect();
    document.bindings = options.bind.iter().filter_map(|text| binding(at("--bind", text), mistakes)).collect();
    if options.mistral_api {
        document.mistral_apis.push(RawMistralApi::at(at("--mistral-api", "").place));
    }
    document.githubs.extend(github(&options.github));
    document.placeholders = options.placeholder.iter().map(|text| placeholder(at("--placeholder", text))).collect();
    document.secret_names =
        options.secret.iter().filter_map(|text| text.split_once('=')).map(|(name, _)| name.to_owned()).collect();
    document.secrets = options.secret.iter().filter_map(|text| secret(at("--secret", text), mistakes)).collect();
    document
}

fn at(name: &'static str, value: &str) -> At<String> {
    At { value: value.to_owned(), place: Place::Option { name, value: value.to_owned() } }
}

fn binding(option: At<String>, mistakes: &mut Collector) -> Option<RawBinding> {
    let At { value: text, place } = option;
    let Some((host, path, header, value)) = split_binding(&text) else {
        mistakes.add(&place, "it is not a host, a header and a value", BIND_FORM);
        return None;
    };
    let [(prefix, secret, suffix)] = secrets_in(value)[..] else {
        mistakes.add(&place, "the value must hold exactly one {SECRET}", BIND_FORM);
        return None;
    };
    let given = [
        (Field::Host, Some(host)),
        (Field::Header, Some(header)),
        (Field::SecretName, Some(secret)),
        (Field::PathPrefix, path),
        (Field::Prefix, Some(prefix)),
        (Field::Suffix, Some(suffix)),
    ];
    let at = |value: &str| At { value: value.to_owned(), place: place.clone() };
    let fields = given.into_iter().filter_map(|(field, value)| Some((field, at(value?)))).collect();
    Some(RawBinding { kind: Kind::Header, fields, scrub: None, place })
}

/// All of them are one binding, for github.com.
fn github(repos: &[String]) -> Option<RawGitHub> {
    let repos: Vec<_> = repos.iter().map(|repo| at("--github", repo)).collect();
    let mut raw = RawGitHub::at(repos.first()?.place.clone());
    let all = repos.iter().any(|repo| repo.value == "all");
    raw.repos = Some(if all { RawRepos::All } else { RawRepos::Listed(repos) });
    Some(raw)
}

/// Without a variable it is the one that is called as the secret.
fn placeholder(option: At<String>) -> RawPlaceholder {
    let (secret, variable) = option.value.split_once('=').unwrap_or((&option.value, &option.value));
    let part = |value: &str| At { value: value.to_owned(), place: option.place.clone() };
    RawPlaceholder { secret: part(secret), variable: part(variable) }
}

/// Host, path, header and value. What comes before the first white space is the destination; a scheme stays with the
/// host, where it is refused by name.
fn split_binding(text: &str) -> Option<(&str, Option<&str>, &str, &str)> {
    let (destination, rest) = text.trim_start().split_once(char::is_whitespace)?;
    let (header, value) = rest.trim_start().split_once(':')?;
    let (host, path) = match destination.find('/') {
        Some(slash) if !destination.contains("://") => (&destination[..slash], Some(&destination[slash..])),
        Some(_) | None => (destination, None),
    };
    Some((host, path, header, value.trim_start_matches(' ')))
}

/// Every `{NAME}` with what stands before and behind it. Other braces are plain text.
fn secrets_in(value: &str) -> Vec<(&str, &str, &str)> {
    let mut found = Vec::new();
    for (open, _) in value.match_indices('{') {
        let inside = &value[open + 1..];
        if let Some(close) =
            inside.find('}').filter(|&close| super::binding::parse_secret_name(&inside[..close]).is_ok())
        {
            found.push((&value[..open], &inside[..close], &inside[close + 1..]));
        }
    }
    found
}

fn secret(option: At<String>, mistakes: &mut Collector) -> Option<RawSecret> {
    let At { value: text, place } = option;
    let Some((name, source)) = text.split_once('=') else {
        mistakes.add(&place, "it is not a name and a source", SECRET_FORM);
        return None;
    };
    let Some((kind, value)) = source.split_once(':') else {
        mistakes.add(&place, format!("{} names no source", quoted(source)), SECRET_FORM);
        return None;
    };
    let source = match kind {
        "env" => Ok(SecretSource::Env(value.to_owned())),
        "file" => Ok(SecretSource::File(PathBuf::from(value))),
        "command" => split_command(value).map(|argv| SecretSource::Command(CommandSource::new(argv))),
        "store" => Err(("secrets from a store are not supported by this version".to_owned(), SECRET_FORM.to_owned())),
        _ => {
            let what = format!("{} is not a source", quoted(kind));
            Err((what, did_you_mean(kind, &["env", "file", "command"])))
        }
    };
    match source {
        Ok(source) => {
            let name = At { value: name.to_owned(), place: place.clone() };
            Some(RawSecret { name, source, place, needs: Vec::new() })
        }
        Err((what, hint)) => {
            mistakes.add(&place, what, hint);
            None
        }
    }
}

/// Words as a shell makes them, quotes and backslashes included; nothing is expanded. What a shell would expand or act
/// on is an error, as it would not mean here what it says. The error is what is wrong, and what would be right.
fn split_command(line: &str) -> Result<Vec<String>, (String, String)> {
    let unclosed = |what: &str| (format!("the command ends inside {what}"), "close it".to_owned());
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            ' ' | '\t' | '\n' => words.extend(word.take()),
            '\'' => {
                let quoted = word.get_or_insert_default();
                loop {
                    match chars.next().ok_or_else(|| unclosed("single quotes"))? {
                        '\'' => break,
                        c => quoted.push(c),
                    }
                }
            }
            '"' => double_quoted(&mut chars, word.get_or_insert_default())?,
            '\\' => {
                let next = chars.next().ok_or_else(|| unclosed("a backslash escape"))?;
                word.get_or_insert_default().push(next);
            }
            '$' | '`' | '|' | '&' | ';' | '<' | '>' | '(' | ')' | '*' | '?' => return Err(shell_syntax(c)),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    Ok(words)
}

fn double_quoted(chars: &mut std::str::Chars<'_>, word: &mut String) -> Result<(), (String, String)> {
    let mut next =
        || chars.next().ok_or_else(|| ("the command ends inside double quotes".to_owned(), "close it".to_owned()));
    loop {
        match next()? {
            '"' => return Ok(()),
            c @ ('$' | '`') => return Err(shell_syntax(c)),
            '\\' => match next()? {
                c @ ('"' | '\\' | '$' | '`') => word.push(c),
                c => word.extend(['\\', c]),
            },
            c => word.push(c),
        }
    }
}

fn shell_syntax(c: char) -> (String, String) {
    (
        format!("the command runs without a shell, so {c:?} would be plain text"),
        "put it in single quotes, or run a shell: command:sh -c '…'".to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Result<Vec<String>, String> {
        split_command(line).map_err(|(what, _)| what)
    }

    #[test]
    fn commands_are_split_as_a_shell_splits_them() {
        let ok = |line, want: &[&str]| assert_eq!(words(line).unwrap(), want, "{line:?}");
        ok("gh auth token", &["gh", "auth", "token"]);
        ok("  a\t b  ", &["a", "b"]);
        ok("sh -c 'echo \"$X\" | tr a b'", &["sh", "-c", "echo \"$X\" | tr a b"]);
        ok(r#"a "b \"c\" \x" d\ e ''"#, &["a", r#"b "c" \x"#, "d e", ""]);
        ok("a'b'\"c\"d", &["abcd"]);
        ok("", &[]);
    }

    #[test]
    fn what_a_shell_would_act_on_is_refused() {
        for line in ["echo $HOME", "a | b", "a; b", "a && b", "a > b", "echo `id`", "echo \"$HOME\"", "ls *"] {
            assert!(words(line).is_err_and(|what| what.contains("without a shell")), "{line:?}");
        }
        for line in ["'a", "\"a", "a\\", "\"a\\"] {
            assert!(words(line).is_err_and(|what| what.contains("ends inside")), "{line:?}");
        }
    }

    #[test]
    fn bindings_are_taken_apart() {
        let split = |text| split_binding(text).unwrap();
        assert_eq!(split("a.test X: {K}"), ("a.test", None, "X", "{K}"));
        assert_eq!(split("a.test:8443/v1/ X-Y:Bearer {K}"), ("a.test:8443", Some("/v1/"), "X-Y", "Bearer {K}"));
        assert_eq!(split("[::1]:8443/a  X:  b: {K}"), ("[::1]:8443", Some("/a"), "X", "b: {K}"));
        assert_eq!(split("https://a.test/v1 X: {K}"), ("https://a.test/v1", None, "X", "{K}"));
        assert_eq!(split_binding("a.test"), None);
        assert_eq!(split_binding("a.test Authorization {K}"), None);
    }

    #[test]
    fn the_secret_in_a_value_is_found_among_other_braces() {
        assert_eq!(secrets_in("Bearer {K}"), [("Bearer ", "K", "")]);
        assert_eq!(secrets_in("{\"token\":\"{K}\"}"), [("{\"token\":\"", "K", "\"}")]);
        assert_eq!(secrets_in("{A}:{B}").len(), 2);
        assert_eq!(secrets_in("{} { K } {a b}").len(), 0);
    }
}
