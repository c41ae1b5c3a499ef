//! Bytes passed on unread, after a change of protocol that the sandbox asked for and the upstream agreed to.

use std::io;
use std::sync::Arc;

use bytes::BytesMut;
use http::Response;
use http::header::UPGRADE;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::capture::guard::RawSwitch;
use super::refusal::Refusal;
use super::scrub::Masker;
use super::underway::Ticket;
use super::{Connection, headers};

/// As much as is searched at a time, in bytes.
const PIECE: usize = 16 * 1024;

/// What a change of protocol joins to the upstream.
pub struct Joint {
    /// The sandbox's side, where it asked for a change.
    pub client: Option<OnUpgrade>,
    /// Ends the check of its heads.
    pub raw: RawSwitch,
    /// Held until both sides have ended.
    pub ticket: Ticket,
    /// What the upstream's side goes through, where it may hold a secret.
    pub masker: Option<Masker>,
}

/// Joins both sides once the 101 has gone to the sandbox. The connection never returns to the pool.
///
/// # Errors
/// [`Refusal::BadAnswer`] for a 101 that nobody asked for, or to another protocol.
pub fn switch<B>(connection: &Connection, response: &mut Response<B>, joint: Joint) -> Result<(), Refusal> {
    let Joint { client, raw, ticket, masker } = joint;
    let agreed = response.headers().get(UPGRADE).is_some_and(|v| v.as_bytes().eq_ignore_ascii_case(b"websocket"));
    let Some(client) = client.filter(|_| agreed) else {
        let authority = connection.destination.authority.clone();
        return Err(Refusal::BadAnswer { authority, reason: "it changed the protocol unasked".to_owned() });
    };
    let server = hyper::upgrade::on(&mut *response);
    headers::clean_response(response.headers_mut());
    headers::set_websocket_upgrade(response.headers_mut());
    raw.set();
    let (slot, underway, worker) =
        (connection.slot.clone(), Arc::clone(&connection.underway), Arc::clone(&connection.worker));
    let changes = worker.sandbox.changes();
    tokio::spawn(async move {
        let _held = (slot, ticket);
        let (client, server) = match tokio::try_join!(client, server) {
            Ok(both) => both,
            Err(error) => return tracing::debug!(%error, "a change of protocol was not completed"),
        };
        let (client, server) = (TokioIo::new(client), TokioIo::new(server));
        tokio::select! {
            // An error of either side ends both, which is all there is to say.
            _ = copy_both(client, server, masker) => {}
            () = underway.forbidden(&worker.sandbox, changes) => {}
        }
    });
    Ok(())
}

async fn copy_both(
    mut client: TokioIo<Upgraded>,
    mut server: TokioIo<Upgraded>,
    masker: Option<Masker>,
) -> io::Result<()> {
    let Some(masker) = masker else {
        return tokio::io::copy_bidirectional(&mut client, &mut server).await.map(drop);
    };
    let (mut from_client, to_client) = tokio::io::split(client);
    let (from_server, mut to_server) = tokio::io::split(server);
    let up = async {
        tokio::io::copy(&mut from_client, &mut to_server).await?;
        to_server.shutdown().await
    };
    tokio::try_join!(up, copy_masked(from_server, to_client, masker)).map(drop)
}

async fn copy_masked(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut masker: Masker,
) -> io::Result<()> {
    loop {
        let mut piece = BytesMut::with_capacity(PIECE);
        let ended = from.read_buf(&mut piece).await? == 0;
        let ready = if ended { masker.finish() } else { masker.push(piece.freeze()).map_err(io::Error::other)? };
        to.write_all(&ready).await?;
        if ended {
            return to.shutdown().await;
        }
        to.flush().await?;
    }
}
