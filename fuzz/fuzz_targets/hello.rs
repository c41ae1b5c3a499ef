//! A TLS handshake of any bytes, up to the certificate for the name that it gives.
#![no_main]

use std::sync::{Arc, LazyLock};

use libfuzzer_sys::fuzz_target;
use rustls::server::{Accepted, Acceptor};
use sandbox_proxy::tls::{LeafConfigs, LeafLimits, SandboxCa};
use sandbox_proxy::types::{Host, SandboxId};

static LEAVES: LazyLock<LeafConfigs> = LazyLock::new(|| {
    let ca = SandboxCa::generate(&SandboxId::from_bits(1)).expect("an authority");
    LeafConfigs::new(Arc::new(ca), LeafLimits { names: 64 }).expect("a key")
});

fuzz_target!(|bytes: &[u8]| {
    let whole = accept(bytes, usize::MAX);
    let pieces = accept(bytes, 1 + bytes.len() % 7);
    let name = |accepted: &Option<Accepted>| {
        accepted.as_ref().map(|accepted| accepted.client_hello().server_name().map(str::to_owned))
    };
    assert_eq!(name(&whole), name(&pieces), "the pieces matter");
    let Some(accepted) = whole else { return };
    let Some(sni) = accepted.client_hello().server_name().map(str::to_owned) else { return };
    let Ok(host) = Host::parse(&sni) else { return };
    let config = LEAVES.server_config(&host).expect("every host gets a certificate");
    if let Ok(mut connection) = accepted.into_connection(config) {
        let mut out = Vec::new();
        while connection.wants_write() {
            connection.write_tls(&mut out).expect("memory takes it");
        }
        assert_eq!(out.first(), Some(&0x16), "a ServerHello");
    }
});

fn accept(mut bytes: &[u8], step: usize) -> Option<Accepted> {
    let mut acceptor = Acceptor::default();
    while !bytes.is_empty() {
        let mut piece = &bytes[..step.min(bytes.len())];
        let offered = piece.len();
        acceptor.read_tls(&mut piece).ok()?;
        bytes = &bytes[offered - piece.len()..];
        match acceptor.accept() {
            Ok(None) => {}
            Ok(Some(accepted)) => return Some(accepted),
            Err(_) => return None,
        }
    }
    None
}
