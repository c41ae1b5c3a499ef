//! The port that many sandboxes share, in this process: real clients come with tokens of the SDK's format.

use std::collections::HashMap;
use std::net::TcpListener;
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sandbox_proxy::app::{self, Parts, Running, Served};
use sandbox_proxy::audit::AuditFile;
use sandbox_proxy::credentials::{Injector, Issued, Issuer, Issuing, Keeper};
use sandbox_proxy::policy::{NamedText, PolicyOptions, load};
use sandbox_proxy::proxy::capture::port::{Admission, Admitting, NotAdmitted};
use sandbox_proxy::sandboxes::Sandbox;
use sandbox_proxy::tls::{LeafConfigs, LeafLimits, NamedPem, SandboxCa, UpstreamTls};
use sandbox_proxy::types::{Claims, ProviderScope, RepoScope, SandboxId, Secret, SigningSecret, Subject, TokenId};
use serde_json::Value;

use crate::cases;
use crate::internet::internet;
use crate::rig;
use crate::sandbox::{PATH, Run, need};

cases![
    each_token_reaches_what_its_sandbox_may,
    without_a_good_token_nothing_is_looked_at,
    one_connection_is_one_sandboxes,
    socks_clients_bring_the_same_pair,
    a_sandbox_that_is_gone_is_gone_at_once,
];

/// A value that never changes.
struct Stored(&'static str, &'static str);

impl Issuer for Stored {
    fn issue(&self) -> Issuing<'_> {
        let secret = Secret::new(self.0, self.1.as_bytes().to_vec().into()).unwrap();
        Box::pin(async move { Ok(Issued { secret, expires_at: None }) })
    }
}

/// Sandboxes by their ids, as a store would have them.
struct Registry {
    secret: SigningSecret,
    sandboxes: Mutex<HashMap<SandboxId, Arc<Sandbox>>>,
}

impl Admission for Registry {
    fn admit<'a>(&'a self, token: &'a str) -> Admitting<'a> {
        let claims = self.secret.verify(token, SystemTime::now());
        let sandbox = claims.map_err(|error| NotAdmitted::Refused(error.to_string())).and_then(|claims| {
            // A token of the SDK's own names no sandbox: its workspace and user do.
            let sdk = || (claims.subject.workspace_id == "sdk").then(|| SandboxId::from_bits(1));
            let id = claims.sandbox.or_else(sdk).filter(|_| claims.scope == ProviderScope::Egress);
            let found = id.and_then(|id| self.sandboxes.lock().unwrap().get(&id).cloned());
            found.ok_or_else(|| NotAdmitted::Refused("there is no such sandbox".to_owned()))
        });
        Box::pin(async move { sandbox })
    }
}

/// A port with two sandboxes: `one` may ask `one.NAME.allowed.test`, `two` the other.
pub struct Port {
    pub address: String,
    registry: Arc<Registry>,
    pub ca: [String; 2],
    ids: [SandboxId; 2],
    run: Run,
    running: Option<Running>,
    name: &'static str,
}

impl Port {
    pub fn start(name: &'static str) -> Self {
        need("curl", "curl");
        let run = Run::bare();
        let secret = SigningSecret::new("the port's own secret").unwrap();
        let registry = Arc::new(Registry { secret, sandboxes: Mutex::default() });
        let ids = [SandboxId::from_bits(1), SandboxId::from_bits(2)];
        let values = [("one", "canary-port-one"), ("two", "canary-port-two")];
        let mut files = Vec::new();
        for (id, (word, value)) in ids.iter().zip(values) {
            let ca = Arc::new(SandboxCa::generate(id).unwrap());
            let file = run.outside().join(format!("{word}.pem"));
            std::fs::write(&file, ca.pem()).unwrap();
            files.push(file.display().to_string());
            let host = format!("{word}.{name}.allowed.test");
            let text = format!(
                "[network]\nmode = \"allow\"\nhosts = [\"{host}\"]\n\
                 [[header_bindings]]\nkind = \"header_binding\"\nhost = \"{host}\"\nheader = \"X-Key\"\nsecret_name = \"KEY\"\n\
                 [secrets.KEY]\nenv = \"KEY\"\n"
            );
            let policy = load(&[NamedText { name: word.to_owned(), text }], &PolicyOptions::default()).unwrap().policy;
            let keeper = Arc::new(Keeper::new("KEY", Box::new(Stored("KEY", value)), Arc::new(SystemTime::now)));
            internet().run({
                let keeper = Arc::clone(&keeper);
                async move { keeper.start().await.unwrap() }
            });
            let keepers = HashMap::from([("KEY".to_owned(), keeper)]);
            let injector = Injector::new(policy.bindings(), &keepers, Vec::new());
            let leaves = LeafConfigs::new(ca, LeafLimits::default()).unwrap();
            let sandbox = Sandbox::new(id.clone(), leaves, policy, injector, Vec::new());
            registry.sandboxes.lock().unwrap().insert(id.clone(), Arc::new(sandbox));
        }
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let root = internet().pki.root_file();
        let root = NamedPem { name: "root".to_owned(), bytes: std::fs::read(root).unwrap() };
        let audit = std::fs::File::options().append(true).create(true).open(run.audit_file()).unwrap();
        let parts = Parts {
            upstream_tls: Arc::new(UpstreamTls::new(&[root], &|_| None).unwrap()),
            upstream_proxy: None,
            audit: Some(Box::new(AuditFile::new(audit).unwrap())),
            max_connections: 64,
            threads: 2,
            nameservers: vec![format!("{}:53", rig::DNS).parse().unwrap()],
        };
        let admission: Arc<dyn Admission> = registry.clone();
        let running = Some(app::start(parts, Served::Many(admission, vec![listener])).unwrap());
        let ca = files.try_into().unwrap();
        Self { address, registry, ca, ids, run, running, name }
    }

    /// A token of the sandbox at an index.
    pub fn token(&self, index: usize) -> String {
        self.signed(Some(self.ids[index].clone()), ProviderScope::Egress, 600)
    }

    fn signed(&self, sandbox: Option<SandboxId>, scope: ProviderScope, seconds: i64) -> String {
        self.signed_for("ws-1", sandbox, scope, seconds)
    }

    fn signed_for(&self, workspace: &str, sandbox: Option<SandboxId>, scope: ProviderScope, seconds: i64) -> String {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let id = |kind: &str| format!("{kind}-1");
        let (customer_id, organization_id, user_id) = (id("cust"), id("org"), id("user"));
        let workspace_id = workspace.to_owned();
        let subject = Subject { customer_id, organization_id, user_id, workspace_id };
        let expires_at = now.checked_add_signed(seconds).unwrap();
        let id = sandbox.as_ref().map(|_| TokenId::from_bits(5));
        self.registry.secret.sign(&Claims { expires_at, scope, subject, sandbox, id })
    }

    pub fn host(&self, index: usize) -> String {
        format!("{}.{}.allowed.test", ["one", "two"][index], self.name)
    }

    /// curl by the proxy with this user and token, trusting the authority at an index.
    fn curl(&self, scheme: &str, pair: &str, ca: usize, more: &[&str]) -> Output {
        let proxy = format!("{scheme}://{}", self.address);
        let mut command = Command::new("curl");
        command.env_clear().env("PATH", PATH).args([
            "-sS",
            "--max-time",
            "20",
            "--cacert",
            &self.ca[ca],
            "--proxy",
            &proxy,
        ]);
        if !pair.is_empty() {
            command.args(["--proxy-user", pair]);
        }
        command.args(more).output().unwrap()
    }

    fn pair(&self, index: usize) -> String {
        format!("sandbox-proxy:{}", self.token(index))
    }

    /// Ends it; the rows of its audit.
    fn rows(&mut self) -> Vec<Value> {
        let ended = self.running.take().unwrap().finish();
        assert!(ended.lost.is_none() && ended.summary.error.is_none(), "{:?}", ended.lost);
        let text = std::fs::read_to_string(self.run.audit_file()).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned()
}

fn each_token_reaches_what_its_sandbox_may() {
    let mut port = Port::start("each-port");
    for (index, value) in ["canary-port-one", "canary-port-two"].into_iter().enumerate() {
        let (own, other) = (port.host(index), port.host(1 - index));
        let reached = port.curl("http", &port.pair(index), index, &[&format!("https://{own}/echo")]);
        assert!(reached.status.success(), "{}", text(&reached));
        let refused = port.curl("http", &port.pair(index), index, &[&format!("https://{other}/echo")]);
        assert!(!refused.status.success() && text(&refused).contains("403"), "{}", text(&refused));
        // Whose token it is decides whose certificates are shown.
        let distrusted = port.curl("http", &port.pair(index), 1 - index, &[&format!("https://{own}/echo")]);
        assert_eq!(distrusted.status.code(), Some(60), "{}", text(&distrusted));
        let requests = internet().web.requests(&own);
        assert_eq!(requests.len(), 1);
        assert_eq!(requests[0].header("x-key"), [value]);
        assert!(requests[0].header("proxy-authorization").is_empty());
    }
    let rows = port.rows();
    let ids: Vec<&str> = rows
        .iter()
        .filter(|row| row["verdict"] == "permit" && row["status"] == 200)
        .map(|row| row["sandbox"].as_str().unwrap())
        .collect();
    assert_eq!(ids, port.ids.each_ref().map(SandboxId::as_str), "{rows:#?}");
    let written = serde_json::to_string(&rows).unwrap();
    assert!(!written.contains("canary-port") && !written.contains(&port.token(0)[..40]), "{written}");
}

fn without_a_good_token_nothing_is_looked_at() {
    let mut port = Port::start("none-port");
    let own = Some(port.ids[0].clone());
    let github = ProviderScope::GitHub(RepoScope::All);
    let stranger = SigningSecret::new("another secret").unwrap();
    let claims = port.registry.secret.verify(&port.token(0), SystemTime::now()).unwrap();
    let url = format!("https://{}/echo", port.host(0));
    let pairs = [
        String::new(),
        "sandbox-proxy:nothing".to_owned(),
        format!("somebody:{}", port.token(0)),
        format!("sandbox-proxy:{}", port.signed(own.clone(), ProviderScope::Egress, -1)),
        format!("sandbox-proxy:{}", port.signed(own, github, 600)),
        format!("sandbox-proxy:{}", port.signed(Some(SandboxId::from_bits(9)), ProviderScope::Egress, 600)),
        format!("sandbox-proxy:{}", port.signed(None, ProviderScope::Egress, 600)),
        format!("sandbox-proxy:{}", stranger.sign(&claims)),
    ];
    for pair in &pairs {
        let refused = port.curl("http", pair, 0, &["-v", &url]);
        let said = text(&refused);
        assert!(!refused.status.success() && said.contains("407 no_identity"), "{pair}: {said}");
        assert!(said.contains("Proxy-Authenticate: Basic") || said.contains("proxy-authenticate: Basic"), "{said}");
        let plain = port.curl("http", pair, 0, &["-w", "%{http_code}", &format!("http://{}/", port.host(0))]);
        assert!(text(&plain).ends_with("407"), "{}", text(&plain));
    }
    assert!(internet().web.requests(&port.host(0)).is_empty());
    assert!(internet().dns.queries(&port.host(0)) == 0, "a name is nobody's to look up");
    let rows = port.rows();
    assert_eq!(rows.len(), 2 * pairs.len());
    assert!(rows.iter().all(|row| row["code"] == "no_identity" && row.get("sandbox").is_none()), "{rows:#?}");
}

/// A request that comes with another's token is not served on a connection that somebody has begun.
fn one_connection_is_one_sandboxes() {
    use std::io::{Read, Write};
    let port = Port::start("same-port");
    let mut io = std::net::TcpStream::connect(&port.address).unwrap();
    io.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut told = Vec::new();
    for index in [0, 1] {
        let pair = Command::new("base64")
            .arg("-w0")
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn();
        let mut pair_of = pair.unwrap();
        pair_of.stdin.take().unwrap().write_all(port.pair(index).as_bytes()).unwrap();
        let encoded = String::from_utf8(pair_of.wait_with_output().unwrap().stdout).unwrap();
        let host = port.host(index);
        write!(io, "GET http://{host}/ HTTP/1.1\r\nHost: {host}\r\nProxy-Authorization: Basic {encoded}\r\n\r\n")
            .unwrap();
        let mut answer = [0; 4096];
        let length = io.read(&mut answer).unwrap();
        told.push(String::from_utf8_lossy(&answer[..length]).into_owned());
    }
    // Network permits https alone, which the first is told under its own name.
    assert!(told[0].starts_with("HTTP/1.1 403"), "{}", told[0]);
    assert!(told[1].starts_with("HTTP/1.1 407") && told[1].contains("another sandbox's"), "{}", told[1]);
}

fn socks_clients_bring_the_same_pair() {
    let mut port = Port::start("socks-port");
    let url = format!("https://{}/echo", port.host(0));
    // RFC 1929 has room for 255 bytes: tokens of the SDK's fit, those that name a sandbox do not.
    let token = port.signed_for("sdk", None, ProviderScope::Egress, 600);
    assert!(token.len() <= 255 && port.token(0).len() > 255, "{} {}", token.len(), port.token(0).len());
    let reached = port.curl("socks5h", &format!("sandbox-proxy:{token}"), 0, &[&url]);
    assert!(reached.status.success(), "{}", text(&reached));
    let requests = internet().web.requests(&port.host(0));
    assert_eq!((requests.len(), requests[0].header("x-key")), (1, vec!["canary-port-one"]));
    let other = format!("https://{}/echo", port.host(1));
    assert!(!port.curl("socks5h", &format!("sandbox-proxy:{token}"), 0, &[&other]).status.success());
    for pair in ["", "sandbox-proxy:nothing"] {
        let refused = port.curl("socks5h", pair, 0, &[&url]);
        assert_eq!(refused.status.code(), Some(97), "{pair}: {}", text(&refused));
    }
    assert_eq!(internet().web.requests(&port.host(0)).len(), 1);
    let codes: Vec<Value> = port.rows().iter().map(|row| row["code"].clone()).collect();
    assert!(
        codes.contains(&Value::from("no_identity")) && codes.contains(&Value::from("malformed_request")),
        "{codes:?}"
    );
}

fn a_sandbox_that_is_gone_is_gone_at_once() {
    let port = Port::start("gone-port");
    let url = format!("https://{}/echo", port.host(0));
    assert!(port.curl("http", &port.pair(0), 0, &[&url]).status.success());
    let gone = port.registry.sandboxes.lock().unwrap().remove(&port.ids[0]);
    assert!(gone.is_some());
    let refused = port.curl("http", &port.pair(0), 0, &["-v", &url]);
    assert!(text(&refused).contains("407 no_identity"), "{}", text(&refused));
    assert_eq!(internet().web.requests(&port.host(0)).len(), 1);
}
