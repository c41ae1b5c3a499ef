use super::*;
use crate::credentials::Scrubber;
use crate::types::Secret;
use zeroize::Zeroizing;

const VALUE: &str = "canary-17";

fn masker(framing: Framing) -> Masker {
    let secret = Secret::new("K", Zeroizing::new(VALUE.as_bytes().to_vec())).unwrap();
    Masker::new(Arc::new(Watch::fixed(Scrubber::new([&secret]))), framing)
}

/// A WebSocket's frame as a server sends it.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let head = match payload.len() {
        short @ 0..126 => vec![first, short as u8],
        middle @ 126..65_536 => [&[first, 126][..], &(middle as u16).to_be_bytes()].concat(),
        long => [&[first, 127][..], &(long as u64).to_be_bytes()].concat(),
    };
    [&head, payload].concat()
}

/// At every cut, byte by byte and whole; nothing is added or lost.
fn masked(framing: Framing, stream: &[u8], wanted: &[u8]) {
    let cuts = (0..=stream.len()).map(|at| vec![&stream[..at], &stream[at..]]);
    for pieces in cuts.chain([stream.chunks(1).collect()]) {
        let mut masker = masker(framing);
        let mut out = Vec::new();
        for piece in &pieces {
            out.extend(masker.push(Bytes::copy_from_slice(piece)).unwrap());
        }
        assert_eq!(String::from_utf8_lossy(&out), String::from_utf8_lossy(wanted), "before the end, in {pieces:?}");
        assert!(masker.finish().is_empty());
    }
}

#[test]
fn whole_messages_are_masked_and_never_wait() {
    let text = |text: &str| [frame(0x81, text.as_bytes()), frame(0x82, b"")].concat();
    // Each ends in the beginning of the value.
    masked(Framing::WebSocket, &text("a canary-17 c"), &text("a ********* c"));
    let long = |value: &str| text(&format!("{}{value}{}", "-".repeat(120), "c".repeat(7)));
    masked(Framing::WebSocket, &long(VALUE), &long("*********"));
}

#[test]
fn a_frame_of_eight_length_bytes_is_masked() {
    let text = |value: &str| frame(0x81, format!("{}{value}c", "-".repeat(70_000)).as_bytes());
    let mut masker = masker(Framing::WebSocket);
    let out: Vec<u8> =
        text(VALUE).chunks(16_384).flat_map(|piece| masker.push(Bytes::copy_from_slice(piece)).unwrap()).collect();
    assert!(out == text("*********"));
}

#[test]
fn a_value_across_the_frames_of_one_message_is_found() {
    let stream = |parts: [&str; 3], pong: &str| {
        let [first, second, third] = parts.map(str::as_bytes);
        [frame(0x01, first), frame(0x8a, pong.as_bytes()), frame(0x00, second), frame(0x89, b""), frame(0x80, third)]
            .concat()
    };
    let (before, after) = (stream(["can", "ary", "-17!"], VALUE), stream(["***", "***", "***!"], "*********"));
    masked(Framing::WebSocket, &before, &after);
    let harmless = stream(["can", "ary", "-18!"], "");
    masked(Framing::WebSocket, &harmless, &harmless);
}

#[test]
fn what_one_message_begins_the_next_does_not_end() {
    let two = [frame(0x81, b"canary"), frame(0x81, b"-17")].concat();
    masked(Framing::WebSocket, &two, &two);
}

#[test]
fn a_close_frame_and_a_frame_cut_off_are_masked() {
    let close = |reason: &str| frame(0x88, &[&[3, 232], reason.as_bytes()].concat());
    masked(Framing::WebSocket, &close("no canary-17"), &close("no *********"));
    let mut masker = masker(Framing::WebSocket);
    let cut = &close("no canary-17 for you")[..16];
    let out = [masker.push(Bytes::copy_from_slice(cut)).unwrap(), masker.finish()].concat();
    assert_eq!(out.len(), 16);
    assert!(!String::from_utf8_lossy(&out).contains(VALUE));
}

macro_rules! unreadable {
    ($($test:ident: $framing:ident, $bytes:expr => $why:ident;)*) => { $(
        #[test]
        fn $test() {
            let bytes: &[u8] = $bytes;
            assert_eq!(masker(Framing::$framing).push(Bytes::copy_from_slice(bytes)), Err(Unreadable::$why));
        }
    )* };
}

unreadable! {
    a_reserved_bit: WebSocket, &[0xc1, 0] => Frame;
    an_unknown_opcode: WebSocket, &[0x83, 0] => Frame;
    a_masked_frame: WebSocket, &[0x81, 0x81, 0, 0, 0, 0, 0] => Frame;
    a_control_frame_in_parts: WebSocket, &[0x09, 0] => Frame;
    a_control_frame_too_long: WebSocket, &[0x89, 126, 0, 126] => Frame;
    a_length_of_64_bits: WebSocket, &[0x82, 127, 0x80, 0, 0, 0, 0, 0, 0, 0] => Frame;
}

#[test]
fn what_waits_behind_a_part_is_bounded() {
    let mut masker = masker(Framing::WebSocket);
    assert_eq!(masker.push(frame(0x01, b"can").into()).map(|out| out.len()), Ok(2));
    let ping = Bytes::from(frame(0x89, &[b'-'; 125]));
    let pushed = (0..1000).map(|_| masker.push(ping.clone())).find(Result::is_err);
    assert_eq!(pushed, Some(Err(Unreadable::Waiting)));
}
