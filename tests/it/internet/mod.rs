//! The servers of the little internet, all on one thread of its namespace.

pub mod aws;
pub mod coding;
pub mod dns;
pub mod git;
pub mod github;
pub mod github_app;
pub mod https;
pub mod issuer;
pub mod mirror;
pub mod mistral;
pub mod packages;
pub mod pki;
pub mod rawtls;
pub mod recorder;
pub mod sniffer;
pub mod strict;
pub mod websocket;

use std::future::Future;
use std::sync::{Arc, OnceLock, mpsc};

use tokio::runtime::{Builder, Handle};

use crate::rig;
use dns::Dns;
use https::Web;
use pki::Pki;
use sniffer::Sniffer;

/// Everything that runs out there.
pub struct Internet {
    /// The name server: its table and its log.
    pub dns: Arc<Dns>,
    /// Certificates, good and faulty.
    pub pki: Arc<Pki>,
    /// The HTTPS upstreams: their log and their levers.
    pub web: Arc<Web>,
    /// Every packet that the host sent out.
    pub sniffer: Arc<Sniffer>,
    runtime: Handle,
}

static INTERNET: OnceLock<Internet> = OnceLock::new();

/// Starts the servers; every one listens when this returns.
pub fn start() {
    let files = packages::make(&rig::base().join("packages"));
    let repositories = git::make(&rig::base().join("git"));
    let dns = Arc::new(Dns::new());
    let pki = Arc::new(Pki::new(&rig::base().join("test-root.pem")));
    let web = Arc::new(Web::new(files, repositories));
    let sniffer = Sniffer::start();
    let (started, ready) = mpsc::channel();
    let servers = (dns.clone(), pki.clone(), web.clone());
    rig::in_internet(move || {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (dns, pki, web) = servers;
            dns.listen().await;
            web.listen(&pki).await;
            started.send(Handle::current()).unwrap();
            std::future::pending::<()>().await;
        });
    });
    let runtime = ready.recv().expect("the servers of the internet start");
    assert!(INTERNET.set(Internet { dns, pki, web, sniffer, runtime }).is_ok());
}

/// The internet of this run.
pub fn internet() -> &'static Internet {
    INTERNET.get().expect("start() comes first")
}

impl Internet {
    /// Runs a task on the internet's thread and waits for its value: for listeners of a single test.
    pub fn run<T: Send + 'static>(&self, task: impl Future<Output = T> + Send + 'static) -> T {
        let (sent, value) = mpsc::channel();
        self.runtime.spawn(async move {
            let _ = sent.send(task.await);
        });
        value.recv().expect("the task ends")
    }
}
