//! Finding the values of secrets in what comes back, however they are spelled, and masking them byte for byte.
//!
//! A match becomes as many `*` as it has bytes, so no length that stands around it becomes wrong. Nothing here knows HTTP.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use zeroize::{Zeroize, Zeroizing};

use crate::types::Secret;

use super::renew::Keeper;

mod spellings;

const MASK: u8 = b'*';
/// The longest window of the search, which fits its steps into a byte.
const WINDOW: usize = 255;

/// What is looked for: every spelling of some secrets. Wiped on drop; `Debug` shows how many there are.
///
/// The search is that of Wu and Manber with blocks of two bytes: a table says for every two bytes how far the window may
/// move on, so that its cost does not depend on how many spellings there are. 64 KiB for the table, and for a value of `n`
/// bytes up to about `100 n` for its spellings.
pub struct Scrubber {
    forms: Vec<Form>,
    window: usize,
    longest: usize,
    steps: Zeroizing<Vec<u8>>,
}

struct Form {
    bytes: Zeroizing<Vec<u8>>,
    /// The last two bytes of its first window.
    block: usize,
}

/// Where something was found, as offsets.
type Found = Vec<(usize, usize)>;

impl Scrubber {
    /// Looks for the values of these secrets.
    pub fn new<'a>(secrets: impl IntoIterator<Item = &'a Secret>) -> Self {
        let mut texts = Vec::new();
        for secret in secrets {
            spellings::add(secret.expose(), &mut texts);
        }
        let window = texts.iter().map(|text| text.len()).min().unwrap_or(WINDOW).min(WINDOW);
        let longest = texts.iter().map(|text| text.len()).max().unwrap_or(0);
        let mut steps = Zeroizing::new(vec![u8::try_from(window.saturating_sub(1)).unwrap_or(u8::MAX).max(1); 1 << 16]);
        let mut forms = Vec::with_capacity(texts.len());
        for text in texts {
            for (at, pair) in text[..window].windows(2).enumerate() {
                let step = &mut steps[block(pair[0], pair[1])];
                *step = (*step).min(u8::try_from(window - 2 - at).unwrap_or(u8::MAX));
            }
            let block = if window < 2 { 0 } else { block(text[window - 2], text[window - 1]) };
            forms.push(Form { block, bytes: text });
        }
        Self { forms, window, longest, steps }
    }

    /// Masks what is found in a whole text; false when there was nothing.
    pub fn mask_in_place(&self, text: &mut [u8]) -> bool {
        let found = self.find(text);
        found.iter().for_each(|(from, to)| text[*from..*to].fill(MASK));
        !found.is_empty()
    }

    /// Whether anything stands in a text.
    pub fn is_in(&self, text: &[u8]) -> bool {
        !self.find(text).is_empty()
    }

    /// The same for a text that has lost its capitals, such as a header's name: for short ones, since it is slow.
    pub fn is_in_small_letters(&self, text: &[u8]) -> bool {
        let stands = |form: &Form| text.windows(form.bytes.len()).any(|part| part.eq_ignore_ascii_case(&form.bytes));
        self.forms.iter().any(stands)
    }

    fn find(&self, text: &[u8]) -> Found {
        let mut found = Vec::new();
        let mut at = 0;
        while at + self.window <= text.len() {
            let end = at + self.window;
            let block = if self.window < 2 { 0 } else { block(text[end - 2], text[end - 1]) };
            let step = if self.window < 2 { 0 } else { self.steps[block] };
            if step == 0 {
                let here = self.forms.iter().filter(|form| form.block == block && text[at..].starts_with(&form.bytes));
                found.extend(here.map(|form| (at, at + form.bytes.len())));
            }
            at += usize::from(step.max(1));
        }
        found
    }
}

fn block(first: u8, second: u8) -> usize {
    usize::from(first) << 8 | usize::from(second)
}

impl fmt::Debug for Scrubber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Scrubber({} spellings)", self.forms.len())
    }
}

/// The values that the answers of one host are searched for. They may be renewed while answers are under way, and those before
/// stay searched for as long as their keepers remember them.
pub struct Watch {
    keepers: Vec<Arc<Keeper>>,
    made: Mutex<Made>,
}

/// The scrubber for the values of these generations.
struct Made {
    generations: Vec<u64>,
    scrubber: Arc<Scrubber>,
}

impl Watch {
    /// Of the values that these keep.
    pub fn new(keepers: Vec<Arc<Keeper>>) -> Self {
        let made = Made { generations: Vec::new(), scrubber: Arc::new(Scrubber::new([])) };
        Self { keepers, made: Mutex::new(made) }
    }

    /// Of values that stay.
    pub fn fixed(scrubber: Scrubber) -> Self {
        let made = Made { generations: Vec::new(), scrubber: Arc::new(scrubber) };
        Self { keepers: Vec::new(), made: Mutex::new(made) }
    }

    /// For the values that there are now. To be asked again for every piece, which costs little while they stay.
    pub fn current(&self) -> Arc<Scrubber> {
        let seen: Vec<_> = self.keepers.iter().flat_map(|keeper| keeper.seen()).collect();
        // Nothing panics while it is locked.
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if !made.generations.iter().copied().eq(seen.iter().map(|live| live.generation)) {
            made.scrubber = Arc::new(Scrubber::new(seen.iter().map(|live| &live.secret)));
            made.generations = seen.iter().map(|live| live.generation).collect();
        }
        Arc::clone(&made.scrubber)
    }
}

/// A text that comes in pieces. Its end is held back, since a value may begin there: as much of it as is shorter than the longest
/// spelling, and stands behind the last control character, which no spelling holds. So lines, and events, never wait.
///
/// Whether it looks like the beginning of a value makes no difference. If it did, whoever can choose a text could tell from the
/// sizes of what arrives how the value begins, and find it out character by character.
pub struct Stream {
    values: Arc<Watch>,
    scrubber: Arc<Scrubber>,
    /// As it came.
    held: Zeroizing<Vec<u8>>,
    /// So many bytes of it are the end of something that was found.
    owed: usize,
}

impl Stream {
    /// At the beginning of a text.
    pub fn new(values: Arc<Watch>) -> Self {
        let scrubber = values.current();
        Self { values, scrubber, held: Zeroizing::default(), owed: 0 }
    }

    /// Takes the next piece, and gives what is ready: the very same bytes where nothing is found or held.
    pub fn push(&mut self, piece: Bytes) -> Bytes {
        if piece.is_empty() {
            return piece;
        }
        self.scrubber = self.values.current();
        let keep = self.keep(&piece);
        if self.held.is_empty() {
            let found = self.scrubber.find(&piece);
            let cut = piece.len() - keep;
            self.held.extend_from_slice(&piece[cut..]);
            if found.is_empty() {
                return piece.slice(..cut);
            }
            // Most often nobody else has these bytes, and they are masked where they are.
            let mut ready = Vec::from(piece);
            ready.truncate(cut);
            self.owed = mask(&mut ready, &found);
            return ready.into();
        }
        let mut text = Zeroizing::new(Vec::with_capacity(self.held.len() + piece.len()));
        text.extend_from_slice(&self.held);
        text.extend_from_slice(&piece);
        let mut found = self.scrubber.find(&text);
        if self.owed > 0 {
            found.push((0, self.owed));
        }
        let cut = text.len() - keep;
        self.held.zeroize();
        self.held.extend_from_slice(&text[cut..]);
        let mut ready = text[..cut].to_vec();
        self.owed = mask(&mut ready, &found);
        ready.into()
    }

    /// The end: what was held back.
    pub fn finish(&mut self) -> Bytes {
        if self.held.is_empty() {
            return Bytes::new();
        }
        self.scrubber = self.values.current();
        let mut rest = self.held.to_vec();
        self.scrubber.mask_in_place(&mut rest);
        rest[..self.owed].fill(MASK);
        self.held.zeroize();
        self.owed = 0;
        rest.into()
    }

    /// How many bytes are held back.
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// How many bytes at the end are to be held behind one more piece. None of those that are held is a control character.
    fn keep(&self, piece: &[u8]) -> usize {
        let is_control = |byte: &u8| *byte < b' ' && *byte != b'\t';
        let open = match piece.iter().rposition(is_control) {
            Some(at) => piece.len() - at - 1,
            None => self.held.len() + piece.len(),
        };
        open.min(self.scrubber.longest.saturating_sub(1))
    }
}

/// Masks what was found as far as the text is there: how many bytes behind its end are to be masked, too. What begins only
/// there will be found again.
fn mask(ready: &mut [u8], found: &Found) -> usize {
    let len = ready.len();
    let mut owed = 0;
    for (from, to) in found.iter().filter(|(from, _)| *from < len.max(1)) {
        ready[(*from).min(len)..(*to).min(len)].fill(MASK);
        owed = owed.max(to.saturating_sub(len));
    }
    owed
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stream({} bytes held)", self.held.len())
    }
}

#[cfg(test)]
mod tests;
