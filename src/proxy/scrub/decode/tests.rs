use std::io::Write;

use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};

use super::*;

/// A text in a coding, in pieces that a decoder can give whole as soon as they come: the coder was flushed behind each.
pub fn encode(coding: Coding, pieces: &[&[u8]]) -> Vec<Vec<u8>> {
    match coding {
        Coding::Gzip => flushed(GzEncoder::new(Vec::new(), Compression::default()), pieces, GzEncoder::get_mut, |e| {
            e.finish().unwrap()
        }),
        Coding::Deflate => {
            flushed(ZlibEncoder::new(Vec::new(), Compression::default()), pieces, ZlibEncoder::get_mut, |e| {
                e.finish().unwrap()
            })
        }
        Coding::Brotli => flushed(
            brotli::CompressorWriter::new(Vec::new(), 4096, 5, 22),
            pieces,
            brotli::CompressorWriter::get_mut,
            brotli::CompressorWriter::into_inner,
        ),
        Coding::Zstd => zstd(pieces),
    }
}

fn flushed<E: Write>(
    mut encoder: E,
    pieces: &[&[u8]],
    inner: impl Fn(&mut E) -> &mut Vec<u8>,
    finish: impl FnOnce(E) -> Vec<u8>,
) -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    for piece in pieces {
        encoder.write_all(piece).unwrap();
        encoder.flush().unwrap();
        out.push(std::mem::take(inner(&mut encoder)));
    }
    out.push(finish(encoder));
    out
}

fn zstd(pieces: &[&[u8]]) -> Vec<Vec<u8>> {
    let mut context = zstd_safe::CCtx::create();
    let mut out = Vec::new();
    for piece in pieces {
        let mut room = vec![0; 2 * piece.len() + 1024];
        let mut to = OutBuffer::around(&mut room[..]);
        let mut from = InBuffer::around(piece);
        while from.pos() < piece.len() {
            context.compress_stream(&mut to, &mut from).unwrap();
        }
        assert_eq!(context.flush_stream(&mut to).unwrap(), 0);
        let length = to.pos();
        out.push(room[..length].to_vec());
    }
    let mut room = vec![0; 1024];
    let mut to = OutBuffer::around(&mut room[..]);
    assert_eq!(context.end_stream(&mut to).unwrap(), 0);
    let length = to.pos();
    out.push(room[..length].to_vec());
    out
}

pub const ALL: [Coding; 4] = [Coding::Gzip, Coding::Deflate, Coding::Brotli, Coding::Zstd];

/// Everything that can be had of what was fed, in pieces of a size.
fn drain(chain: &mut Chain, size: usize) -> Result<Vec<u8>, Corrupt> {
    let (mut out, mut piece) = (Vec::new(), vec![0; size]);
    loop {
        let length = chain.pull(&mut piece)?;
        if length == 0 {
            return Ok(out);
        }
        out.extend_from_slice(&piece[..length]);
    }
}

fn decoded(codings: &[Coding], pieces: &[&[u8]], size: usize) -> Result<Vec<u8>, Corrupt> {
    let mut chain = Chain::new(codings);
    let mut out = Vec::new();
    for piece in pieces {
        chain.feed(Bytes::copy_from_slice(piece));
        out.append(&mut drain(&mut chain, size)?);
    }
    chain.finish().map(|()| out)
}

fn text() -> Vec<u8> {
    (0..20_000_u32).flat_map(|number| (number * number % 7919).to_string().into_bytes()).collect()
}

#[test]
fn every_coding_is_undone_at_every_cut() {
    let text = b"a small text, a small text, and its end";
    for coding in ALL {
        let whole = encode(coding, &[text]).concat();
        for at in 0..=whole.len() {
            let got = decoded(&[coding], &[&whole[..at], &whole[at..]], 7);
            assert_eq!(got.as_deref(), Ok(&text[..]), "{coding:?} cut at {at}");
        }
        let bytes: Vec<&[u8]> = whole.chunks(1).collect();
        assert_eq!(decoded(&[coding], &bytes, PIECE).as_deref(), Ok(&text[..]), "{coding:?}");
    }
}

#[test]
fn large_bodies_and_stacked_codings_are_undone() {
    let text = text();
    for first in ALL {
        let once = encode(first, &[&text]).concat();
        assert!(decoded(&[first], &[&once], PIECE).as_deref() == Ok(&text[..]), "{first:?}");
        for second in ALL {
            let twice = encode(second, &[&once]).concat();
            let pieces: Vec<&[u8]> = twice.chunks(1000).collect();
            assert!(decoded(&[first, second], &pieces, PIECE).as_deref() == Ok(&text[..]), "{first:?}, {second:?}");
        }
    }
}

#[test]
fn what_a_server_flushed_is_there_at_once() {
    for coding in ALL {
        let pieces = encode(coding, &[b"data: one\n\n", b"data: two\n\n", b"data: three\n\n"]);
        let mut chain = Chain::new(&[coding]);
        for (piece, event) in pieces.iter().zip(["data: one\n\n", "data: two\n\n", "data: three\n\n", ""]) {
            chain.feed(piece.clone().into());
            assert_eq!(drain(&mut chain, PIECE).as_deref(), Ok(event.as_bytes()), "{coding:?}");
        }
        assert_eq!(chain.finish(), Ok(()), "{coding:?}");
    }
}

#[test]
fn deflate_without_its_frame_is_known() {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(b"bare").unwrap();
    let bare = encoder.finish().unwrap();
    assert_eq!(decoded(&[Coding::Deflate], &[&bare[..1], &bare[1..]], PIECE).as_deref(), Ok(&b"bare"[..]));
}

#[test]
fn members_and_frames_may_follow_each_other() {
    for coding in [Coding::Gzip, Coding::Zstd] {
        let both = [encode(coding, &[b"one"]).concat(), encode(coding, &[b"two"]).concat()];
        let whole = both.concat();
        for at in 0..=whole.len() {
            let got = decoded(&[coding], &[&whole[..at], &whole[at..]], PIECE);
            assert_eq!(got.as_deref(), Ok(&b"onetwo"[..]), "{coding:?} cut at {at}");
        }
    }
}

#[test]
fn what_is_cut_off_broken_or_followed_by_more_is_corrupt() {
    let text = text();
    for coding in ALL {
        let whole = encode(coding, &[&text]).concat();
        assert_eq!(decoded(&[coding], &[], PIECE), Ok(Vec::new()), "{coding:?}: nothing");
        for at in [1, 5, whole.len() / 2, whole.len() - 1] {
            assert_eq!(decoded(&[coding], &[&whole[..at]], PIECE), Err(Corrupt), "{coding:?} ends at {at}");
        }
        assert_eq!(decoded(&[coding], &[&whole, b"garbage"], PIECE), Err(Corrupt), "{coding:?} and more");
        assert_eq!(decoded(&[coding], &[b"this is no such thing, but plain text"], PIECE), Err(Corrupt), "{coding:?}");
    }
    let mut wrong = encode(Coding::Gzip, &[&text]).concat();
    let at = wrong.len() - 6;
    wrong[at] ^= 1;
    assert_eq!(decoded(&[Coding::Gzip], &[&wrong], PIECE), Err(Corrupt), "its sum");
}

/// RFC 8878 section 3.1.1: a frame without its size, whose window is of 16 MiB.
#[test]
fn larger_windows_than_clients_take_are_refused() {
    let frame = |exponent: u8| [&[0x28, 0xb5, 0x2f, 0xfd, 0x00, (exponent - 10) << 3][..], &[0x01, 0, 0]].concat();
    assert_eq!(decoded(&[Coding::Zstd], &[&frame(23)], PIECE), Ok(Vec::new()));
    assert_eq!(decoded(&[Coding::Zstd], &[&frame(24)], PIECE), Err(Corrupt));
}

/// As little is decoded as is asked for, however much there is.
#[test]
fn a_body_that_grows_a_thousandfold_comes_piece_by_piece() {
    let zeros = vec![0; 4 << 20];
    for coding in ALL {
        let mut chain = Chain::new(&[coding]);
        chain.feed(encode(coding, &[&zeros]).concat().into());
        let mut piece = vec![1; PIECE];
        let mut total = 0;
        loop {
            let length = chain.pull(&mut piece).unwrap();
            total += length;
            if length == 0 {
                break;
            }
        }
        assert_eq!((total, chain.finish()), (zeros.len(), Ok(())), "{coding:?}");
    }
}
