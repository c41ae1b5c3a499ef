//! Content codings of responses, flushed behind each piece, as servers of events do.

use std::io::Write;

use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};
use zstd_safe::{CCtx, InBuffer, OutBuffer};

/// One coding of one body.
pub enum Encoder {
    Identity,
    Gzip(GzEncoder<Vec<u8>>),
    Deflate(ZlibEncoder<Vec<u8>>),
    Brotli(Box<brotli::CompressorWriter<Vec<u8>>>),
    Zstd(CCtx<'static>),
}

impl Encoder {
    /// By its name in `Content-Encoding`; what is unknown leaves bodies as they are.
    pub fn new(name: &str) -> Self {
        match name {
            "gzip" => Self::Gzip(GzEncoder::new(Vec::new(), Compression::default())),
            "deflate" => Self::Deflate(ZlibEncoder::new(Vec::new(), Compression::default())),
            "br" => Self::Brotli(Box::new(brotli::CompressorWriter::new(Vec::new(), 4096, 5, 22))),
            "zstd" => Self::Zstd(CCtx::create()),
            _ => Self::Identity,
        }
    }

    /// What is sent for a piece.
    pub fn push(&mut self, piece: &[u8]) -> Vec<u8> {
        match self {
            Self::Identity => piece.to_vec(),
            Self::Gzip(encoder) => flushed(encoder, piece, GzEncoder::get_mut),
            Self::Deflate(encoder) => flushed(encoder, piece, ZlibEncoder::get_mut),
            Self::Brotli(encoder) => flushed(&mut **encoder, piece, brotli::CompressorWriter::get_mut),
            Self::Zstd(context) => {
                let mut room = vec![0; 2 * piece.len() + 1024];
                let (mut to, mut from) = (OutBuffer::around(&mut room[..]), InBuffer::around(piece));
                while from.pos() < piece.len() {
                    context.compress_stream(&mut to, &mut from).unwrap();
                }
                assert_eq!(context.flush_stream(&mut to).unwrap(), 0);
                let length = to.pos();
                room.truncate(length);
                room
            }
        }
    }

    /// What is sent at the end.
    pub fn finish(self) -> Vec<u8> {
        match self {
            Self::Identity => Vec::new(),
            Self::Gzip(encoder) => encoder.finish().unwrap(),
            Self::Deflate(encoder) => encoder.finish().unwrap(),
            Self::Brotli(encoder) => encoder.into_inner(),
            Self::Zstd(mut context) => {
                let mut room = vec![0; 1024];
                let mut to = OutBuffer::around(&mut room[..]);
                assert_eq!(context.end_stream(&mut to).unwrap(), 0);
                let length = to.pos();
                room.truncate(length);
                room
            }
        }
    }
}

fn flushed<E: Write>(encoder: &mut E, piece: &[u8], inner: fn(&mut E) -> &mut Vec<u8>) -> Vec<u8> {
    encoder.write_all(piece).unwrap();
    encoder.flush().unwrap();
    std::mem::take(inner(encoder))
}
