//! `--gitlab-settings`: an administrator's settings, and the lists of hosts that they name.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::policy::{GitlabSettings, NamedText, recommended_directory};

use super::policy_options::{read_policy, unreadable};

/// How many further lists there may be.
const MOST: usize = 256;

/// Reads the file, and every `*.txt` file in the directory that it names, in the order of their names. `open` opens each of
/// them, the directory too, as what steers a run.
///
/// # Errors
/// What cannot be read, more than 256 lists, and a directory into which the command could write another list since it works
/// there. What is wrong inside the files is told when they are compiled.
pub fn read(path: &Path, mut open: impl FnMut(&Path) -> Result<File>) -> Result<GitlabSettings> {
    let file = text(path, &mut open)?;
    let Some(directory) = recommended_directory(&file) else {
        return Ok(GitlabSettings { file, recommended: Vec::new() });
    };
    let context = || format!("cannot read the directory {} (`recommended_directory`)", directory.display());
    let lists = lists(&open(&directory).with_context(context)?, &directory).with_context(context)?;
    let recommended = lists.iter().map(|list| text(list, &mut open)).collect::<Result<_>>()?;
    Ok(GitlabSettings { file, recommended })
}

fn text(path: &Path, open: &mut impl FnMut(&Path) -> Result<File>) -> Result<NamedText> {
    read_policy(open(path).with_context(|| unreadable(path))?, path)
}

/// By the descriptor, so that what is read is what was opened.
fn lists(opened: &File, directory: &Path) -> Result<Vec<PathBuf>> {
    let descriptor = PathBuf::from(format!("/proc/self/fd/{}", opened.as_raw_fd()));
    let working = std::env::current_dir().context("the working directory cannot be told")?;
    ensure!(
        !working.starts_with(std::fs::read_link(&descriptor)?),
        "the command could write a list there, as it works there; name a directory that does not hold the working directory"
    );
    let mut lists = Vec::new();
    for entry in std::fs::read_dir(&descriptor)? {
        let name = PathBuf::from(entry?.file_name());
        lists.extend((name.extension() == Some("txt".as_ref())).then(|| directory.join(name)));
    }
    ensure!(lists.len() <= MOST, "it holds more than {MOST} lists");
    lists.sort();
    Ok(lists)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory of its own, removed when the test ends.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("sandbox-proxy-gitlab-{}-{name}", std::process::id()));
            std::fs::create_dir_all(path.join("lists")).unwrap();
            Self(path)
        }

        fn file(&self, name: &str, text: &str) -> PathBuf {
            std::fs::write(self.0.join(name), text).unwrap();
            self.0.join(name)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn lists_are_read_by_name_and_everything_is_opened_once() {
        let scratch = Scratch::new("lists");
        let settings = scratch.file("admin.yml", "recommended_directory: lists");
        let lists = ["lists/b.txt", "lists/a.txt"].map(|name| scratch.file(name, name));
        scratch.file("lists/readme.md", "no list");
        let mut opened = Vec::new();
        let read = read(&settings, |path| {
            opened.push(path.to_owned());
            Ok(File::open(path)?)
        });
        let texts: Vec<String> = read.unwrap().recommended.into_iter().map(|list| list.text).collect();
        assert_eq!(texts, ["lists/a.txt", "lists/b.txt"]);
        let [b, a] = lists;
        assert_eq!(opened, [settings, scratch.0.join("lists"), a, b]);
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let scratch = Scratch::new("unreadable");
        let told = |text: &str| {
            let settings = scratch.file("admin.yml", text);
            format!("{:#}", read(&settings, |path| Ok(File::open(path)?)).unwrap_err())
        };
        assert!(told("recommended_directory: nowhere").contains("nowhere (`recommended_directory`): No such file"));
        assert!(told("recommended_directory: admin.yml").contains("(`recommended_directory`): Not a directory"));
        assert!(told("recommended_directory: /").contains("the command could write a list there"));
        (0..=MOST).for_each(|n| drop(scratch.file(&format!("lists/{n}.txt"), "")));
        assert!(told("recommended_directory: lists").contains("it holds more than 256 lists"));
    }
}
