//! A DNS message of any bytes: the answer is one to it, in 512 bytes unless the question alone is longer.
#![no_main]

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use hickory_proto::op::{Message, MessageType};
use hickory_proto::rr::RData;
use libfuzzer_sys::fuzz_target;
use sandbox_proxy::credentials::header::Injector;
use sandbox_proxy::dns::Resolver;
use sandbox_proxy::policy::Policy;
use sandbox_proxy::proxy::Worker;
use sandbox_proxy::proxy::capture::dns::Responder;
use sandbox_proxy::proxy::pool::Pool;
use sandbox_proxy::sandboxes::Sandbox;
use sandbox_proxy::tls::{LeafConfigs, LeafLimits, SandboxCa, UpstreamTls};
use sandbox_proxy::types::SandboxId;
use tokio::runtime::{Builder, Runtime};

/// No name is permitted, so none is looked up.
static RESPONDER: LazyLock<(Runtime, Arc<Responder>)> = LazyLock::new(|| {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let inside = runtime.enter();
    let id = SandboxId::from_bits(1);
    let ca = Arc::new(SandboxCa::generate(&id).expect("an authority"));
    let leaves = LeafConfigs::new(ca, LeafLimits::default()).expect("a key");
    let injector = Injector::new(&[], &HashMap::new(), Vec::new());
    let worker = Worker {
        sandbox: Arc::new(Sandbox::new(id, Policy::default(), leaves, injector)),
        resolver: Resolver::new(&["127.0.0.1:9".parse().expect("an address")]).expect("a resolver"),
        upstream_tls: Arc::new(UpstreamTls::new(&[], &|name| std::env::var_os(name)).expect("roots")),
        audit: sandbox_proxy::audit::start(None, false).expect("a thread").0,
        pool: Arc::new(Pool::default()),
        upstream_proxy: None,
    };
    let responder = Responder::new(Arc::new(worker), Arc::default());
    drop(inside);
    (runtime, responder)
});

fuzz_target!(|bytes: &[u8]| {
    let (runtime, responder) = &*RESPONDER;
    let Some(reply) = runtime.block_on(responder.reply(bytes)) else { return };
    let query = Message::from_vec(bytes).expect("what is no message gets no answer");
    let read = Message::from_vec(&reply).expect("an answer can be read");
    assert_eq!((read.metadata.id, read.metadata.message_type), (query.metadata.id, MessageType::Response));
    assert_eq!(query.metadata.message_type, MessageType::Query);
    assert!(!read.metadata.truncation);
    assert!(reply.len() <= 512, "{} bytes", reply.len());
    for record in &read.answers {
        let RData::A(address) = &record.data else { panic!("{record}") };
        let [first, second, ..] = address.0.octets();
        assert!((first == 198 && second & 0xfe == 18) || address.0.is_loopback(), "{record}");
    }
});
