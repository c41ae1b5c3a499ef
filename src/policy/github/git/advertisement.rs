//! What GitHub says it can do, before a push: the answer to `info/refs?service=git-receive-pack` on its way to git.

use super::pkt::{self, Frame, PktError};

/// A filter of that answer. It takes `push-cert` away, as signed pushes cannot be checked, adds `no-thin` where packs have to be
/// whole, and leaves all else byte for byte. The length of the answer changes; its coding has to be identity.
#[derive(Debug)]
pub struct Advertisement {
    no_thin: bool,
    held: Vec<u8>,
    lines: usize,
    passing: bool,
}

/// Why an answer is no advertisement. Nothing of it is to be passed on then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AdvertisementError {
    /// It is not in pkt-lines.
    #[error("the list of refs is not in pkt-lines: {0}")]
    Line(#[from] PktError),
    /// The capabilities did not come within the first lines.
    #[error("the list of refs has no capabilities")]
    NoCapabilities,
    /// A line would be too long with what is added to it.
    #[error("the list of refs has a line that is too long")]
    Long,
}

/// Before the line with the capabilities stand the service, a flush and maybe a version.
const LINES_MAX: usize = 4;

impl Advertisement {
    /// A filter. `no_thin` makes git send packs that hold all that their deltas need.
    pub fn new(no_thin: bool) -> Self {
        Self { no_thin, held: Vec::new(), lines: 0, passing: false }
    }

    /// Takes the next bytes of the answer, and adds to `out` what may go on to git. It holds at most one line back.
    ///
    /// # Errors
    /// [`AdvertisementError`], before the first byte of `out` that has not been checked.
    pub fn feed(&mut self, chunk: &[u8], out: &mut Vec<u8>) -> Result<(), AdvertisementError> {
        if self.passing {
            out.extend_from_slice(chunk);
            return Ok(());
        }
        self.held.extend_from_slice(chunk);
        let mut at = 0;
        while !self.passing {
            let Some((frame, length)) = pkt::first(&self.held[at..])? else { break };
            let whole = &self.held[at..at + length];
            at += length;
            self.lines += 1;
            match frame {
                Frame::Line(line) => match line.iter().position(|&byte| byte == 0) {
                    Some(end) => {
                        self.rewrite(&line[..end], &line[end + 1..], out)?;
                        self.passing = true;
                    }
                    None => out.extend_from_slice(whole),
                },
                Frame::Flush => out.extend_from_slice(whole),
            }
            if self.lines == LINES_MAX && !self.passing {
                return Err(AdvertisementError::NoCapabilities);
            }
        }
        self.held.drain(..at);
        if self.passing {
            out.append(&mut self.held);
        }
        Ok(())
    }

    /// The answer is at its end.
    ///
    /// # Errors
    /// [`AdvertisementError::NoCapabilities`] where there were none: git would not know what was taken away.
    pub fn end(&self) -> Result<(), AdvertisementError> {
        if self.passing { Ok(()) } else { Err(AdvertisementError::NoCapabilities) }
    }

    fn rewrite(&self, reference: &[u8], list: &[u8], out: &mut Vec<u8>) -> Result<(), AdvertisementError> {
        let (list, end) = list.strip_suffix(b"\n").map_or((list, b"".as_slice()), |list| (list, b"\n"));
        let taken = |word: &[u8]| word == b"push-cert" || word.starts_with(b"push-cert=");
        let mut kept: Vec<&[u8]> = list.split(|&byte| byte == b' ').filter(|word| !taken(word)).collect();
        if self.no_thin && !kept.contains(&b"no-thin".as_slice()) {
            kept.push(b"no-thin");
        }
        let list = kept.join(&b' ');
        if pkt::HEAD + reference.len() + 1 + list.len() + end.len() > pkt::LINE_MAX {
            return Err(AdvertisementError::Long);
        }
        pkt::line(out, &[reference, b"\0", &list, end]);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OID: &str = "1b90d94beb69c5bd0fa8a3fe7f9b2ee5c3c6f6ae";

    fn answer(parts: &[&str]) -> Vec<u8> {
        let mut out = Vec::new();
        for part in parts {
            match *part {
                "" => pkt::flush(&mut out),
                line => pkt::line(&mut out, &[line.as_bytes()]),
            }
        }
        out
    }

    fn filtered(no_thin: bool, answer: &[u8], chunk: usize) -> Result<Vec<u8>, AdvertisementError> {
        let mut filter = Advertisement::new(no_thin);
        let mut out = Vec::new();
        for part in answer.chunks(chunk) {
            filter.feed(part, &mut out)?;
        }
        filter.end().map(|()| out)
    }

    fn first_line(refs: &str, list: &str) -> Vec<u8> {
        let rest = format!("{OID} refs/heads/push-cert=x\n");
        answer(&["# service=git-receive-pack\n", "", &format!("{OID} {refs}\0{list}\n"), &rest, ""])
    }

    #[test]
    fn push_cert_goes_and_no_thin_comes() {
        let rows = [
            ("report-status push-cert=17-abc atomic", true, "report-status atomic no-thin"),
            ("report-status push-cert=17-abc atomic", false, "report-status atomic"),
            ("report-status atomic push-cert=17", true, "report-status atomic no-thin"),
            ("push-cert=17 report-status", false, "report-status"),
            ("push-cert", true, "no-thin"),
            (" report-status agent=git/push-cert=", false, " report-status agent=git/push-cert="),
            ("report-status no-thin", true, "report-status no-thin"),
        ];
        for (list, no_thin, expected) in rows {
            for refs in ["refs/heads/main", "capabilities^{}", ".have"] {
                for chunk in [1, 2, 3, 5, 64, 4096] {
                    let out = filtered(no_thin, &first_line(refs, list), chunk);
                    assert_eq!(out, Ok(first_line(refs, expected)), "{list} {chunk}");
                }
            }
        }
    }

    #[test]
    fn other_shapes_stay_as_they_are() {
        let version = answer(&["# service=git-receive-pack\n", "", "version 1\n", &format!("{OID} HEAD\0atomic"), ""]);
        let plain = answer(&[&format!("{OID} HEAD\0atomic"), ""]);
        let mut odd = plain.clone();
        odd.extend_from_slice(b"what follows the capabilities is not looked at");
        for answer in [version, plain, odd] {
            assert_eq!(filtered(false, &answer, 7), Ok(answer));
        }
    }

    #[test]
    fn what_is_no_advertisement_is_refused() {
        let none = AdvertisementError::NoCapabilities;
        let long = format!("{OID} HEAD\0{}", "a".repeat(65466));
        let rows = [
            (b"<html>".to_vec(), AdvertisementError::Line(PktError::Digits)),
            (answer(&["# service=git-receive-pack\n", ""]), none),
            (answer(&["# service=git-receive-pack\n", "", "a", "b", &format!("{OID} HEAD\0push-cert=1")]), none),
            (answer(&["ERR no\n"]), none),
            (Vec::new(), none),
            (answer(&[&long]), AdvertisementError::Long),
            (b"001e# service=git-rec".to_vec(), none),
        ];
        for (answer, error) in rows {
            assert!(filtered(true, &answer, 1000) == Err(error), "{error}");
        }
    }
}
