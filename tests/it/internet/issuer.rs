//! One who gives credentials: an HTTPS server that answers as a test says.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::internet;

/// What it was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Method and target.
    pub line: String,
    /// `name: value`, names in lower case, in alphabetical order.
    pub headers: Vec<String>,
    pub body: String,
}

/// A status and a body; of a redirect, the body is where it leads.
pub type Reply = (u16, String);

/// It lives until the tests end.
#[derive(Clone)]
pub struct Issuer {
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Issuer {
    /// Listens on `address` for TLS, with a certificate for whatever name is asked. `answer` gets the number of the request, from
    /// 0, and the request.
    pub fn start(address: &str, answer: impl Fn(usize, &Asked) -> Reply + Send + Sync + 'static) -> Self {
        Self::serve(address, move |number, asked| {
            let (status, body) = answer(number, asked);
            let mut response = Response::builder().status(status);
            if (300..400).contains(&status) {
                response = response.header("location", &body);
            }
            response.body(body).unwrap()
        })
    }

    /// The same with whole responses.
    pub fn serve(address: &str, answer: impl Fn(usize, &Asked) -> Response<String> + Send + Sync + 'static) -> Self {
        let issuer = Self { asked: Arc::default() };
        let (asked, address) = (issuer.asked.clone(), address.parse::<SocketAddr>().unwrap());
        let answer = Arc::new(answer);
        let tls = TlsAcceptor::from(internet().pki.server(&["http/1.1"]));
        internet().run(async move {
            let listener = TcpListener::bind(address).await.unwrap();
            tokio::spawn(async move {
                while let Ok((tcp, _)) = listener.accept().await {
                    let (tls, asked, answer) = (tls.clone(), asked.clone(), answer.clone());
                    tokio::spawn(async move {
                        let Ok(stream) = tls.accept(tcp).await else { return };
                        let service = service_fn(|request| respond(request, &asked, &*answer));
                        let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
                    });
                }
            });
        });
        issuer
    }

    /// What it was asked so far.
    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

async fn respond(
    request: Request<Incoming>,
    asked: &Mutex<Vec<Asked>>,
    answer: &(impl Fn(usize, &Asked) -> Response<String> + ?Sized),
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut headers: Vec<_> =
        head.headers.iter().map(|(name, value)| format!("{name}: {}", text(value.as_bytes()))).collect();
    headers.sort();
    let got = Asked { line: format!("{} {}", head.method, head.uri), headers, body: text(&body) };
    let number = {
        let mut asked = asked.lock().unwrap();
        asked.push(got.clone());
        asked.len() - 1
    };
    Ok(answer(number, &got).map(Full::from))
}
