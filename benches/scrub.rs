//! What the search for secrets in responses costs: `cargo bench --bench scrub`. Each body is passed on as it is, decoded where it has
//! a coding, and decoded and searched; the figures of one run are to be compared with each other only.

use std::hint::black_box;
use std::io::Write;
use std::sync::Arc;

use bytes::Bytes;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use flate2::Compression;
use flate2::write::GzEncoder;
use sandbox_proxy::credentials::{Scrubber, Watch};
use sandbox_proxy::proxy::scrub::{BodyFilter, Coding, Framing};
use sandbox_proxy::types::Secret;
use zeroize::Zeroizing;

/// As hyper gives pieces of a large body.
const PIECE: usize = 16 * 1024;
const LENGTH: usize = 4 << 20;

/// JSON as an API answers, or as good as random letters.
fn text(readable: bool) -> Vec<u8> {
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut text = Vec::with_capacity(LENGTH + 100);
    while text.len() < LENGTH {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        if readable {
            let line =
                format!("{{\"id\": {}, \"object\": \"chat.completion\", \"model\": \"large\"}},\n", random >> 40);
            text.extend(line.into_bytes());
        } else {
            text.extend((0..10).map(|at| b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdef"[(random >> (5 * at + 8)) as usize % 32]));
        }
    }
    text.truncate(LENGTH);
    text
}

fn values(secrets: usize) -> Arc<Watch> {
    let value = |number: usize| format!("sk-proj/{number}+a8Fq2ZpW0LrT6yUiOk4EeXcVbNm1QwJ").into_bytes();
    let secrets = (0..secrets).map(|number| Secret::new("K", Zeroizing::new(value(number))));
    let secrets: Vec<Secret> = secrets.collect::<Result<_, _>>().expect("the values are good");
    Arc::new(Watch::fixed(Scrubber::new(&secrets)))
}

/// How many bytes come out.
fn pass(filter: &mut BodyFilter, pieces: &[Bytes]) -> usize {
    let mut length = 0;
    let mut take = |filter: &mut BodyFilter| {
        while let Some(frame) = filter.next_frame().expect("the body is good") {
            length += frame.data_ref().map_or(0, |data| black_box(data).len());
        }
    };
    for piece in pieces {
        filter.feed(piece.clone());
        take(filter);
    }
    filter.end(None);
    take(filter);
    length
}

fn bodies(c: &mut Criterion) {
    for (what, readable) in [("json", true), ("letters", false)] {
        let text = text(readable);
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(&text).expect("memory takes it");
        let gzip = encoder.finish().expect("memory takes it");
        let pieces = |bytes: &[u8]| bytes.chunks(PIECE).map(Bytes::copy_from_slice).collect::<Vec<_>>();
        let (identity, gzip) = (pieces(&text), pieces(&gzip));
        let mut group = c.benchmark_group(what);
        group.throughput(Throughput::Bytes(LENGTH as u64)).sample_size(20);
        group.bench_function("copied", |b| {
            b.iter(|| identity.iter().map(|piece| black_box(Bytes::copy_from_slice(piece)).len()).sum::<usize>());
        });
        let mut decoded = Vec::with_capacity(LENGTH);
        group.bench_function("gzip, decoded", |b| {
            b.iter(|| {
                decoded.clear();
                let mut decoder = flate2::write::GzDecoder::new(&mut decoded);
                gzip.iter().for_each(|piece| decoder.write_all(piece).expect("the body is good"));
            });
        });
        for secrets in [1, 10] {
            let values = values(secrets);
            for (coding, pieces, codings) in [("identity", &identity, &[][..]), ("gzip", &gzip, &[Coding::Gzip])] {
                group.bench_function(format!("{coding}, searched for {secrets}"), |b| {
                    b.iter(|| {
                        let mut filter = BodyFilter::new(Arc::clone(&values), codings, Framing::None);
                        assert_eq!(pass(&mut filter, pieces), LENGTH);
                    });
                });
            }
        }
        group.finish();
    }
}

criterion_group!(benches, bodies);
criterion_main!(benches);
