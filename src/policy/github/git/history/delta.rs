//! Deltas of git (gitformat-pack, "Deltified representation").

use super::HistoryError;

const DAMAGED: HistoryError = HistoryError::Damaged("a delta that does not fit its base");

/// What a delta makes of its base, of at most `most` bytes.
pub(super) fn apply(base: &[u8], delta: &[u8], most: u64) -> Result<Vec<u8>, HistoryError> {
    let mut delta = delta.iter().copied();
    let from = length(&mut delta)?;
    let to = length(&mut delta)?;
    if from != base.len() as u64 {
        return Err(DAMAGED);
    }
    if to > most {
        return Err(HistoryError::Bound("a commit over 1 MiB"));
    }
    let mut out = Vec::new();
    while let Some(op) = delta.next() {
        if op & 0x80 != 0 {
            let start = number(op, 0..4, &mut delta)?;
            let size = number(op, 4..7, &mut delta)?;
            let size = if size == 0 { 0x10000 } else { size };
            out.extend_from_slice(base.get(start..start + size).ok_or(DAMAGED)?);
        } else if op == 0 {
            return Err(DAMAGED);
        } else {
            let before = out.len();
            out.extend(delta.by_ref().take(usize::from(op)));
            if out.len() - before != usize::from(op) {
                return Err(DAMAGED);
            }
        }
        if out.len() as u64 > to {
            return Err(DAMAGED);
        }
    }
    if out.len() as u64 == to { Ok(out) } else { Err(DAMAGED) }
}

/// The bytes that an operation says are there, the lowest first.
fn number(op: u8, bits: std::ops::Range<u32>, delta: &mut impl Iterator<Item = u8>) -> Result<usize, HistoryError> {
    let first = bits.start;
    let mut value = 0;
    for bit in bits.filter(|bit| op & 1 << bit != 0) {
        value |= usize::from(delta.next().ok_or(DAMAGED)?) << (8 * (bit - first));
    }
    Ok(value)
}

fn length(delta: &mut impl Iterator<Item = u8>) -> Result<u64, HistoryError> {
    let mut value = 0;
    for shift in (0..56).step_by(7) {
        let byte = delta.next().ok_or(DAMAGED)?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(DAMAGED)
}
