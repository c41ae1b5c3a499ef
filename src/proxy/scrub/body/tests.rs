use super::super::decode::tests::{ALL, encode};
use super::*;
use crate::credentials::Scrubber;
use crate::types::Secret;
use http::HeaderMap;
use zeroize::Zeroizing;

const TEXT: &str = "{\"key\": \"canary/17\", \"basic\": \"Basic dTpjYW5hcnkvMTc=\"} can";
const LEFT: &str = "{\"key\": \"*********\", \"basic\": \"Basic dTp***********c=\"} can";

fn filter(codings: &[Coding]) -> BodyFilter {
    let secret = Secret::new("K", Zeroizing::new(b"canary/17".to_vec())).unwrap();
    BodyFilter::new(Arc::new(Watch::fixed(Scrubber::new([&secret]))), codings, Framing::None)
}

/// The body, and its trailers.
fn through(
    filter: &mut BodyFilter,
    pieces: &[&[u8]],
    trailers: Option<HeaderMap>,
) -> Result<(String, Option<HeaderMap>), Unscrubbable> {
    let (mut out, mut end) = (Vec::new(), None);
    let mut take = |filter: &mut BodyFilter| {
        while let Some(frame) = filter.next_frame()? {
            match frame.into_data() {
                Ok(data) => out.extend_from_slice(&data),
                Err(frame) => end = frame.into_trailers().ok(),
            }
        }
        Ok::<(), Unscrubbable>(())
    };
    for piece in pieces {
        filter.feed(Bytes::copy_from_slice(piece));
        take(filter)?;
    }
    filter.end(trailers);
    take(filter)?;
    assert!(filter.is_done());
    Ok((String::from_utf8(out).unwrap(), end))
}

#[test]
fn every_coding_is_masked_at_every_cut() {
    let texts = ALL.map(|coding| (vec![coding], encode(coding, &[TEXT.as_bytes()]).concat()));
    for (codings, body) in texts.into_iter().chain([(vec![], TEXT.as_bytes().to_vec())]) {
        for at in 0..=body.len() {
            let got = through(&mut filter(&codings), &[&body[..at], &body[at..]], None);
            assert_eq!(got.as_ref().map(|(body, _)| body.as_str()), Ok(LEFT), "{codings:?} cut at {at}");
        }
        let bytes: Vec<&[u8]> = body.chunks(1).collect();
        assert_eq!(through(&mut filter(&codings), &bytes, None), Ok((LEFT.to_owned(), None)), "{codings:?}");
    }
}

#[test]
fn a_value_across_what_is_decoded_at_a_time_is_found() {
    for at in PIECE - 12..PIECE + 3 {
        let body = |value: &str| format!("{}{value}{}", "-".repeat(at), "+".repeat(30_000));
        let encoded = encode(Coding::Gzip, &[body("canary/17").as_bytes()]).concat();
        let got = through(&mut filter(&[Coding::Gzip]), &[&encoded], None).unwrap();
        assert!(got.0 == body("*********"), "at {at}");
    }
}

#[test]
fn events_come_whole_and_at_once() {
    let events = ["data: hello\n\n", "data: can canary/17\n\n", "data: bye\n\n"];
    let left = ["data: hello\n\n", "data: can *********\n\n", "data: bye\n\n", ""];
    for coding in ALL {
        let mut filter = filter(&[coding]);
        for (piece, left) in encode(coding, &events.map(str::as_bytes)).iter().zip(left) {
            filter.feed(piece.clone().into());
            let mut got = Vec::new();
            while let Some(frame) = filter.next_frame().unwrap() {
                got.extend(frame.into_data().unwrap());
            }
            assert_eq!(String::from_utf8_lossy(&got), left, "{coding:?}");
        }
    }
}

#[test]
fn trailers_are_masked_behind_what_was_held() {
    let mut fields = HeaderMap::new();
    fields.insert("x-sum", "a canary/17 b".parse().unwrap());
    fields.insert("x-fine", "1".parse().unwrap());
    let (body, trailers) = through(&mut filter(&[]), &[b"ends with canary"], Some(fields)).unwrap();
    let trailers = trailers.unwrap();
    assert_eq!(
        (body.as_str(), &trailers["x-sum"], &trailers["x-fine"]),
        ("ends with canary", &"a ********* b".parse().unwrap(), &"1".parse().unwrap())
    );
}

#[test]
fn a_broken_body_breaks_off() {
    let body = encode(Coding::Gzip, &[TEXT.as_bytes()]).concat();
    let mut cut = filter(&[Coding::Gzip]);
    assert_eq!(through(&mut cut, &[&body[..body.len() - 4]], None), Err(Unscrubbable::Corrupt(Corrupt)));
    assert!(cut.is_done());
    let plain = through(&mut filter(&[Coding::Gzip]), &[TEXT.as_bytes()], None);
    assert_eq!(plain, Err(Unscrubbable::Corrupt(Corrupt)));
}

#[test]
fn the_length_that_is_left_is_known_without_a_coding_alone() {
    let (rest, none) = (SizeHint::with_exact(10), SizeHint::with_exact(0));
    let mut plain = filter(&[]);
    assert_eq!((plain.size_hint(&rest).exact(), plain.is_empty()), (Some(10), true));
    plain.feed(Bytes::from_static(b"123\ncanary"));
    assert_eq!(plain.size_hint(&rest).exact(), Some(20));
    assert!(plain.next_frame().unwrap().is_some());
    assert_eq!((plain.size_hint(&rest).exact(), plain.is_empty()), (Some(16), false));
    assert_eq!(filter(&[Coding::Gzip]).size_hint(&rest).exact(), None);
    assert_eq!(filter(&[Coding::Gzip]).size_hint(&none).exact(), Some(0));
}
