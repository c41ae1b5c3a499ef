//! Bytes passed on unread, after a change of protocol that the sandbox asked for and the upstream agreed to.

use std::sync::Arc;

use http::Response;
use http::header::UPGRADE;
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;

use super::capture::guard::RawSwitch;
use super::refusal::Refusal;
use super::underway::Ticket;
use super::{Connection, headers};

/// Joins both sides once the 101 has gone to the sandbox. The connection never returns to the pool.
///
/// # Errors
/// [`Refusal::BadAnswer`] for a 101 that nobody asked for, or to another protocol.
pub fn switch(
    connection: &Connection,
    response: &mut Response<Incoming>,
    asked: Option<OnUpgrade>,
    raw: RawSwitch,
    ticket: Ticket,
) -> Result<(), Refusal> {
    let agreed = response.headers().get(UPGRADE).is_some_and(|v| v.as_bytes().eq_ignore_ascii_case(b"websocket"));
    let Some(client) = asked.filter(|_| agreed) else {
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
        let (mut client, mut server) = (TokioIo::new(client), TokioIo::new(server));
        tokio::select! {
            // An error of either side ends both, which is all there is to say.
            _ = tokio::io::copy_bidirectional(&mut client, &mut server) => {}
            () = underway.forbidden(&worker.sandbox, changes) => {}
        }
    });
    Ok(())
}
