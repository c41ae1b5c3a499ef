//! What the policy hides (`deny_read`), and what it shows in it (`allow_read`).
//!
//! A directory is covered by an empty one. Where something in it is to be shown, the empty one has the names on the way to
//! it, and the place itself is bound there.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use super::control::Failure;
use super::limits::check_is_same;
use super::mounts::{self, bind, hold_itself, made};
use super::plan::{FilePlan, Plan, Tree};

/// What is to be done, with what that takes made ready.
pub(super) struct Hiding<'a> {
    files: Option<&'a FilePlan>,
    /// For each masked directory with something to be shown in it: what to cover it with.
    skeletons: BTreeMap<&'a Path, PathBuf>,
}

/// Makes what covers directories, on the stage.
pub(super) fn prepare<'a>(plan: &'a Plan, stage: &Path) -> Result<Hiding<'a>, Failure> {
    let mut skeletons = BTreeMap::new();
    let Some(files) = &plan.files else { return Ok(Hiding { files: None, skeletons }) };
    for mask in files.masked.iter().map(Path::new) {
        let inside = shown_in(files, mask);
        if inside.is_empty() {
            continue;
        }
        let skeleton = stage.join(format!("hidden-{}", skeletons.len()));
        made(&skeleton, std::fs::create_dir(&skeleton))?;
        for place in inside {
            make_way(&skeleton, mask, place)?;
        }
        skeletons.insert(mask, skeleton);
    }
    Ok(Hiding { files: Some(files), skeletons })
}

/// What is shown in a masked directory, but for what lies in something else that is.
fn shown_in<'a>(files: &'a FilePlan, mask: &Path) -> Vec<&'a Path> {
    let below = |place: &&Path| place.starts_with(mask) && *place != mask;
    let shown: Vec<&Path> = files.shown.iter().map(Tree::path).filter(below).collect();
    let lies_in_another = |place: &Path| shown.iter().any(|outer| place.starts_with(outer) && place != *outer);
    shown.iter().copied().filter(|place| !lies_in_another(place)).collect()
}

/// Makes the directories on the way to a place, and something to bind it onto.
fn make_way(skeleton: &Path, mask: &Path, place: &Path) -> Result<(), Failure> {
    let Ok(inside) = place.strip_prefix(mask) else { return Ok(()) };
    let target = skeleton.join(inside);
    if place.is_dir() {
        return made(&target, std::fs::create_dir_all(&target));
    }
    let above = target.parent().unwrap_or(skeleton);
    made(above, std::fs::create_dir_all(above))?;
    made(&target, std::fs::write(&target, ""))
}

impl Hiding<'_> {
    /// Hides and shows, the outer places first. `directory` and `file` are empty.
    pub(super) fn hide(self, directory: &Path, file: &Path) -> Result<(), Failure> {
        let Some(files) = self.files else { return Ok(()) };
        let mut steps: Vec<Step<'_>> = files.masked.iter().map(|mask| Step::Hide(Path::new(mask))).collect();
        // Held before anything covers them.
        for tree in &files.shown {
            if let Some(held) = hold_itself(tree.path())? {
                check_is_same(tree, &held)?;
                steps.push(Step::Show(tree.path(), held));
            }
        }
        steps.sort_by_key(|step| step.path().to_owned());
        for step in &steps {
            match step {
                Step::Hide(mask) => {
                    let cover = self.skeletons.get(mask).map_or(directory, PathBuf::as_path);
                    mounts::hide(mask, cover, file)?;
                }
                Step::Show(place, held) => bind(held, place)?,
            }
        }
        Ok(())
    }
}

enum Step<'a> {
    Hide(&'a Path),
    Show(&'a Path, OwnedFd),
}

impl Step<'_> {
    fn path(&self) -> &Path {
        match self {
            Self::Hide(path) | Self::Show(path, _) => path,
        }
    }
}
