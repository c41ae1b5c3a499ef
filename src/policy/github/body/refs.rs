//! Names of refs, as REST's bodies and paths have them.

use super::super::denial::OutOfScope;
use super::super::route::Shown;
use super::super::target::malformed;

/// The full name of a branch that is named without `refs/heads/` or with it.
pub(super) fn branch(name: &str) -> Result<String, OutOfScope> {
    let short = name.strip_prefix("refs/heads/").unwrap_or(name);
    // Git itself finds `heads/main` by the name of the branch `main`.
    if ["refs/", "heads/", "tags/", "remotes/"].iter().any(|start| short.starts_with(start)) || short == "HEAD" {
        return Err(odd(name));
    }
    full(format!("refs/heads/{short}"))
}

/// The full name of a tag that is named without `refs/tags/`.
pub(super) fn tag(name: &str) -> Result<String, OutOfScope> {
    if ["refs/", "tags/", "heads/"].iter().any(|start| name.starts_with(start)) {
        return Err(odd(name));
    }
    full(format!("refs/tags/{name}"))
}

/// A full name, which git has to accept.
pub(super) fn full(name: String) -> Result<String, OutOfScope> {
    let legal = |part: &str| {
        !part.is_empty()
            && !part.starts_with(['.', '-'])
            && !part.ends_with('.')
            && !part.ends_with(".lock")
            && part != "@"
    };
    let character = |char: char| !char.is_control() && !matches!(char, ' ' | '~' | '^' | ':' | '?' | '*' | '[' | '\\');
    let good = name.len() <= 1024
        && name.starts_with("refs/")
        && !name.starts_with("refs/refs/")
        && name.split('/').count() >= 3
        && name.split('/').all(legal)
        && name.chars().all(character)
        && !name.contains("..")
        && !name.contains("@{");
    if good { Ok(name) } else { Err(odd(&name)) }
}

fn odd(name: &str) -> OutOfScope {
    malformed(format!("{} is no name of a branch or tag that can be checked", Shown(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branches_have_one_name() {
        assert_eq!(branch("agent/x").unwrap(), "refs/heads/agent/x");
        assert_eq!(branch("refs/heads/main").unwrap(), "refs/heads/main");
        let odd = [
            "",
            "heads/main",
            "refs/tags/v1",
            "tags/v1",
            "refs/heads/heads/main",
            "refs/heads/refs/heads/main",
            "a..b",
            "a b",
            "/a",
            "a/",
            "a//b",
            "a.lock",
            ".a",
            "a/.b",
            "-a",
            "a~1",
            "a^",
            "a:b",
            "a@{1}",
            "a\n",
            "HEAD",
            "@",
            "a*",
            "a\\b",
        ];
        for name in odd {
            assert!(branch(name).is_err(), "{name}");
        }
        assert_eq!(tag("v1.0").unwrap(), "refs/tags/v1.0");
        assert!(tag("refs/heads/main").is_err());
    }
}
