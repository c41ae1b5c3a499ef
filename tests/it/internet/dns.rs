//! A name server that logs every query. It speaks the wire format by hand, so that it shares no fault with the
//! library the product resolves with.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};

use crate::rig;

/// Record types that the table answers.
pub const A: u16 = 1;
pub const AAAA: u16 = 28;
const NO_ERROR: u8 = 0;
const SERVER_FAILURE: u8 = 2;
const NO_SUCH_NAME: u8 = 3;

/// What the server says of a name.
#[derive(Clone, Debug)]
pub enum Answer {
    /// These, each to queries of its family.
    Addresses(Vec<IpAddr>),
    /// The first list to the first query of a type, the next to the next, and round again.
    Alternating(Vec<Vec<IpAddr>>),
    /// The name does not exist.
    NoSuchName,
    /// SERVFAIL.
    Failure,
    /// No answer at all.
    Silence,
}

/// The table and the log.
pub struct Dns {
    table: Mutex<HashMap<String, Answer>>,
    queries: Mutex<Vec<(String, u16)>>,
}

impl Dns {
    /// With the names that many tests share; `*.` in front of a name means anything below it.
    pub fn new() -> Self {
        let dns = Self { table: Mutex::default(), queries: Mutex::default() };
        for name in ["allowed.test", "api.cred.test", "git.test", "pypi.test", "npm.test", "crates.test"] {
            dns.set(name, &[rig::WEB]);
            dns.set(&format!("*.{name}"), &[rig::WEB]);
        }
        for name in ["blocked.test", "evil.test"] {
            dns.set(name, &[rig::OTHER]);
            dns.set(&format!("*.{name}"), &[rig::OTHER]);
        }
        dns.set(super::mistral::HOST, &[rig::WEB]);
        dns.set("*.h1.test", &[rig::WEB_HTTP1]);
        use super::pki::{EXPIRED, SELF_SIGNED, UNKNOWN_ROOT, WRONG_NAME};
        for name in [EXPIRED, SELF_SIGNED, UNKNOWN_ROOT, WRONG_NAME] {
            dns.set(name, &[rig::WEB]);
        }
        dns
    }

    /// Gives a name these addresses.
    pub fn set(&self, name: &str, addresses: &[&str]) {
        self.answer(name, Answer::Addresses(addresses.iter().map(|address| address.parse().unwrap()).collect()));
    }

    /// Gives a name this answer.
    pub fn answer(&self, name: &str, answer: Answer) {
        self.table.lock().unwrap().insert(name.to_owned(), answer);
    }

    /// How often a name was asked for, whatever the type.
    pub fn queries(&self, name: &str) -> usize {
        self.queries.lock().unwrap().iter().filter(|(asked, _)| asked == name).count()
    }

    /// The types that a name was asked for, in their order.
    pub fn kinds(&self, name: &str) -> Vec<u16> {
        self.queries.lock().unwrap().iter().filter(|(asked, _)| asked == name).map(|(_, kind)| *kind).collect()
    }

    /// Every name asked for that contains `part`: for names that nobody should have asked for.
    pub fn queries_containing(&self, part: &str) -> Vec<String> {
        let queries = self.queries.lock().unwrap();
        queries.iter().filter(|(asked, _)| asked.contains(part)).map(|(asked, _)| asked.clone()).collect()
    }

    /// Listens on UDP and TCP.
    pub async fn listen(self: Arc<Self>) {
        let udp = UdpSocket::bind((rig::DNS, 53)).await.unwrap();
        let tcp = TcpListener::bind((rig::DNS, 53)).await.unwrap();
        tokio::spawn(self.clone().serve_udp(udp));
        tokio::spawn(async move {
            while let Ok((stream, _)) = tcp.accept().await {
                tokio::spawn(self.clone().serve_tcp(stream));
            }
        });
    }

    async fn serve_udp(self: Arc<Self>, socket: UdpSocket) {
        let mut packet = [0; 4096];
        while let Ok((length, peer)) = socket.recv_from(&mut packet).await {
            if let Some(reply) = self.reply(&packet[..length]) {
                let _ = socket.send_to(&reply, peer).await;
            }
        }
    }

    async fn serve_tcp(self: Arc<Self>, mut stream: TcpStream) {
        while let Ok(length) = stream.read_u16().await {
            let mut query = vec![0; length.into()];
            if stream.read_exact(&mut query).await.is_err() {
                return;
            }
            let Some(reply) = self.reply(&query) else { continue };
            let framed = [&(reply.len() as u16).to_be_bytes()[..], &reply].concat();
            if stream.write_all(&framed).await.is_err() {
                return;
            }
        }
    }

    fn reply(&self, query: &[u8]) -> Option<Vec<u8>> {
        let (name, kind, end) = question(query)?;
        let (code, addresses) = self.look_up(&name, kind)?;
        let matching = addresses.iter().filter(|address| address.is_ipv4() == (kind == A));
        let records: Vec<Vec<u8>> =
            matching.filter(|_| kind == A || kind == AAAA).map(|ip| record(kind, *ip)).collect();
        let mut reply = query[..2].to_vec();
        reply.extend([0x85, 0x80 | code, 0, 1, 0, records.len() as u8, 0, 0, 0, 0]);
        reply.extend(&query[12..end]);
        reply.extend(records.concat());
        Some(reply)
    }

    /// Logs the query; the code and the addresses of the answer, or nothing for silence.
    fn look_up(&self, name: &str, kind: u16) -> Option<(u8, Vec<IpAddr>)> {
        let before = {
            let mut queries = self.queries.lock().unwrap();
            let before = queries.iter().filter(|(asked, of)| asked == name && *of == kind).count();
            queries.push((name.to_owned(), kind));
            before
        };
        match self.find(name) {
            Answer::Addresses(addresses) => Some((NO_ERROR, addresses)),
            Answer::Alternating(lists) => Some((NO_ERROR, lists[before % lists.len()].clone())),
            Answer::NoSuchName => Some((NO_SUCH_NAME, Vec::new())),
            Answer::Failure => Some((SERVER_FAILURE, Vec::new())),
            Answer::Silence => None,
        }
    }

    fn find(&self, name: &str) -> Answer {
        let table = self.table.lock().unwrap();
        let parents = name.match_indices('.').map(|(dot, _)| format!("*{}", &name[dot..]));
        let found = table.get(name).cloned().or_else(|| parents.into_iter().find_map(|key| table.get(&key).cloned()));
        found.unwrap_or(Answer::NoSuchName)
    }
}

/// Name in lower case, type, and where the question ends.
fn question(query: &[u8]) -> Option<(String, u16, usize)> {
    let (mut at, mut labels) = (12, Vec::new());
    loop {
        let length = usize::from(*query.get(at)?);
        at += 1;
        if length == 0 {
            break;
        }
        labels.push(String::from_utf8_lossy(query.get(at..at + length)?).to_ascii_lowercase());
        at += length;
    }
    let kind = u16::from_be_bytes([*query.get(at)?, *query.get(at + 1)?]);
    (query.len() >= at + 4).then(|| (labels.join("."), kind, at + 4))
}

/// A record of the name in the question, to live for no time at all.
fn record(kind: u16, address: IpAddr) -> Vec<u8> {
    let data = match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    };
    let mut record = vec![0xc0, 12, 0, kind as u8, 0, 1, 0, 0, 0, 0, 0, data.len() as u8];
    record.extend(data);
    record
}
