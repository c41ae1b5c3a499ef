//! What follows the front of a push.

use super::{Commands, OutOfScope, malformed};

/// A check of what follows the front: a pack where one belongs, and nothing where none does. A reader that finds other commands
/// there than the ones that were judged finds them refused here.
#[derive(Debug)]
pub struct Rest {
    has_pack: bool,
    seen: usize,
}

const MAGIC: &[u8] = b"PACK";

impl Rest {
    /// A check of what follows this front.
    pub fn after(commands: &Commands) -> Self {
        Self { has_pack: commands.has_pack, seen: 0 }
    }

    /// Takes the next bytes. They may be forwarded, or spooled, once it has said yes.
    ///
    /// # Errors
    /// [`super::Code::Malformed`] for bytes that do not belong there.
    pub fn feed(&mut self, chunk: &[u8]) -> Result<(), OutOfScope> {
        if chunk.is_empty() {
            return Ok(());
        }
        if !self.has_pack {
            return Err(malformed("something follows its commands, which need no pack"));
        }
        let expected = MAGIC.get(self.seen..).unwrap_or_default();
        let compared = expected.len().min(chunk.len());
        if chunk[..compared] != expected[..compared] {
            return Err(malformed("no pack follows its commands"));
        }
        self.seen = MAGIC.len().min(self.seen + compared);
        Ok(())
    }

    /// The body is at its end.
    ///
    /// # Errors
    /// [`super::Code::Malformed`] where the pack is missing.
    pub fn end(&self) -> Result<(), OutOfScope> {
        if self.has_pack && self.seen < MAGIC.len() { Err(malformed("no pack follows its commands")) } else { Ok(()) }
    }
}
