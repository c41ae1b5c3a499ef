//! A port that many sandboxes share. Each request, CONNECT and SOCKS5 greeting says whose it is, by the pair of a user and a token
//! (`../shared/spec/seed-systems.md` A.4.2); without one, nothing is looked at.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::header::{HeaderMap, PROXY_AUTHORIZATION};
use zeroize::Zeroizing;

use crate::proxy::refusal::Refusal;
use crate::proxy::{Outlet, Worker};
use crate::sandboxes::Sandbox;
use crate::types::{PROXY_USER, SandboxId};

/// Knows whose a token is.
pub trait Admission: Send + Sync {
    /// The sandbox that a token is for, now.
    fn admit<'a>(&'a self, token: &'a str) -> Admitting<'a>;
}

/// An answer of [`Admission`].
pub type Admitting<'a> = Pin<Box<dyn Future<Output = Result<Arc<Sandbox>, NotAdmitted>> + Send + 'a>>;

/// Why a token admits nobody. `Display` is what its bearer may read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAdmitted {
    /// There is none.
    #[error("this proxy needs the user `{PROXY_USER}` with a token: put them into the proxy's URL")]
    Missing,
    /// It is none, is over, or was revoked.
    #[error("the token is not accepted: {0}")]
    Refused(String),
    /// An earlier request on the connection had another's.
    #[error("this connection is another sandbox's: open one of your own")]
    Another,
    /// Whether it holds cannot be told now.
    #[error("the proxy cannot tell now whose this token is: {0}")]
    Unavailable(&'static str),
}

/// The port, as one thread serves it: with a worker for each sandbox that has come.
pub struct Port {
    admission: Arc<dyn Admission>,
    outlet: Outlet,
    workers: Mutex<HashMap<SandboxId, Arc<Worker>>>,
}

impl Port {
    /// A port without any sandbox yet.
    pub fn new(admission: Arc<dyn Admission>, outlet: Outlet) -> Self {
        Self { admission, outlet, workers: Mutex::default() }
    }

    /// Where rows go about those who are not admitted.
    pub fn outlet(&self) -> &Outlet {
        &self.outlet
    }

    /// The worker of whoever asks with these headers.
    ///
    /// # Errors
    /// [`Refusal::NotAdmitted`].
    pub async fn of_request(&self, headers: &HeaderMap) -> Result<Arc<Worker>, Refusal> {
        let token = token(headers).ok_or(NotAdmitted::Missing)?;
        self.of_token(&token).await
    }

    /// The worker of whoever holds a token.
    ///
    /// # Errors
    /// [`Refusal::NotAdmitted`].
    pub async fn of_token(&self, token: &str) -> Result<Arc<Worker>, Refusal> {
        let sandbox = self.admission.admit(token).await?;
        let mut workers = self.lock();
        let worker = workers.get(&sandbox.id).filter(|worker| Arc::ptr_eq(&worker.sandbox, &sandbox));
        Ok(match worker {
            Some(worker) => Arc::clone(worker),
            None => {
                let worker = Arc::new(self.outlet.worker(Arc::clone(&sandbox)));
                workers.insert(sandbox.id.clone(), Arc::clone(&worker));
                worker
            }
        })
    }

    /// Closes what has been idle for long, and forgets the workers that nobody needs.
    pub fn sweep(&self) {
        self.lock().retain(|_, worker| {
            worker.pool.sweep();
            Arc::strong_count(worker) > 1 || !worker.pool.is_empty()
        });
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SandboxId, Arc<Worker>>> {
        // Nothing panics while it is locked.
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The token of `Proxy-Authorization: Basic`; none where there is none, or two.
fn token(headers: &HeaderMap) -> Option<Zeroizing<String>> {
    let mut values = headers.get_all(PROXY_AUTHORIZATION).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return None };
    let (scheme, encoded) = value.to_str().ok()?.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let pair = Zeroizing::new(BASE64_STANDARD.decode(encoded.trim()).ok()?);
    let (user, token) = std::str::from_utf8(&pair).ok()?.split_once(':')?;
    (user == PROXY_USER).then(|| Zeroizing::new(token.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn the_pair_is_read_in_one_way() {
        let basic = |pair: &str| format!("Basic {}", BASE64_STANDARD.encode(pair));
        let read = |values: &[String]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(PROXY_AUTHORIZATION, HeaderValue::from_str(value).unwrap());
            }
            token(&headers).map(|token| token.to_string())
        };
        let good = basic("sandbox-proxy:a.b");
        assert_eq!(read(std::slice::from_ref(&good)).as_deref(), Some("a.b"));
        assert_eq!(read(&[good.replace("Basic", "bASIC")]).as_deref(), Some("a.b"));
        assert_eq!(read(&[basic("sandbox-proxy:a:b")]).as_deref(), Some("a:b"));
        for bad in [
            basic("other:a.b"),
            basic("sandbox-proxy"),
            "Basic".to_owned(),
            "Basic ???".to_owned(),
            "Bearer a.b".to_owned(),
        ] {
            assert_eq!(read(std::slice::from_ref(&bad)), None, "{bad}");
        }
        assert_eq!(read(&[]), None);
        assert_eq!(read(&[good.clone(), good]), None, "two may be read in two ways");
    }
}
