//! A TLS upstream that answers scripted bytes: for what no HTTP library would send.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::time::Duration;

use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::internet;
use super::strict::{self, Strict};
use crate::rig;

/// A step of the script that each connection follows.
#[derive(Clone, Debug)]
pub enum Step {
    /// Read up to the empty line that ends a head.
    ReadHead,
    /// Read one whole request, or up to what is odd about it.
    ReadRequest,
    /// Read this many bytes.
    Read(usize),
    /// Send these bytes.
    Send(Vec<u8>),
    /// End TLS properly, then TCP.
    Close,
    /// End TCP without a word in TLS: a truncation.
    Fin,
    /// Reset the connection.
    Reset,
    /// Keep what the peer sends until it ends the connection.
    Drain,
}

/// The upstream and what it was sent, in clear.
#[derive(Clone)]
pub struct RawTls {
    seen: Arc<Mutex<Vec<Vec<u8>>>>,
    hold: Arc<Hold>,
}

/// Keeps handshakes waiting.
#[derive(Default)]
struct Hold {
    /// Whether they wait, and how many do.
    state: Mutex<(bool, usize)>,
    changed: Condvar,
}

impl RawTls {
    /// Listens on `address`; every connection follows `script`, with a certificate for whatever name is asked.
    pub fn start(address: &str, script: Vec<Step>) -> Self {
        let upstream = Self { seen: Arc::default(), hold: Arc::default() };
        let (task, address) = (upstream.clone(), address.parse::<SocketAddr>().unwrap());
        let tls = internet().pki.server(&["http/1.1"]);
        let (listening, ready) = mpsc::channel();
        rig::in_internet(move || {
            let listener = TcpListener::bind(address).unwrap();
            listening.send(()).unwrap();
            for stream in listener.incoming().flatten() {
                let (task, tls, script) = (task.clone(), tls.clone(), script.clone());
                std::thread::spawn(move || task.follow(stream, tls, &script));
            }
        });
        ready.recv().unwrap();
        upstream
    }

    /// What each connection sent, in clear, in the order of their handshakes.
    pub fn seen(&self) -> Vec<Vec<u8>> {
        self.seen.lock().unwrap().clone()
    }

    /// Every whole request that it got. Panics when any byte is not of a well-formed request, or stands behind one that
    /// was cut off.
    #[track_caller]
    pub fn well_formed(&self) -> Vec<Strict> {
        let read = |bytes: &Vec<u8>| {
            let shown = || String::from_utf8_lossy(&bytes[..bytes.len().min(2000)]).into_owned();
            strict::read_all(bytes).unwrap_or_else(|odd| panic!("the upstream got {odd} in\n{}", shown())).0
        };
        self.seen().iter().flat_map(read).collect()
    }

    /// How many requests of a method it got, over all connections.
    pub fn requests(&self, method: &str) -> usize {
        let start = format!("{method} /");
        self.seen().iter().map(|bytes| String::from_utf8_lossy(bytes).matches(&start).count()).sum()
    }

    /// From here on no handshake is answered, until [`Self::release`].
    pub fn hold(&self) {
        self.hold.state.lock().unwrap().0 = true;
    }

    /// Answers the handshakes that wait, and all others.
    pub fn release(&self) {
        self.hold.state.lock().unwrap().0 = false;
        self.hold.changed.notify_all();
    }

    /// How many connections wait for a handshake, once there are this many.
    #[track_caller]
    pub fn waiting(&self, at_least: usize) -> usize {
        let few = |state: &mut (bool, usize)| state.1 < at_least;
        let state = self.hold.state.lock().unwrap();
        let (state, late) = self.hold.changed.wait_timeout_while(state, Duration::from_secs(30), few).unwrap();
        assert!(!late.timed_out(), "{} connections wait, not {at_least}", state.1);
        state.1
    }

    fn follow(&self, stream: TcpStream, tls: Arc<ServerConfig>, script: &[Step]) {
        self.hold.pass();
        // A peer that hangs ends its own connection, not the run.
        let _ = stream.set_read_timeout(Some(Duration::from_secs(60)));
        let mut stream = StreamOwned::new(ServerConnection::new(tls).unwrap(), stream);
        if stream.conn.complete_io(&mut stream.sock).is_err() {
            return;
        }
        let row = {
            let mut seen = self.seen.lock().unwrap();
            seen.push(Vec::new());
            seen.len() - 1
        };
        for step in script {
            if self.step(row, &mut stream, step).is_err() {
                return;
            }
        }
    }

    fn step(
        &self,
        row: usize,
        stream: &mut StreamOwned<ServerConnection, TcpStream>,
        step: &Step,
    ) -> std::io::Result<()> {
        match step {
            Step::ReadHead => self.read_while(row, stream, |bytes| !bytes.ends_with(b"\r\n\r\n")),
            Step::ReadRequest => self.read_while(row, stream, |bytes| matches!(strict::read(bytes), Ok(None))),
            Step::Read(length) => self.read_while(row, stream, |bytes| bytes.len() < *length),
            Step::Drain => self.read_while(row, stream, |_| true),
            Step::Send(bytes) => stream.write_all(bytes).and_then(|()| stream.flush()),
            Step::Close => {
                stream.conn.send_close_notify();
                stream.conn.complete_io(&mut stream.sock)?;
                stream.sock.shutdown(Shutdown::Both)
            }
            Step::Fin => stream.sock.shutdown(Shutdown::Both),
            Step::Reset => socket2::SockRef::from(&stream.sock)
                .set_linger(Some(Duration::ZERO))
                .and_then(|()| Err(std::io::Error::other("dropping the socket resets it"))),
        }
    }

    fn read_while(
        &self,
        row: usize,
        stream: &mut StreamOwned<ServerConnection, TcpStream>,
        more: impl Fn(&[u8]) -> bool,
    ) -> std::io::Result<()> {
        let (mut read, mut byte) = (Vec::new(), [0; 1]);
        while more(&read) {
            if stream.read(&mut byte)? == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            read.push(byte[0]);
            self.seen.lock().unwrap()[row].push(byte[0]);
        }
        Ok(())
    }
}

impl Hold {
    fn pass(&self) {
        let mut state = self.state.lock().unwrap();
        state.1 += 1;
        self.changed.notify_all();
        let mut state = self.changed.wait_while(state, |(held, _)| *held).unwrap();
        state.1 -= 1;
    }
}
