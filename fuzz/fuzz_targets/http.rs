//! An HTTP/1 connection of any bytes behind the guard: a strict reader sees the same requests in it as hyper does, and the
//! pieces in which it comes do not matter.
#![no_main]

use std::cell::RefCell;
use std::convert::Infallible;
use std::rc::Rc;
use std::sync::LazyLock;

use http::{Request, Response};
use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use libfuzzer_sys::fuzz_target;
use sandbox_proxy::proxy::capture::guard::{Guard, RawSwitch};
use sandbox_proxy::proxy::intercept::http1_builder;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::runtime::{Builder, Runtime};

thread_local! {
    static RUNTIME: Runtime = Builder::new_current_thread().enable_time().build().expect("a runtime");
}

/// A request as it was read: method, target, `Host`, body; no body where it was cut off.
#[derive(Debug, PartialEq)]
struct Seen {
    method: String,
    target: String,
    host: Option<String>,
    body: Option<Vec<u8>>,
}

static LIMIT: LazyLock<usize> = LazyLock::new(|| 16 * 1024);

fuzz_target!(|bytes: &[u8]| {
    if bytes.len() > *LIMIT {
        return;
    }
    RUNTIME.with(|runtime| {
        runtime.block_on(async {
            let whole = through(bytes, *LIMIT).await;
            assert_eq!(lossy(&whole), lossy(&through(bytes, 1 + bytes.len() % 5).await), "the pieces matter");
            let strict = read(&whole);
            let hyper = serve(bytes).await;
            assert!(hyper.len() <= strict.len(), "hyper saw {hyper:#?}, a strict reader {strict:#?}");
            for (hyper, strict) in hyper.iter().zip(&strict) {
                assert_eq!(hyper, strict);
            }
        });
    });
});

fn lossy(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

/// A peer that sends these bytes, then ends its side, and whatever comes back is thrown away.
async fn peer(mut io: DuplexStream, bytes: &[u8]) {
    let (mut from, mut to) = tokio::io::split(&mut io);
    let send = async {
        // The other side may have had enough.
        let _ = to.write_all(bytes).await;
        let _ = to.shutdown().await;
    };
    let mut rest = Vec::new();
    let _ = tokio::join!(send, from.read_to_end(&mut rest));
}

/// What the guard lets through.
async fn through(bytes: &[u8], step: usize) -> Vec<u8> {
    let (client, server) = tokio::io::duplex(step);
    let read = async {
        let mut out = Vec::new();
        let mut guard = Guard::new(server, RawSwitch::default());
        let mut idle = 0;
        loop {
            let mut piece = [0; 4096];
            let next = std::pin::pin!(guard.read(&mut piece));
            match tokio::time::timeout(std::time::Duration::ZERO, tokio::task::unconstrained(next)).await {
                Ok(Ok(0) | Err(_)) => return out,
                Ok(Ok(length)) => {
                    out.extend_from_slice(&piece[..length]);
                    idle = 0;
                }
                // Behind CONNECT the guard waits for an answer that nobody gives here.
                Err(_) if idle == 64 => return out,
                Err(_) => {
                    idle += 1;
                    tokio::task::yield_now().await;
                }
            }
        }
    };
    tokio::select! {
        biased;
        out = read => out,
        () = async { peer(client, bytes).await; std::future::pending().await } => unreachable!("it never ends"),
    }
}

/// What hyper makes of it.
async fn serve(bytes: &[u8]) -> Vec<Seen> {
    let seen = Rc::new(RefCell::new(Vec::new()));
    let (client, server) = tokio::io::duplex(*LIMIT);
    let service = service_fn(|request: Request<Incoming>| {
        let seen = Rc::clone(&seen);
        async move {
            let (head, body) = request.into_parts();
            assert!(head.headers.get_all("host").iter().count() <= 1, "{head:?}");
            let lengths = head.headers.get_all("content-length").iter().count();
            let encodings = head.headers.get_all("transfer-encoding").iter().count();
            assert!(lengths + encodings <= 1, "{head:?}");
            let at = seen.borrow().len();
            seen.borrow_mut().push(Seen {
                method: head.method.to_string(),
                target: head.uri.to_string(),
                host: head.headers.get("host").map(|host| lossy(host.as_bytes())),
                body: None,
            });
            let body = body.collect().await.ok().map(|body| body.to_bytes().to_vec());
            seen.borrow_mut()[at].body = body;
            Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new()))
        }
    });
    let serving = async {
        let io = TokioIo::new(Guard::new(server, RawSwitch::default()));
        // A fault of the connection ends it.
        let _ = http1_builder().serve_connection(io, service).await;
    };
    tokio::join!(serving, peer(client, bytes));
    seen.take()
}

/// The strictest reader that follows RFC 9112: it stops at whatever is odd.
fn read(mut rest: &[u8]) -> Vec<Seen> {
    let mut requests = Vec::new();
    while let Some(request) = read_one(&mut rest) {
        let last = request.body.is_none() || request.method == "CONNECT";
        requests.push(request);
        if last {
            break;
        }
    }
    requests
}

fn read_one(rest: &mut &[u8]) -> Option<Seen> {
    while let Some(behind) = rest.strip_prefix(b"\r\n") {
        *rest = behind;
    }
    let end = rest.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(&rest[..end]).into_owned();
    let raw = &rest[..end];
    *rest = &rest[end + 4..];
    let mut lines = head.split("\r\n");
    let request_line = lines.next()?;
    assert!(!head.replace("\r\n", "").contains(['\r', '\n', '\0']), "{head:?}");
    let [method, target, version] = request_line.split(' ').collect::<Vec<_>>()[..] else { panic!("{request_line:?}") };
    assert!(["HTTP/1.1", "HTTP/1.0"].contains(&version), "{version:?}");
    let (mut host, mut length, mut chunked) = (None, None, false);
    for (line, bytes) in lines.zip(raw.split(|&b| b == b'\n').skip(1)) {
        let (name, value) = line.split_once(':').expect("a colon");
        assert!(!name.is_empty() && !name.contains(|c: char| c.is_ascii_whitespace() || c.is_ascii_control()));
        match name.to_ascii_lowercase().as_str() {
            "host" => {
                let value = bytes.splitn(2, |&b| b == b':').nth(1).expect("a colon").trim_ascii();
                assert!(host.replace(lossy(value)).is_none(), "two hosts");
            }
            "content-length" => {
                let value = value.trim_matches([' ', '\t']);
                assert!(!value.is_empty() && value.bytes().all(|b| b.is_ascii_digit()), "{value:?}");
                assert!(length.replace(value.parse::<u64>().expect("a length")).is_none(), "two lengths");
            }
            "transfer-encoding" => {
                assert!(value.trim_matches([' ', '\t']).eq_ignore_ascii_case("chunked") && !chunked, "{value:?}");
                chunked = true;
            }
            _ => {}
        }
    }
    assert!(length.is_none() || !chunked, "{head:?}");
    let body = match (length, chunked) {
        (None, false) => Some(Vec::new()),
        (Some(length), _) => take(rest, usize::try_from(length).unwrap_or(usize::MAX)),
        (None, true) => read_chunks(rest),
    };
    // As `http` spells it: a slash for no path, and no fragment.
    let target = http::Uri::try_from(target).expect("the guard lets only such through").to_string();
    Some(Seen { method: method.into(), target, host, body })
}

fn take(rest: &mut &[u8], length: usize) -> Option<Vec<u8>> {
    let (taken, behind) = rest.split_at_checked(length)?;
    *rest = behind;
    Some(taken.to_vec())
}

fn read_chunks(rest: &mut &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let line = read_line(rest)?;
        let size = line.split(|&b| b == b';').next()?;
        let size = std::str::from_utf8(size).ok().filter(|size| size.bytes().all(|b| b.is_ascii_hexdigit()))?;
        match usize::from_str_radix(size, 16).ok()? {
            0 => break,
            size => body.extend(take(rest, size)?),
        }
        if take(rest, 2)? != b"\r\n" {
            return None;
        }
    }
    loop {
        let line = String::from_utf8_lossy(read_line(rest)?).into_owned();
        if line.is_empty() {
            return Some(body);
        }
        let (name, value) = line.split_once(':').expect("a colon in a trailer");
        let odd = |c: char| c.is_ascii_control() && c != '\t';
        assert!(
            !name.is_empty() && !name.contains(|c: char| c.is_whitespace() || odd(c)) && !value.contains(odd),
            "{line:?}"
        );
    }
}

fn read_line<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let at = rest.windows(2).position(|window| window == b"\r\n")?;
    let line = &rest[..at];
    *rest = &rest[at + 2..];
    Some(line)
}
