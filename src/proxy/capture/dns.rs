//! DNS inside the sandbox. A permitted name gets its real, checked addresses; a refused one, and a permitted one that has
//! no address to show, gets an address of its own, so that the connection comes here and is answered readably. So does one
//! that may be passed on unread: its connections do not say its name. Nothing is looked up for a refused name. Answers fit 512 bytes and are never truncated, since not every resolver asks again.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use hickory_proto::op::{Edns, Message, MessageType, OpCode, ResponseCode};
use hickory_proto::rr::rdata::{A, AAAA};
use hickory_proto::rr::{DNSClass, Name, RData, Record, RecordType};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::Semaphore;

use crate::dns::ResolveError;
use crate::types::{Authority, Host, HostName, Scheme};

use super::names::Synthetic;
use super::{REST, accept_one, datagram};
use crate::proxy::Worker;

/// Seconds: short, so that a changed answer is seen soon.
const TTL: u32 = 5;
/// Addresses in one answer: eight of either family fit 512 bytes beside the longest name.
const ADDRESSES: usize = 8;
/// Questions being answered at a time; further ones wait in the socket.
const QUESTIONS: usize = 256;
/// TCP connections at a time.
const CONNECTIONS: usize = 64;
/// For the next question on a TCP connection (RFC 7766 section 6.2.3).
const IDLE: Duration = Duration::from_secs(10);

/// Answers questions for one sandbox.
pub struct Responder {
    worker: Arc<Worker>,
    names: Arc<Synthetic>,
    questions: Arc<Semaphore>,
    connections: Arc<Semaphore>,
}

enum Answer {
    Addresses(Vec<IpAddr>),
    NotFound,
    Failed,
}

impl Responder {
    /// A responder on a worker's runtime.
    pub fn new(worker: Arc<Worker>, names: Arc<Synthetic>) -> Arc<Self> {
        let (questions, connections) = (Semaphore::new(QUESTIONS), Semaphore::new(CONNECTIONS));
        Arc::new(Self { worker, names, questions: Arc::new(questions), connections: Arc::new(connections) })
    }

    /// Serves a UDP socket. Each answer leaves from the address that its question was sent to.
    pub async fn serve_udp(self: Arc<Self>, socket: UdpSocket) {
        let socket = Arc::new(socket);
        let mut buffer = vec![0; 4096];
        while let Ok(turn) = Arc::clone(&self.questions).acquire_owned().await {
            let (len, from) = match datagram::receive(&socket, &mut buffer).await {
                Ok(received) => received,
                Err(error) => {
                    tracing::warn!(%error, "cannot receive DNS questions");
                    tokio::time::sleep(REST).await;
                    continue;
                }
            };
            let Ok(query) = Message::from_vec(&buffer[..len]) else { continue };
            let (this, socket) = (Arc::clone(&self), Arc::clone(&socket));
            tokio::spawn(async move {
                let _turn = turn;
                if let Some(answer) = this.answer(&query).await
                    && let Err(error) = datagram::send(&socket, &answer, &from).await
                {
                    tracing::debug!(%error, "a DNS answer could not be sent");
                }
            });
        }
    }

    /// Serves a TCP listener; a connection takes many questions, answered in their order.
    ///
    /// # Errors
    /// The listener has failed for good.
    pub async fn serve_tcp(self: Arc<Self>, listener: TcpListener) -> io::Result<()> {
        while let Ok(slot) = Arc::clone(&self.connections).acquire_owned().await {
            let io = accept_one(&listener).await?;
            let this = Arc::clone(&self);
            tokio::spawn(async move {
                let _slot = slot;
                if let Err(error) = this.converse(io).await {
                    tracing::debug!(%error, "a DNS connection ended");
                }
            });
        }
        Ok(())
    }

    async fn converse(&self, mut io: TcpStream) -> io::Result<()> {
        loop {
            let Ok(len) = tokio::time::timeout(IDLE, io.read_u16()).await else { return Ok(()) };
            let mut message = vec![0; usize::from(len?)];
            let read = tokio::time::timeout(IDLE, io.read_exact(&mut message)).await;
            read.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
            let Some(answer) = self.reply(&message).await else { return Ok(()) };
            let len = u16::try_from(answer.len()).map_err(io::Error::other)?;
            io.write_all(&[&len.to_be_bytes()[..], &answer].concat()).await?;
        }
    }

    /// The answer to one message as it came, or nothing where it is no question.
    pub async fn reply(&self, message: &[u8]) -> Option<Vec<u8>> {
        self.answer(&Message::from_vec(message).ok()?).await
    }

    async fn answer(&self, query: &Message) -> Option<Vec<u8>> {
        if query.metadata.message_type != MessageType::Query {
            return None;
        }
        let mut reply = Message::response(query.metadata.id, query.metadata.op_code);
        reply.metadata.recursion_desired = query.metadata.recursion_desired;
        reply.metadata.recursion_available = true;
        if let [question] = query.queries.as_slice() {
            // What is no single question is not repeated, however long it is.
            reply.add_query(question.clone());
        }
        if query.edns.is_some() {
            let mut edns = Edns::new();
            edns.set_max_payload(1232);
            reply.set_edns(edns);
        }
        reply.metadata.response_code = match (query.metadata.op_code, query.queries.as_slice()) {
            (OpCode::Query, [question]) if question.query_class() == DNSClass::IN => {
                self.fill(question.name(), question.query_type(), &mut reply).await
            }
            (OpCode::Query, [_]) => ResponseCode::Refused,
            (OpCode::Query, _) => ResponseCode::FormErr,
            (_, _) => ResponseCode::NotImp,
        };
        reply.to_vec().ok()
    }

    async fn fill(&self, name: &Name, kind: RecordType, reply: &mut Message) -> ResponseCode {
        let Ok(host) = HostName::parse(&name.to_ascii()) else { return ResponseCode::NXDomain };
        if kind != RecordType::A && kind != RecordType::AAAA {
            // HTTPS and SVCB too: without them a client has no ECH keys and no hint of another port or of HTTP/3.
            return ResponseCode::NoError;
        }
        let addresses = match self.addresses(&host).await {
            Answer::Addresses(addresses) => addresses,
            Answer::NotFound => return ResponseCode::NXDomain,
            Answer::Failed => return ResponseCode::ServFail,
        };
        for address in addresses.into_iter().filter(|ip| ip.is_ipv4() == (kind == RecordType::A)).take(ADDRESSES) {
            let data = match address {
                IpAddr::V4(v4) => RData::A(A(v4)),
                IpAddr::V6(v6) => RData::AAAA(AAAA(v6)),
            };
            reply.add_answer(Record::from_rdata(name.clone(), TTL, data));
        }
        ResponseCode::NoError
    }

    async fn addresses(&self, host: &HostName) -> Answer {
        if host.as_str() == "localhost" || host.as_str().ends_with(".localhost") {
            // RFC 6761 section 6.3: the sandbox's own loopback, which nobody else answers.
            return Answer::Addresses(vec![IpAddr::V4(Ipv4Addr::LOCALHOST)]);
        }
        let own_address = || Answer::Addresses(vec![IpAddr::V4(self.names.address(host))]);
        let policy = &*self.worker.sandbox.policy();
        let looked_up_elsewhere = self.worker.upstream_proxy.as_ref().is_some_and(|proxy| proxy.looks_up());
        if looked_up_elsewhere || !policy.may_resolve(host) || policy.is_known_by_name_only(host) {
            return own_address();
        }
        let authority = Authority::new(Host::Name(host.clone()), 443);
        match self.worker.resolver.resolve(policy, &authority, Scheme::Https).await {
            // What is learned is learned by name.
            Ok(_) if policy.is_learning() => own_address(),
            Ok(checked) if checked.as_slice().iter().any(|ip| ip.is_loopback()) => own_address(),
            Ok(checked) => Answer::Addresses(checked.as_slice().to_vec()),
            Err(ResolveError::Denied(_)) => own_address(),
            Err(ResolveError::NotFound(_)) => Answer::NotFound,
            Err(ResolveError::NoAddress(_)) => Answer::Addresses(Vec::new()),
            Err(ResolveError::Unanswered(_) | ResolveError::OwnAddresses) => Answer::Failed,
        }
    }
}
