//! The objects of a pack, one after another (gitformat-pack).

use std::io::{Read, Seek, SeekFrom};

use flate2::{Decompress, FlushDecompress, Status};

use super::{COMMIT_MAX, HistoryError, Oid, PACK_MAX};

/// The most bytes that all objects may be together, unpacked: 2 GiB.
const INFLATED_MAX: u64 = 2 << 30;
/// What an object costs beside its bytes.
const OBJECT_COST: u64 = 256;
const CHUNK: usize = 64 << 10;

/// A reader of a pack.
pub(super) struct Source<'a, R> {
    reader: &'a mut R,
    /// Where the pack begins.
    start: u64,
    /// What was read and is not used yet, and where that begins in the pack.
    chunk: Box<[u8]>,
    filled: usize,
    used: usize,
    at: u64,
    inflate: Decompress,
    out: Box<[u8]>,
    left: u64,
}

/// What an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Commit,
    /// A tree, a blob or a tag.
    Other,
    /// A delta on the object so many bytes before it.
    OnOffset(u64),
    /// A delta on the object with this id.
    OnId(Oid),
}

impl<'a, R: Read + Seek> Source<'a, R> {
    pub(super) fn new(reader: &'a mut R) -> Result<Self, HistoryError> {
        let start = reader.stream_position()?;
        let (chunk, out) = (vec![0; CHUNK].into(), vec![0; CHUNK].into());
        let inflate = Decompress::new(true);
        Ok(Self { reader, start, chunk, filled: 0, used: 0, at: 0, inflate, out, left: INFLATED_MAX })
    }

    /// How many objects follow.
    pub(super) fn header(&mut self) -> Result<u32, HistoryError> {
        let mut header = [0; 12];
        for byte in &mut header {
            *byte = self.byte()?;
        }
        let [b'P', b'A', b'C', b'K', 0, 0, 0, 2 | 3, count @ ..] = header else {
            return Err(HistoryError::Damaged("it does not begin as a pack of version 2 or 3"));
        };
        Ok(u32::from_be_bytes(count))
    }

    /// Where in the pack the next byte is.
    pub(super) fn offset(&self) -> u64 {
        self.at + self.used as u64
    }

    pub(super) fn seek(&mut self, offset: u64) -> Result<(), HistoryError> {
        self.reader.seek(SeekFrom::Start(self.start + offset))?;
        (self.at, self.filled, self.used) = (offset, 0, 0);
        Ok(())
    }

    /// What the next object is, and how long its data are, unpacked. Ids have `id` bytes.
    pub(super) fn object(&mut self, id: usize) -> Result<(Kind, u64), HistoryError> {
        let first = self.byte()?;
        let mut size = u64::from(first & 0xf);
        let (mut byte, mut shift) = (first, 4);
        while byte & 0x80 != 0 {
            byte = self.byte()?;
            if shift > 53 {
                return Err(HistoryError::Damaged("a size that is none"));
            }
            size |= u64::from(byte & 0x7f) << shift;
            shift += 7;
        }
        let kind = match first >> 4 & 7 {
            1 => Kind::Commit,
            2..=4 => Kind::Other,
            6 => Kind::OnOffset(self.back()?),
            7 => {
                let mut oid = Oid::default();
                for byte in oid.iter_mut().take(id) {
                    *byte = self.byte()?;
                }
                Kind::OnId(oid)
            }
            _ => return Err(HistoryError::Damaged("an object of no type")),
        };
        Ok((kind, size))
    }

    /// Takes the data of an object of this size.
    pub(super) fn kept(&mut self, size: u64) -> Result<Vec<u8>, HistoryError> {
        if size > COMMIT_MAX {
            return Err(HistoryError::Bound("a commit over 1 MiB"));
        }
        let mut kept = Vec::new();
        self.unpack(size, |bytes| kept.extend_from_slice(bytes))?;
        Ok(kept)
    }

    /// Passes over the data of an object of this size.
    pub(super) fn skip(&mut self, size: u64) -> Result<(), HistoryError> {
        self.unpack(size, |_| {})
    }

    /// Takes so many bytes off what may be unpacked.
    pub(super) fn charge(&mut self, bytes: u64) -> Result<(), HistoryError> {
        let cost = bytes.saturating_add(OBJECT_COST);
        self.left = self.left.checked_sub(cost).ok_or(HistoryError::Bound("over 2 GiB of objects, unpacked"))?;
        Ok(())
    }

    fn unpack(&mut self, size: u64, mut take: impl FnMut(&[u8])) -> Result<(), HistoryError> {
        const DAMAGED: HistoryError = HistoryError::Damaged("an object that cannot be unpacked");
        self.charge(size)?;
        self.inflate.reset(true);
        loop {
            self.fill()?;
            let (read, written) = (self.inflate.total_in(), self.inflate.total_out());
            let input = &self.chunk[self.used..self.filled];
            let status = self.inflate.decompress(input, &mut self.out, FlushDecompress::None).map_err(|_| DAMAGED)?;
            let (read, written) = (self.inflate.total_in() - read, self.inflate.total_out() - written);
            self.used += read as usize;
            take(&self.out[..written as usize]);
            let total = self.inflate.total_out();
            match status {
                Status::StreamEnd if total == size => return Ok(()),
                Status::Ok | Status::BufError if total <= size && (read > 0 || written > 0) => {}
                Status::StreamEnd | Status::Ok | Status::BufError => return Err(DAMAGED),
            }
        }
    }

    fn back(&mut self) -> Result<u64, HistoryError> {
        let mut byte = self.byte()?;
        let mut back = u64::from(byte & 0x7f);
        while byte & 0x80 != 0 {
            byte = self.byte()?;
            if back > PACK_MAX {
                return Err(HistoryError::Damaged("a delta on nothing"));
            }
            back = (back + 1) << 7 | u64::from(byte & 0x7f);
        }
        Ok(back)
    }

    fn byte(&mut self) -> Result<u8, HistoryError> {
        self.fill()?;
        self.used += 1;
        Ok(self.chunk[self.used - 1])
    }

    /// Sees to it that there is a byte at least.
    fn fill(&mut self) -> Result<(), HistoryError> {
        if self.used < self.filled {
            return Ok(());
        }
        self.at += self.filled as u64;
        (self.filled, self.used) = (self.reader.read(&mut self.chunk)?, 0);
        if self.at > PACK_MAX {
            return Err(HistoryError::Bound("over 256 MiB"));
        }
        if self.filled == 0 { Err(HistoryError::Damaged("it is cut off")) } else { Ok(()) }
    }
}
