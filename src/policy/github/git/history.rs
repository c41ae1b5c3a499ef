//! Whether a push drops commits, by what its pack holds: git sends a forced move and an ordinary one alike.
//!
//! A commit counts only by the hash of its own bytes, so that nothing can be made up: whoever finds `old` from `new` here has
//! found what GitHub will find. Nothing rests on the pack's checksum, which GitHub verifies.

use std::collections::{HashMap, HashSet};
use std::io::{Read, Seek};

use aws_lc_rs::digest;

use super::receive::ObjectFormat;
use source::{Kind, Source};

mod delta;
mod source;

/// The longest pack that is read, in bytes. A longer one is not to be spooled to its end.
pub const PACK_MAX: u64 = 256 << 20;

/// The most objects, and the most commits among them.
const OBJECTS_MAX: u32 = 4_000_000;
const COMMITS_MAX: usize = 200_000;
/// The most deltas that may be of commits.
const DELTAS_MAX: usize = 1_000_000;
/// The longest commit, in bytes.
const COMMIT_MAX: u64 = 1 << 20;
/// How many bytes of commits are held at once, while deltas on deltas are resolved.
const HELD_MAX: usize = 64 << 20;
/// How many commits all questions about one pack may look at together.
const STEPS_MAX: usize = 2_000_000;
/// The most commits of GitHub's that one answer asks about.
const BOUNDARY_MAX: usize = 20;

/// An object id, of SHA-1 with zeros behind it.
type Oid = [u8; 32];

/// The commits of a pack and their parents.
#[derive(Debug)]
pub struct History {
    format: ObjectFormat,
    commits: HashMap<Oid, Box<[Oid]>>,
    steps: usize,
}

/// What a pack says of a move of a ref.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ancestry {
    /// `old` is an ancestor of `new`, or is it.
    FastForward,
    /// `old` is not among the commits of the pack; the walk left the pack for these, which GitHub has to have. It is a fast-forward
    /// where GitHub's comparison says of one of them that it is ahead of `old` or identical, and else not.
    Boundary(Vec<String>),
    /// All of the history of `new` is in the pack, and `old` is not in it.
    Force,
    /// A bound was met.
    Unknown,
}

/// Why a pack says nothing; the move is not shown to be a fast-forward then.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// It could not be read.
    #[error("the pack could not be read")]
    Io(#[from] std::io::Error),
    /// It is none.
    #[error("the pack is damaged: {0}")]
    Damaged(&'static str),
    /// A bound was met.
    #[error("the pack is too large to be checked: {0}")]
    Bound(&'static str),
}

/// A delta that may be of a commit.
#[derive(Clone, Copy, Debug)]
struct Delta {
    object: u64,
    data: u64,
    size: u64,
}

/// A commit and the deltas on it that are still to be resolved.
struct Base {
    content: Vec<u8>,
    deltas: Vec<Delta>,
}

/// What one look at every object of a pack finds.
#[derive(Default)]
struct Found {
    /// Commits that are there whole: where their object and their data begin, their sizes and ids.
    whole: Vec<(Delta, Oid)>,
    /// Deltas by where their base begins, and by their base's id.
    by_offset: HashMap<u64, Vec<Delta>>,
    by_oid: HashMap<Oid, Vec<Delta>>,
    /// Where commits and deltas on commits begin.
    commitish: HashSet<u64>,
    deltas: usize,
}

impl History {
    /// Reads a pack, from where the reader stands. It takes memory for commits only, and time for at most 2 GiB of unpacked
    /// objects; both are not for a thread that serves others.
    ///
    /// # Errors
    /// [`HistoryError`] for what is no pack and what is over a bound.
    pub fn read<R: Read + Seek>(reader: &mut R, format: ObjectFormat) -> Result<Self, HistoryError> {
        let mut source = Source::new(reader)?;
        let mut history = Self { format, commits: HashMap::new(), steps: STEPS_MAX };
        let found = history.look(&mut source)?;
        history.resolve(&mut source, found)?;
        Ok(history)
    }

    /// Whether a move from `old` to `new` drops commits.
    pub fn judge(&mut self, old: &str, new: &str) -> Ancestry {
        let (Some(old), Some(new)) = (self.parse(old.as_bytes()), self.parse(new.as_bytes())) else {
            return Ancestry::Unknown;
        };
        let mut seen = HashSet::from([new]);
        let mut open = vec![new];
        let mut boundary = Vec::new();
        while let Some(oid) = open.pop() {
            if oid == old {
                return Ancestry::FastForward;
            }
            let Some(steps) = self.steps.checked_sub(1) else { return Ancestry::Unknown };
            self.steps = steps;
            match self.commits.get(&oid) {
                Some(parents) => open.extend(parents.iter().filter(|&parent| seen.insert(*parent))),
                None => boundary.push(oid),
            }
        }
        match boundary.len() {
            0 => Ancestry::Force,
            1..=BOUNDARY_MAX => Ancestry::Boundary(boundary.iter().map(|oid| self.text(oid)).collect()),
            _ => Ancestry::Unknown,
        }
    }

    fn look<R: Read + Seek>(&mut self, source: &mut Source<'_, R>) -> Result<Found, HistoryError> {
        let mut found = Found::default();
        let count = source.header()?;
        if count > OBJECTS_MAX {
            return Err(HistoryError::Bound("more than 4000000 objects"));
        }
        for _ in 0..count {
            let object = source.offset();
            let (kind, size) = source.object(self.format.digits() / 2)?;
            let entry = Delta { object, data: source.offset(), size };
            if kind == Kind::Commit {
                let oid = self.add(&source.kept(size)?)?;
                found.whole.push((entry, oid));
                found.commitish.insert(object);
                continue;
            }
            source.skip(size)?;
            match kind {
                Kind::OnOffset(back) => {
                    let base = object.checked_sub(back).ok_or(HistoryError::Damaged("a delta on nothing"))?;
                    // Its base came before it, so that it is known by now whether that is a commit.
                    if found.commitish.contains(&base) {
                        found.by_offset.entry(base).or_default().push(entry);
                        found.delta(object)?;
                    }
                }
                Kind::OnId(base) => {
                    found.by_oid.entry(base).or_default().push(entry);
                    found.delta(object)?;
                }
                Kind::Commit | Kind::Other => {}
            }
        }
        Ok(found)
    }

    fn resolve<R: Read + Seek>(&mut self, source: &mut Source<'_, R>, mut found: Found) -> Result<(), HistoryError> {
        for (entry, oid) in std::mem::take(&mut found.whole) {
            let deltas = found.on(entry.object, &oid);
            if deltas.is_empty() {
                continue;
            }
            source.seek(entry.data)?;
            let content = source.kept(entry.size)?;
            let mut held = content.len();
            let mut bases = vec![Base { content, deltas }];
            while let Some(base) = bases.last_mut() {
                let Some(delta) = base.deltas.pop() else {
                    held -= base.content.len();
                    bases.pop();
                    continue;
                };
                source.seek(delta.data)?;
                let content = delta::apply(&base.content, &source.kept(delta.size)?, COMMIT_MAX)?;
                source.charge(content.len() as u64)?;
                let oid = self.add(&content)?;
                let deltas = found.on(delta.object, &oid);
                if !deltas.is_empty() {
                    held += content.len();
                    if held > HELD_MAX {
                        return Err(HistoryError::Bound("its commits are deltas on deltas of too many bytes"));
                    }
                    bases.push(Base { content, deltas });
                }
            }
        }
        Ok(())
    }

    fn add(&mut self, content: &[u8]) -> Result<Oid, HistoryError> {
        if self.commits.len() == COMMITS_MAX {
            return Err(HistoryError::Bound("more than 200000 commits"));
        }
        let algorithm = match self.format {
            ObjectFormat::Sha1 => &digest::SHA1_FOR_LEGACY_USE_ONLY,
            ObjectFormat::Sha256 => &digest::SHA256,
        };
        let mut context = digest::Context::new(algorithm);
        context.update(format!("commit {}\0", content.len()).as_bytes());
        context.update(content);
        let hash = context.finish();
        let mut oid = Oid::default();
        oid[..hash.as_ref().len()].copy_from_slice(hash.as_ref());
        let parents = self.parents(content).ok_or(HistoryError::Damaged("a commit without a tree"))?;
        self.commits.insert(oid, parents);
        Ok(oid)
    }

    /// The parents that a commit names. They stand behind its tree and before all else.
    fn parents(&self, content: &[u8]) -> Option<Box<[Oid]>> {
        let mut lines = content.split(|&byte| byte == b'\n');
        lines.next()?.strip_prefix(b"tree ").and_then(|id| self.parse(id))?;
        Some(lines.map_while(|line| line.strip_prefix(b"parent ").and_then(|id| self.parse(id))).collect())
    }

    fn parse(&self, text: &[u8]) -> Option<Oid> {
        if text.len() != self.format.digits() {
            return None;
        }
        let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        let mut oid = Oid::default();
        for (to, pair) in oid.iter_mut().zip(text.chunks_exact(2)) {
            *to = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Some(oid)
    }

    fn text(&self, oid: &Oid) -> String {
        oid[..self.format.digits() / 2].iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl Found {
    fn delta(&mut self, object: u64) -> Result<(), HistoryError> {
        self.commitish.insert(object);
        self.deltas += 1;
        if self.deltas > DELTAS_MAX { Err(HistoryError::Bound("more than 1000000 deltas")) } else { Ok(()) }
    }

    /// Takes the deltas on an object out.
    fn on(&mut self, object: u64, oid: &Oid) -> Vec<Delta> {
        let mut deltas = self.by_offset.remove(&object).unwrap_or_default();
        deltas.extend(self.by_oid.remove(oid).unwrap_or_default());
        deltas
    }
}

#[cfg(test)]
mod tests;
