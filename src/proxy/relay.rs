//! Bytes that are passed on unread, both ways.

use std::cell::RefCell;
use std::io::{self, ErrorKind};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use nix::fcntl::{OFlag, SpliceFFlags, splice};
use nix::unistd::pipe2;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncWriteExt, Interest};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, watch};

use crate::audit::Row;
use crate::policy::Grant;

use super::refusal::Refusal;
use super::underway::Ticket;
use super::{Connection, upstream};

/// Bytes that one direction moves at a time.
const CHUNK: usize = 64 * 1024;
/// What one direction has moved before a pipe is taken for it.
const BULK: u64 = 1024 * 1024;
/// Pipes of all connections together, of two descriptors each: the limit on descriptors is for connections.
pub const PIPES: usize = 64;
/// How long a silent connection may be gone before it is noticed.
const KEEPALIVE: Duration = Duration::from_secs(60);

static PIPES_FREE: Semaphore = Semaphore::const_new(PIPES);

thread_local! {
    static SCRATCH: RefCell<Vec<u8>> = RefCell::new(vec![0; CHUNK]);
}

/// Where a connection goes on to, with its open row.
pub struct Joint {
    /// The upstream.
    pub server: TcpStream,
    row: Row,
    ticket: Ticket,
    /// Tells of every policy that came after the one by which it was permitted.
    pub changes: watch::Receiver<()>,
}

/// Why a connection cannot go on unread.
#[derive(Debug)]
pub enum Failure {
    /// There is no address to dial; nothing says so in the audit yet.
    Refused(Refusal),
    /// Nobody took the connection, as its row says.
    Failed(Refusal),
}

/// Dials what `grant` permits. The row of the connection is opened before.
///
/// # Errors
/// [`Failure`].
pub async fn dial(connection: &Connection, grant: Grant) -> Result<Joint, Failure> {
    let ticket = connection.underway.relay(&connection.destination);
    let changes = connection.worker.sandbox.changes();
    // By the policy of now: `grant` may be older than what `changes` tells.
    if !ticket.is_permitted(&connection.worker.sandbox.policy()) {
        let what = "the policy has changed".to_owned();
        return Err(Failure::Refused(Refusal::Malformed(what)));
    }
    let target = upstream::target_unread(connection, &grant).await.map_err(Failure::Refused)?;
    let mut event = connection.event();
    event.rule = Some(grant);
    let row = connection.worker.audit.open(event).await;
    let mut row = row.map_err(|full| Failure::Refused(Refusal::from(full)))?;
    match upstream::dial_unread(connection, &target).await {
        Ok((server, peer)) => {
            row.event().upstream = peer;
            ticket.goes_to(peer);
            Ok(Joint { server, row, ticket, changes })
        }
        Err(refusal) => {
            row.event().deny(refusal.code(), refusal.for_operator(), refusal.cure());
            Err(Failure::Failed(refusal))
        }
    }
}

/// Passes on until both sides have ended, one of them has failed, or a changed policy forbids it.
pub async fn join(connection: &Connection, joint: Joint, early: Bytes, client: TcpStream) {
    let _slot = connection.slot.clone();
    let Joint { mut server, mut row, changes, ticket: _ticket } = joint;
    for side in [&client, &server] {
        // Without it a connection whose other end is gone only lives longer.
        let _ = SockRef::from(side).set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE));
    }
    row.traffic.up.store(early.len() as u64, Ordering::Relaxed);
    let (up, down) = (Arc::clone(&row.traffic), AtomicU64::new(0));
    let passed = async {
        server.write_all(&early).await?;
        let both = (pump((&client, &server), &up.up, &PIPES_FREE), pump((&server, &client), &down, &PIPES_FREE));
        tokio::try_join!(both.0, both.1).map(drop)
    };
    let ended = tokio::select! {
        biased;
        () = connection.underway.forbidden(&connection.worker.sandbox, changes) => {
            Err(io::Error::other("the policy has changed"))
        }
        ended = passed => ended,
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a relayed connection ended");
    }
    row.event().bytes_down = down.load(Ordering::Relaxed);
}

/// Moves everything of one direction, and passes on its end. A direction that moves much gets a pipe, so that its bytes stay
/// in the kernel.
async fn pump((from, to): (&TcpStream, &TcpStream), count: &AtomicU64, pipes: &Semaphore) -> io::Result<()> {
    let mut moved = 0;
    loop {
        if moved >= BULK
            && let Ok(_place) = pipes.try_acquire()
            && let Ok(pipe) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)
        {
            splice_all(from, to, &pipe, count).await?;
            break;
        }
        from.readable().await?;
        let (read, rest) = match step(from, to) {
            Ok(step) => step,
            Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
            Err(error) => return Err(error),
        };
        if read == 0 {
            break;
        }
        write_all(to, &rest).await?;
        moved += read as u64;
        count.fetch_add(read as u64, Ordering::Relaxed);
    }
    match SockRef::from(to).shutdown(Shutdown::Write) {
        Err(error) if error.kind() != ErrorKind::NotConnected => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Reads once and writes what can be written at once: how much was read, and what is left of it. The buffer is the thread's,
/// so that connections which are silent hold none.
fn step(from: &TcpStream, to: &TcpStream) -> io::Result<(usize, Vec<u8>)> {
    SCRATCH.with_borrow_mut(|scratch| {
        let read = from.try_read(scratch)?;
        let written = match to.try_write(&scratch[..read]) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
            written => written?,
        };
        Ok((read, scratch[written..read].to_vec()))
    })
}

async fn write_all(to: &TcpStream, mut rest: &[u8]) -> io::Result<()> {
    while !rest.is_empty() {
        to.writable().await?;
        match to.try_write(rest) {
            Ok(written) => rest = &rest[written..],
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// splice(2) through a pipe that is empty before each turn, so that "would block" always means the socket.
async fn splice_all(from: &TcpStream, to: &TcpStream, pipe: &(OwnedFd, OwnedFd), count: &AtomicU64) -> io::Result<()> {
    let (out, into) = pipe;
    let flags = SpliceFFlags::SPLICE_F_MOVE | SpliceFFlags::SPLICE_F_NONBLOCK;
    loop {
        let fill = || splice(from, None, into, None, CHUNK, flags).map_err(io::Error::from);
        let mut held = from.async_io(Interest::READABLE, fill).await?;
        if held == 0 {
            return Ok(());
        }
        count.fetch_add(held as u64, Ordering::Relaxed);
        while held > 0 {
            let empty = || splice(out, None, to, None, held, flags).map_err(io::Error::from);
            held -= to.async_io(Interest::WRITABLE, empty).await?;
        }
    }
}

#[cfg(test)]
mod tests;
