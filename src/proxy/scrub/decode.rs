//! Content codings, undone as their bytes come, with bounded memory.

use brotli_decompressor::{BrotliDecompressStream, BrotliResult, BrotliState, StandardAlloc};
use bytes::{Buf, Bytes};
use flate2::{Decompress, FlushDecompress, Status};
use zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer};

/// As much as is decoded at a time, in bytes.
pub const PIECE: usize = 16 * 1024;
/// A window of 8 MiB is what a zstd decoder has to have, and no sender may ask for more (RFC 9659).
const ZSTD_WINDOW_LOG: u32 = 23;
/// The window of deflate, at its largest (RFC 1950).
const DEFLATE_WINDOW_BITS: u8 = 15;

/// A content coding that can be undone (RFC 9110 section 8.4.1, RFC 7932, RFC 8878).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    /// `gzip`, and `x-gzip`, which is the same.
    Gzip,
    /// `deflate`: the zlib format, and what some servers send instead, deflate without it.
    Deflate,
    /// `br`.
    Brotli,
    /// `zstd`.
    Zstd,
}

impl Coding {
    /// By its name, in any case.
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name.to_ascii_lowercase().as_str() {
            "gzip" | "x-gzip" => Self::Gzip,
            "deflate" => Self::Deflate,
            "br" => Self::Brotli,
            "zstd" => Self::Zstd,
            _ => return None,
        })
    }
}

/// What is no such coding, or ends too early. `Display` says no more, since the data may be anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("its compressed body is broken")]
pub struct Corrupt;

/// Decoders, one behind the other. Each has its own window: 32 KiB for gzip and deflate, 16 MiB at most for br, 8 MiB for zstd.
pub struct Chain {
    stages: Vec<Stage>,
}

struct Stage {
    decoder: Decoder,
    input: Bytes,
}

enum Decoder {
    Gzip(Inflate),
    /// Which of both kinds it is, its first two bytes tell.
    Deflate(Option<Inflate>),
    Brotli(Box<Brotli>),
    Zstd {
        context: DCtx<'static>,
        begun: bool,
        whole: bool,
    },
}

struct Inflate {
    inner: Decompress,
    begun: bool,
    whole: bool,
}

struct Brotli {
    state: BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>,
    begun: bool,
    whole: bool,
}

/// Bytes read and written.
type Progress = (usize, usize);

impl Chain {
    /// Undoes codings in the order of `Content-Encoding`: the last one was applied last.
    pub fn new(codings: &[Coding]) -> Self {
        let stage = |coding: &Coding| Stage { decoder: Decoder::new(*coding), input: Bytes::new() };
        Self { stages: codings.iter().rev().map(stage).collect() }
    }

    /// Takes the next bytes. What it had is to be pulled out before.
    pub fn feed(&mut self, data: Bytes) {
        if let Some(outermost) = self.stages.first_mut() {
            outermost.input = if outermost.input.is_empty() {
                data
            } else {
                [outermost.input.as_ref(), data.as_ref()].concat().into()
            };
        }
    }

    /// Decodes as much as fits; nothing is left without more bytes when it writes none.
    ///
    /// # Errors
    /// [`Corrupt`].
    pub fn pull(&mut self, out: &mut [u8]) -> Result<usize, Corrupt> {
        pull(&mut self.stages, out)
    }

    /// At the end: whether it was whole. A body without a single byte is.
    ///
    /// # Errors
    /// [`Corrupt`] when it was not.
    pub fn finish(&self) -> Result<(), Corrupt> {
        let whole = self.stages.iter().all(|stage| stage.input.is_empty() && stage.decoder.may_end());
        if whole { Ok(()) } else { Err(Corrupt) }
    }
}

fn pull(stages: &mut [Stage], out: &mut [u8]) -> Result<usize, Corrupt> {
    let Some((last, before)) = stages.split_last_mut() else { return Ok(0) };
    loop {
        let (read, written) = last.decoder.decode(&last.input, out)?;
        last.input.advance(read);
        if written > 0 {
            return Ok(written);
        }
        if read > 0 && !last.input.is_empty() {
            continue;
        }
        if before.is_empty() {
            return Ok(0);
        }
        let mut piece = vec![0; PIECE];
        let got = pull(before, &mut piece)?;
        if got == 0 {
            return Ok(0);
        }
        piece.truncate(got);
        last.input = [last.input.as_ref(), &piece].concat().into();
    }
}

impl Decoder {
    fn new(coding: Coding) -> Self {
        match coding {
            Coding::Gzip => Self::Gzip(Inflate::new(Decompress::new_gzip(DEFLATE_WINDOW_BITS))),
            Coding::Deflate => Self::Deflate(None),
            Coding::Brotli => {
                let alloc = StandardAlloc::default;
                // Strict: without the large windows that no HTTP client takes.
                let state = BrotliState::new_strict(alloc(), alloc(), alloc());
                Self::Brotli(Box::new(Brotli { state, begun: false, whole: false }))
            }
            Coding::Zstd => {
                let mut context = DCtx::create();
                // Where it were refused, the larger window of its own would hold.
                let _ = context.set_parameter(DParameter::WindowLogMax(ZSTD_WINDOW_LOG));
                Self::Zstd { context, begun: false, whole: false }
            }
        }
    }

    /// Asked without input, it gives what it still has.
    fn decode(&mut self, input: &[u8], out: &mut [u8]) -> Result<Progress, Corrupt> {
        match self {
            Self::Gzip(inflate) => {
                if inflate.whole && !input.is_empty() {
                    // Members may follow each other (RFC 1952 section 2.2).
                    *inflate = Inflate::new(Decompress::new_gzip(DEFLATE_WINDOW_BITS));
                }
                inflate.decode(input, out)
            }
            Self::Deflate(Some(inflate)) => inflate.decode(input, out),
            Self::Deflate(unknown) => {
                let [first, second, ..] = *input else { return Ok((0, 0)) };
                let zlib = first & 0x0f == 8 && (usize::from(first) << 8 | usize::from(second)) % 31 == 0;
                unknown.insert(Inflate::new(Decompress::new(zlib))).decode(input, out)
            }
            Self::Brotli(brotli) => brotli.decode(input, out),
            Self::Zstd { context, begun, whole } => {
                *begun |= !input.is_empty();
                let (mut from, mut to) = (InBuffer::around(input), OutBuffer::around(out));
                let hint = context.decompress_stream(&mut to, &mut from).map_err(|_| Corrupt)?;
                let progress = (from.pos(), to.pos());
                // Asked once more behind the end of a frame, it would speak of the next one.
                if progress != (0, 0) {
                    *whole = hint == 0;
                }
                Ok(progress)
            }
        }
    }

    fn may_end(&self) -> bool {
        match self {
            Self::Gzip(inflate) | Self::Deflate(Some(inflate)) => inflate.whole || !inflate.begun,
            Self::Deflate(None) => true,
            Self::Brotli(brotli) => brotli.whole || !brotli.begun,
            Self::Zstd { begun, whole, .. } => *whole || !begun,
        }
    }
}

impl Inflate {
    fn new(inner: Decompress) -> Self {
        Self { inner, begun: false, whole: false }
    }

    fn decode(&mut self, input: &[u8], out: &mut [u8]) -> Result<Progress, Corrupt> {
        if self.whole {
            return if input.is_empty() { Ok((0, 0)) } else { Err(Corrupt) };
        }
        self.begun |= !input.is_empty();
        let before = (self.inner.total_in(), self.inner.total_out());
        let status = self.inner.decompress(input, out, FlushDecompress::None).map_err(|_| Corrupt)?;
        self.whole = status == Status::StreamEnd;
        let moved = |from: u64, to: u64| usize::try_from(to - from).map_err(|_| Corrupt);
        Ok((moved(before.0, self.inner.total_in())?, moved(before.1, self.inner.total_out())?))
    }
}

impl Brotli {
    fn decode(&mut self, input: &[u8], out: &mut [u8]) -> Result<Progress, Corrupt> {
        if self.whole {
            return if input.is_empty() { Ok((0, 0)) } else { Err(Corrupt) };
        }
        self.begun |= !input.is_empty();
        let (mut left, mut read, mut room, mut written, mut total) = (input.len(), 0, out.len(), 0, 0);
        let result = BrotliDecompressStream(
            &mut left,
            &mut read,
            input,
            &mut room,
            &mut written,
            out,
            &mut total,
            &mut self.state,
        );
        match result {
            BrotliResult::ResultFailure => return Err(Corrupt),
            BrotliResult::ResultSuccess => self.whole = true,
            BrotliResult::NeedsMoreInput | BrotliResult::NeedsMoreOutput => {}
        }
        Ok((read, written))
    }
}

#[cfg(test)]
pub(super) mod tests;
