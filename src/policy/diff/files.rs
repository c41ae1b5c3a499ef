//! What one policy lets a command do with files and sockets that another does not. Paths are compared as they are written: two
//! may be names of one place, so that nothing here is certain but what is about no path.

use super::super::files::{FileLimits, FilePath, FilePolicy, UnixSockets};
use super::More;

pub(super) fn more(ours: &FilePolicy, theirs: &FilePolicy) -> Vec<More> {
    let mut found = Vec::new();
    match (&ours.limits, &theirs.limits) {
        (_, None) => {}
        (None, Some(_)) => {
            found.push(finding(true, "every file of the user may be written and read (files)".to_owned()))
        }
        (Some(ours), Some(theirs)) => limits(ours, theirs, &mut found),
    }
    sockets(&ours.unix_sockets, &theirs.unix_sockets, &mut found);
    found
}

fn limits(ours: &FileLimits, theirs: &FileLimits, found: &mut Vec<More>) {
    let mut say = |paths: Vec<&FilePath>, what: &str| {
        found.extend(paths.into_iter().map(|path| finding(false, format!("{path} {what}"))));
    };
    say(beyond(&ours.allow_write, &theirs.allow_write), "may be written (files.allow_write)");
    say(beyond(&theirs.deny_write, &ours.deny_write), "is not denied to be written (files.deny_write)");
    say(beyond(&theirs.deny_read, &ours.deny_read), "is not hidden (files.deny_read)");
    // The innermost decides: what theirs shows it by has to lie below what theirs hides it by.
    let depth =
        |path: &FilePath, list: &[FilePath]| list.iter().filter(|known| path.lies_in(known)).map(FilePath::depth).max();
    let their_shown: Vec<FilePath> = theirs.allow_read.iter().chain(&theirs.allow_write).cloned().collect();
    let is_hidden = |path: &&FilePath| {
        depth(path, &theirs.deny_read)
            .is_some_and(|hidden| depth(path, &their_shown).is_none_or(|shown| shown < hidden))
    };
    let shown = ours.allow_read.iter().chain(&ours.allow_write).filter(is_hidden).collect();
    say(shown, "is shown in what is hidden (files.allow_read, files.allow_write)");
    if ours.allow_git_config && !theirs.allow_git_config {
        found.push(finding(true, "settings of git repositories may be written (files.allow_git_config)".to_owned()));
    }
}

fn sockets(ours: &UnixSockets, theirs: &UnixSockets, found: &mut Vec<More>) {
    let known = match theirs {
        UnixSockets::All => return,
        UnixSockets::Masked => &[][..],
        UnixSockets::Listed(paths) => paths.as_slice(),
    };
    match ours {
        UnixSockets::Masked => {}
        UnixSockets::All => {
            found.push(finding(true, "every socket of the host is shown (files.unix_sockets)".to_owned()));
        }
        UnixSockets::Listed(paths) => {
            let what = |path: &FilePath| format!("the socket {path} is shown (files.unix_sockets)");
            found.extend(beyond(paths, known).into_iter().map(|path| finding(false, what(path))));
        }
    }
}

/// What lies below none of `known`.
fn beyond<'a>(paths: &'a [FilePath], known: &[FilePath]) -> Vec<&'a FilePath> {
    paths.iter().filter(|path| !known.iter().any(|known| path.lies_in(known))).collect()
}

fn finding(certain: bool, what: String) -> More {
    More { certain, what, place: None, example: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{NamedText, PolicyOptions, load};

    fn said(ours: &str, theirs: &str) -> Vec<String> {
        let files = |text: &str| {
            let text = NamedText { name: "p.toml".to_owned(), text: text.to_owned() };
            load(&[text], &PolicyOptions::default()).unwrap().files
        };
        more(&files(ours), &files(theirs)).into_iter().map(|more| more.what).collect()
    }

    macro_rules! differences {
        ($($test:ident: $ours:literal, $theirs:literal => $expected:expr;)*) => {
            $(#[test]
            fn $test() {
                let expected: &[&str] = &$expected;
                assert_eq!(said($ours, $theirs), expected);
            })*
        };
    }

    differences! {
        alike: "[files]\nallow_write = [\".\"]", "[files]\nallow_write = [\".\"]" => [];
        no_limits: "", "[files]\nallow_write = [\".\"]" => ["every file of the user may be written and read (files)"];
        limits_where_there_were_none: "[files]\nallow_write = [\"/\"]", "" => [];
        below_what_is_known: "[files]\nallow_write = [\"a/b\"]", "[files]\nallow_write = [\"a\"]" => [];
        above_what_is_known: "[files]\nallow_write = [\"a\"]", "[files]\nallow_write = [\"a/b\"]" =>
            ["./a may be written (files.allow_write)"];
        a_denial_less: "[files]\ndeny_read = [\"~/x\"]", "[files]\ndeny_read = [\"~\"]\ndeny_write = [\"y\"]" =>
            ["./y is not denied to be written (files.deny_write)", "~ is not hidden (files.deny_read)"];
        more_is_shown: "[files]\ndeny_read = [\"~\"]\nallow_read = [\"~/x\"]", "[files]\ndeny_read = [\"~\"]" =>
            ["~/x is shown in what is hidden (files.allow_read, files.allow_write)"];
        shown_in_what_is_hidden_in_what_is_written: "[files]\nallow_write = [\".\"]\ndeny_read = [\"x\"]\nallow_read = [\"x/y\"]", "[files]\nallow_write = [\".\"]\ndeny_read = [\"x\"]" =>
            ["./x/y is shown in what is hidden (files.allow_read, files.allow_write)"];
        git: "[files]\nallow_git_config = true", "[files]\nallow_git_config = false" =>
            ["settings of git repositories may be written (files.allow_git_config)"];
        a_socket: "[files]\ndisabled = true\nunix_sockets = [\"/run/x\"]", "[files]\ndisabled = true" =>
            ["the socket /run/x is shown (files.unix_sockets)"];
        every_socket: "[files]\ndisabled = true\nunix_sockets = \"all\"", "[files]\ndisabled = true" =>
            ["every socket of the host is shown (files.unix_sockets)"];
    }
}
