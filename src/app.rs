//! Puts a proxy together, and takes it down again.

use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::sync::{Semaphore, mpsc, watch};

use crate::audit::{self, Sink, Summary};
use crate::dns::{Resolver, ResolverError};
use crate::proxy::Outlet;
use crate::proxy::capture::dns::Responder;
use crate::proxy::capture::explicit::Whose;
use crate::proxy::capture::port::{Admission, Port};
use crate::proxy::capture::transparent::{self, Arrival, Entrance};
use crate::proxy::pool::Pool;
use crate::proxy::upstream_proxy::UpstreamProxy;
use crate::sandboxes::Sandbox;
use crate::tls::UpstreamTls;

/// Connections on their way to a worker; further ones wait in the listener.
const ARRIVALS: usize = 64;
/// How long connections may take to notice that the sandbox is gone.
const DRAIN: Duration = Duration::from_millis(500);
/// How often idle upstream connections are looked through.
const SWEEP: Duration = Duration::from_secs(10);

/// The ways in, made inside the sandbox's namespace.
#[derive(Default)]
pub struct Entrances {
    /// TCP listeners, each with what it is for.
    pub tcp: Vec<(TcpListener, Entrance)>,
    /// DNS over TCP.
    pub dns_tcp: Vec<TcpListener>,
    /// DNS over UDP, with packet information on.
    pub dns_udp: Vec<UdpSocket>,
}

/// Whose traffic a proxy carries.
pub enum Served {
    /// One sandbox's, by the ways in that stand in its own namespace.
    One(Arc<Sandbox>, Entrances),
    /// Many sandboxes', by ports on which each request says whose it is.
    Many(Arc<dyn Admission>, Vec<TcpListener>),
}

/// What a proxy is made of.
pub struct Parts {
    /// What upstreams must chain to.
    pub upstream_tls: Arc<UpstreamTls>,
    /// What they are dialled through.
    pub upstream_proxy: Option<Arc<UpstreamProxy>>,
    /// Where audit rows go.
    pub audit: Option<Box<dyn Sink>>,
    /// Connections at a time; further ones wait.
    pub max_connections: usize,
    /// How many threads carry it; one at least.
    pub threads: usize,
    /// Who is asked for names, instead of the host's nameservers.
    pub nameservers: Vec<SocketAddr>,
}

/// A proxy that runs.
pub struct Running {
    stop: watch::Sender<bool>,
    workers: Vec<JoinHandle<()>>,
    writer: audit::Writer,
    lost: Lost,
}

/// Why the sandbox lost a way to the proxy, if it did. Whoever takes it is refused by the kernel.
type Lost = Arc<OnceLock<String>>;

/// How a proxy ended.
pub struct Ended {
    /// What was refused, and whether rows of the audit were lost.
    pub summary: Summary,
    /// What failed while it ran, so that connections were refused since.
    pub lost: Option<String>,
}

/// Why a proxy does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The system gives no thread or timer.
    #[error("the proxy cannot start: {0}")]
    Io(#[from] io::Error),
    /// Names cannot be resolved.
    #[error(transparent)]
    Resolver(#[from] ResolverError),
}

/// Starts the proxy's threads. When it returns, the listeners are being served.
///
/// # Errors
/// [`StartError`]; nothing runs then.
pub fn start(parts: Parts, served: Served) -> Result<Running, StartError> {
    let is_learning = matches!(&served, Served::One(sandbox, _) if sandbox.policy().is_learning());
    let (audit, writer) = audit::start(parts.audit, is_learning)?;
    let names = Arc::default();
    let (stop, stopped) = watch::channel(false);
    let lost = Lost::default();
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..parts.threads.max(1)).map(|_| mpsc::channel(ARRIVALS)).unzip();
    let slots = Arc::new(Semaphore::new(parts.max_connections));
    let (subject, entrances) = match served {
        Served::One(sandbox, entrances) => (Subject::One(sandbox), entrances),
        Served::Many(admission, ports) => {
            let tcp = ports.into_iter().map(|port| (port, Entrance::Explicit)).collect();
            (Subject::Many(admission), Entrances { tcp, ..Entrances::default() })
        }
    };
    // Each listener holds the slot of its next connection.
    let free_at_rest = parts.max_connections.saturating_sub(entrances.tcp.len());
    let mut entrances = Some(entrances);
    let mut workers = Vec::new();
    for arrivals in receivers {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let inside = runtime.enter();
        let outlet = Outlet {
            resolver: Arc::new(Resolver::new(&parts.nameservers)?),
            upstream_tls: Arc::clone(&parts.upstream_tls),
            upstream_proxy: parts.upstream_proxy.clone(),
            audit: audit.clone(),
        };
        let whose = subject.on_this_thread(outlet);
        tokio::spawn(transparent::serve(whose.clone(), Arc::clone(&names), arrivals));
        if let Some(entrances) = entrances.take() {
            let Entrances { tcp, dns_tcp, dns_udp } = entrances;
            listen(tcp, &slots, &senders, &lost)?;
            if let Whose::One(worker) = whose {
                for keeper in worker.sandbox.in_force().injector.keepers() {
                    tokio::spawn(async move { keeper.keep().await });
                }
                listen_dns(dns_tcp, dns_udp, &Responder::new(worker, Arc::clone(&names)), &lost)?;
            }
        }
        drop(inside);
        let (mut stopped, slots, all) = (stopped.clone(), Arc::clone(&slots), free_at_rest as u32);
        workers.push(std::thread::Builder::new().name("proxy".into()).spawn(move || {
            runtime.block_on(async {
                // The sender is dropped or used at the end, which is the same to a worker.
                let _ = stopped.changed().await;
                let _ = tokio::time::timeout(DRAIN, slots.acquire_many(all)).await;
            });
            // A command that gives a credential may take its time; nobody waits for it any more.
            runtime.shutdown_background();
        })?);
    }
    Ok(Running { stop, workers, writer, lost })
}

enum Subject {
    One(Arc<Sandbox>),
    Many(Arc<dyn Admission>),
}

impl Subject {
    /// What serves it on the runtime that is entered, with what keeps its upstream connections in order.
    fn on_this_thread(&self, outlet: Outlet) -> Whose {
        match self {
            Self::One(sandbox) => {
                let worker = Arc::new(outlet.worker(Arc::clone(sandbox)));
                tokio::spawn(sweep(Arc::clone(&worker.pool), sandbox.changes()));
                Whose::One(worker)
            }
            Self::Many(admission) => {
                let port = Arc::new(Port::new(Arc::clone(admission), outlet));
                let swept = Arc::clone(&port);
                tokio::spawn(async move {
                    loop {
                        tokio::time::sleep(SWEEP).await;
                        swept.sweep();
                    }
                });
                Whose::Named(port)
            }
        }
    }
}

impl Running {
    /// Ends it: connections get half a second to notice, then every open row is written.
    pub fn finish(self) -> Ended {
        // A worker that has ended already needs no telling.
        let _ = self.stop.send(true);
        for worker in self.workers {
            if worker.join().is_err() {
                note(&self.lost, "a thread of the proxy has panicked".to_owned());
            }
        }
        Ended { summary: self.writer.finish(), lost: self.lost.get().cloned() }
    }
}

/// Accepts on the runtime that is entered, for all of them.
fn listen(
    listeners: Vec<(TcpListener, Entrance)>,
    slots: &Arc<Semaphore>,
    workers: &[mpsc::Sender<Arrival>],
    lost: &Lost,
) -> io::Result<()> {
    let workers: Arc<[mpsc::Sender<Arrival>]> = workers.into();
    for (listener, entrance) in listeners {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        watch_over(lost, transparent::accept(listener, entrance, Arc::clone(slots), Arc::clone(&workers)));
    }
    Ok(())
}

fn listen_dns(tcp: Vec<TcpListener>, udp: Vec<UdpSocket>, responder: &Arc<Responder>, lost: &Lost) -> io::Result<()> {
    for listener in tcp {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        watch_over(lost, Arc::clone(responder).serve_tcp(listener));
    }
    for socket in udp {
        let socket = tokio::net::UdpSocket::from_std(socket)?;
        tokio::spawn(Arc::clone(responder).serve_udp(socket));
    }
    Ok(())
}

/// Serves a listener, and notes when it fails.
fn watch_over(lost: &Lost, serving: impl Future<Output = io::Result<()>> + Send + 'static) {
    let lost = Arc::clone(lost);
    tokio::spawn(async move {
        if let Err(error) = serving.await {
            note(&lost, format!("a listener in the sandbox has failed: {error}"));
        }
    });
}

/// The first reason stays; the others come of it.
fn note(lost: &Lost, reason: String) {
    tracing::error!("{reason}");
    lost.get_or_init(|| reason);
}

async fn sweep(pool: Arc<Pool>, mut changes: watch::Receiver<()>) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(SWEEP) => pool.sweep(),
            Ok(()) = changes.changed() => pool.clear(),
        }
    }
}
