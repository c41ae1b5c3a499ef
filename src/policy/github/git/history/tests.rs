use std::io::{Cursor, Write};

use flate2::Compression;
use flate2::write::ZlibEncoder;

use super::super::receive::{Commands, ReceiveRequest};
use super::*;

const TREE: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";

fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut out = ZlibEncoder::new(Vec::new(), Compression::default());
    out.write_all(bytes).unwrap();
    out.finish().unwrap()
}

/// A pack in the making.
struct Pack {
    bytes: Vec<u8>,
    count: u32,
}

impl Pack {
    fn new() -> Self {
        Self { bytes: b"PACK\0\0\0\x02\0\0\0\0".to_vec(), count: 0 }
    }

    /// Adds an object, and gives where it begins.
    fn add(&mut self, kind: u8, base: &[u8], size: usize, data: &[u8]) -> usize {
        let at = self.bytes.len();
        let (mut rest, mut byte) = (size >> 4, kind << 4 | (size & 0xf) as u8);
        while rest > 0 {
            self.bytes.push(byte | 0x80);
            (byte, rest) = ((rest & 0x7f) as u8, rest >> 7);
        }
        self.bytes.push(byte);
        self.bytes.extend_from_slice(base);
        self.bytes.extend_from_slice(&zlib(data));
        self.count += 1;
        at
    }

    fn read(&self) -> Result<History, HistoryError> {
        let mut bytes = self.bytes.clone();
        bytes[8..12].copy_from_slice(&self.count.to_be_bytes());
        bytes.extend_from_slice(&[0; 20]);
        History::read(&mut Cursor::new(bytes), ObjectFormat::Sha1)
    }
}

fn commit(parents: &[&str], text: &str) -> (Vec<u8>, String) {
    let mut out = format!("tree {TREE}\n");
    for parent in parents {
        out.push_str(&format!("parent {parent}\n"));
    }
    out.push_str(&format!("author a <a@b> 1 +0000\ncommitter a <a@b> 1 +0000\n\n{text}"));
    let whole = [format!("commit {}\0", out.len()).as_bytes(), out.as_bytes()].concat();
    let hash = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, &whole);
    (out.into_bytes(), hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// A delta that copies what both begin with and writes the rest.
fn delta(base: &[u8], to: &[u8]) -> Vec<u8> {
    let length = |mut size: usize, out: &mut Vec<u8>| {
        while size > 0x7f {
            out.push((size & 0x7f) as u8 | 0x80);
            size >>= 7;
        }
        out.push(size as u8);
    };
    let mut out = Vec::new();
    length(base.len(), &mut out);
    length(to.len(), &mut out);
    let common = base.iter().zip(to).take_while(|(a, b)| a == b).count().min(255);
    out.extend_from_slice(&[0x80 | 0x10, common as u8]);
    for part in to[common..].chunks(127) {
        out.push(part.len() as u8);
        out.extend_from_slice(part);
    }
    out
}

fn hex(id: &str) -> Vec<u8> {
    (0..20).map(|at| u8::from_str_radix(&id[2 * at..2 * at + 2], 16).unwrap()).collect()
}

fn recorded(body: &[u8]) -> (Commands, History) {
    let commands = ReceiveRequest::new().feed(body).unwrap().unwrap();
    let mut reader = Cursor::new(body);
    reader.set_position(commands.consumed as u64);
    let history = History::read(&mut reader, commands.capabilities.format).unwrap();
    (commands, history)
}

#[test]
fn row_26_what_git_sent_is_judged() {
    let (commands, mut history) = recorded(include_bytes!("../recorded/update"));
    let command = &commands.commands[0];
    assert_eq!(history.judge(&command.old, &command.new), Ancestry::FastForward);
    let (commands, mut history) = recorded(include_bytes!("../recorded/force"));
    let command = &commands.commands[0];
    assert_eq!(history.judge(&command.old, &command.new), Ancestry::Force, "an unrelated root");
    let (commands, mut history) = recorded(include_bytes!("../recorded/atomic"));
    let [one, two] = &commands.commands[..] else { panic!() };
    let boundary = Ancestry::Boundary(vec![one.new.clone()]);
    assert_eq!(history.judge(&two.new, &one.new), boundary, "GitHub has both; the pack is empty");
    let (commands, mut history) = recorded(include_bytes!("../recorded/sha256"));
    assert_eq!(history.judge(&"1".repeat(64), &commands.commands[0].new), Ancestry::Force);
    let (commands, mut history) = recorded(include_bytes!("../recorded/shallow"));
    let parent = "6be754d396ca0fe9c8d5e5488cf7af2e6a8de39d";
    assert_eq!(history.judge(parent, &commands.commands[0].new), Ancestry::FastForward);
    assert_eq!(history.judge(TREE, &commands.commands[0].new), Ancestry::Boundary(vec![parent.into()]));
}

#[test]
fn commits_in_deltas_are_found() {
    let (outside, old) = ("1".repeat(40), "2".repeat(40));
    let (a, a_id) = commit(&[&old, &outside], "a");
    let (b, b_id) = commit(&[&a_id], "b");
    let (c, c_id) = commit(&[&b_id], "c");
    let (d, d_id) = commit(&[&c_id], "d");
    let mut pack = Pack::new();
    // On a commit that comes later, by id.
    let on_later = delta(&b, &c);
    pack.add(7, &hex(&b_id), on_later.len(), &on_later);
    pack.add(3, &[], 4, b"blob");
    let base = pack.add(1, &[], a.len(), &a);
    let on_a = delta(&a, &b);
    let back = pack.bytes.len() - base;
    let second = pack.add(6, &offset(back), on_a.len(), &on_a);
    let on_b = delta(&b, &d);
    let back = pack.bytes.len() - second;
    pack.add(6, &offset(back), on_b.len(), &on_b);
    let mut history = pack.read().unwrap();
    assert_eq!(history.commits.len(), 4);
    assert_eq!(history.judge(&old, &d_id), Ancestry::FastForward);
    assert_eq!(history.judge(&a_id, &c_id), Ancestry::FastForward);
    assert_eq!(history.judge(&d_id, &d_id), Ancestry::FastForward);
    let Ancestry::Boundary(mut boundary) = history.judge(&d_id, &c_id) else { panic!() };
    boundary.sort();
    assert_eq!(boundary, [outside, old.clone()]);
    assert_eq!(history.judge("x", &d_id), Ancestry::Unknown);
}

fn offset(mut back: usize) -> Vec<u8> {
    let mut out = vec![(back & 0x7f) as u8];
    while back > 0x7f {
        back = (back >> 7) - 1;
        out.insert(0, (back & 0x7f) as u8 | 0x80);
    }
    out
}

#[test]
fn a_thin_pack_asks_about_what_it_leaves_out() {
    let (a, a_id) = commit(&[&"2".repeat(40)], "a");
    let mut pack = Pack::new();
    let on_nothing = delta(b"abc", &a);
    pack.add(7, &hex(&"3".repeat(40)), on_nothing.len(), &on_nothing);
    let mut history = pack.read().unwrap();
    assert_eq!(history.judge(&"2".repeat(40), &a_id), Ancestry::Boundary(vec![a_id]));
}

#[test]
fn a_parent_is_one_in_its_place_only() {
    let old = "2".repeat(40);
    let (forged, id) = commit(&[], &format!("parent {old}\n"));
    let mut pack = Pack::new();
    pack.add(1, &[], forged.len(), &forged);
    assert_eq!(pack.read().unwrap().judge(&old, &id), Ancestry::Force);
    let mut blob = Pack::new();
    let (content, id) = commit(&[&old], "x");
    blob.add(3, &[], content.len(), &content);
    assert_eq!(blob.read().unwrap().judge(&old, &id), Ancestry::Boundary(vec![id]), "a blob is no commit");
}

#[test]
fn what_is_no_pack_or_too_large_is_refused() {
    let read = |bytes: &[u8]| History::read(&mut Cursor::new(bytes.to_vec()), ObjectFormat::Sha1);
    assert!(matches!(read(b""), Err(HistoryError::Damaged(_))));
    assert!(matches!(read(b"PACK\0\0\0\x04\0\0\0\0"), Err(HistoryError::Damaged(_))));
    assert!(matches!(read(b"PACK\0\0\0\x02\xff\0\0\0"), Err(HistoryError::Bound(_))));
    assert!(matches!(read(b"PACK\0\0\0\x02\0\0\0\x01"), Err(HistoryError::Damaged(_))));
    let bomb = vec![0; 1 << 20];
    let mut lies = Pack::new();
    lies.add(3, &[], 10, &bomb);
    assert!(matches!(lies.read(), Err(HistoryError::Damaged(_))), "more than it says");
    let mut short = Pack::new();
    short.add(3, &[], 10, b"x");
    assert!(matches!(short.read(), Err(HistoryError::Damaged(_))), "less than it says");
    let mut large = Pack::new();
    large.add(3, &[], 3 << 30, b"x");
    assert!(matches!(large.read(), Err(HistoryError::Bound(_))), "over 2 GiB");
    let mut commit = Pack::new();
    commit.add(1, &[], bomb.len() + 1, b"x");
    assert!(matches!(commit.read(), Err(HistoryError::Bound(_))), "a commit over 1 MiB");
    let parents: Vec<_> = (0..=BOUNDARY_MAX).map(|at| format!("{at:040x}")).collect();
    let (many, id) = self::commit(&parents.iter().map(String::as_str).collect::<Vec<_>>(), "");
    let mut octopus = Pack::new();
    octopus.add(1, &[], many.len(), &many);
    let mut history = octopus.read().unwrap();
    assert_eq!(history.judge(&"f".repeat(40), &id), Ancestry::Unknown);
    assert_eq!(history.judge(&parents[0], &id), Ancestry::FastForward);
}

#[test]
fn damaged_packs_never_panic() {
    let (a, a_id) = commit(&[], "a");
    let (b, _) = commit(&[&a_id], "b");
    let mut pack = Pack::new();
    let base = pack.add(1, &[], a.len(), &a);
    let on_a = delta(&a, &b);
    let back = pack.bytes.len() - base;
    pack.add(6, &offset(back), on_a.len(), &on_a);
    pack.add(7, &hex(&a_id), on_a.len(), &on_a);
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in 0..5000 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let at = 12 + state as usize % (pack.bytes.len() - 12);
        let mut bytes = pack.bytes.clone();
        bytes[at] ^= (state >> 32) as u8;
        let damaged = Pack { bytes, count: pack.count };
        if let Ok(mut history) = damaged.read() {
            history.judge(&"1".repeat(40), &a_id);
        }
        let noise: Vec<u8> = on_a.iter().map(|byte| byte ^ (state >> (byte % 60)) as u8).collect();
        let _ = delta::apply(&a, &noise, COMMIT_MAX);
    }
}
