//! Names of refs.

use super::super::denial::{Code, OutOfScope};

/// The longest name of a ref, in bytes.
pub const NAME_MAX: usize = 1024;

/// Whether a full name is one that git accepts (git check-ref-format), and no shell or git command takes for an option.
///
/// # Errors
/// What is wrong with it.
pub fn check_name(name: &str) -> Result<(), &'static str> {
    let refused = |byte: u8| byte <= b' ' || byte == 0x7f || b"~^:?*[\\".contains(&byte);
    let short = name.strip_prefix("refs/heads/").or_else(|| name.strip_prefix("refs/tags/")).unwrap_or(name);
    if name.len() > NAME_MAX {
        Err("it is longer than 1024 bytes")
    } else if name.bytes().any(refused) {
        Err("a space, a control character or one of ~^:?*[\\ is in it")
    } else if name.contains("..") || name.contains("@{") || name == "@" {
        Err("`..`, `@{` or a lone `@` is in it")
    } else if name.split('/').any(|part| part.is_empty() || part.starts_with('.') || part.ends_with(".lock")) {
        Err("a part of it is empty, begins with a dot or ends in .lock")
    } else if name.ends_with('.') {
        Err("it ends with a dot")
    } else if short.starts_with('-') {
        Err("it begins with a dash")
    } else {
        Ok(())
    }
}

/// The full name of a ref that the REST paths of refs name without `refs/`.
///
/// # Errors
/// [`Code::Malformed`] for what is no name of a ref.
pub fn full_ref(name: &str) -> Result<String, OutOfScope> {
    checked(if name.starts_with("refs/") { name.to_owned() } else { format!("refs/{name}") })
}

/// The full name of a branch, where one is named by its short name or by its full one.
///
/// # Errors
/// [`Code::Malformed`] for what is no name of a branch, and for what git would also find elsewhere: `heads/main` is `main`,
/// too.
pub fn branch_ref(name: &str) -> Result<String, OutOfScope> {
    let short = name.strip_prefix("refs/heads/").unwrap_or(name);
    let elsewhere = ["refs/", "heads/", "tags/", "remotes/"].iter().any(|prefix| short.starts_with(prefix));
    if elsewhere || matches!(short, "HEAD" | "@") {
        return Err(ambiguous(name));
    }
    checked(format!("refs/heads/{short}"))
}

fn checked(name: String) -> Result<String, OutOfScope> {
    match check_name(&name) {
        Ok(()) => Ok(name),
        Err(why) => Err(OutOfScope::new(Code::Malformed, format!("no name of a ref, {why}: {}", name.escape_debug()))),
    }
}

fn ambiguous(name: &str) -> OutOfScope {
    let message =
        format!("write a branch by its short or its full name, this may be read in two ways: {}", name.escape_debug());
    OutOfScope::new(Code::Malformed, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_git_accepts() {
        for name in [
            "refs/heads/main",
            "refs/heads/a/-b",
            "refs/heads/@",
            "refs/heads/é",
            "refs/notes/x",
            "HEAD",
            "refs/tags/v1.0",
        ] {
            assert_eq!(check_name(name), Ok(()), "{name}");
        }
    }

    #[test]
    fn names_that_git_or_we_refuse() {
        let long = format!("refs/heads/{}", "a".repeat(NAME_MAX));
        let names = [
            "",
            "@",
            "/",
            "refs//heads",
            "refs/heads/",
            "/refs/heads/a",
            "refs/heads/a b",
            "refs/heads/a\tb",
            "refs/heads/a\u{7f}",
            "refs/heads/a..b",
            "refs/heads/a~1",
            "refs/heads/a^",
            "refs/heads/a:b",
            "refs/heads/a?",
            "refs/heads/a*",
            "refs/heads/a[b",
            "refs/heads/a\\b",
            "refs/heads/a.lock",
            "refs/heads/a.lock/b",
            "refs/heads/.a",
            "refs/heads/a.",
            "refs/heads/a@{1}",
            "refs/heads/-a",
            "refs/tags/-a",
            "-a",
            "refs/heads/a\nb",
            "refs/heads/a\0b",
            &long,
        ];
        for name in names {
            assert!(check_name(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn short_names_become_full_ones() {
        assert_eq!(full_ref("heads/x").as_deref(), Ok("refs/heads/x"));
        assert_eq!(full_ref("refs/heads/x").as_deref(), Ok("refs/heads/x"));
        assert_eq!(full_ref("x").as_deref(), Ok("refs/x"), "no branch");
        assert_eq!(full_ref("heads/../x").unwrap_err().code, Code::Malformed);
        assert_eq!(branch_ref("agent/x").as_deref(), Ok("refs/heads/agent/x"));
        assert_eq!(branch_ref("refs/heads/x").as_deref(), Ok("refs/heads/x"));
        for name in ["heads/x", "refs/tags/x", "tags/x", "refs/heads/refs/heads/x", "HEAD", "@", "", "remotes/x/y"] {
            assert_eq!(branch_ref(name).unwrap_err().code, Code::Malformed, "{name}");
        }
    }
}
