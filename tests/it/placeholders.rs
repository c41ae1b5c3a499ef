//! What the sandbox holds in place of credentials, and the Mistral API.

use std::process::{Command, Stdio};

use serde_json::Value;

use crate::cases;
use crate::internet::internet;
use crate::internet::mistral::{HOST, KEY};
use crate::sandbox::{PATH, Run, refuses};
use crate::table::{all_are, program};

cases![
    the_mistral_client_chats_and_streams_with_a_key_that_is_worthless_outside,
    only_the_placeholder_is_taken_for_the_mistral_key,
    a_policy_file_binds_the_mistral_api_elsewhere,
    a_placeholder_is_swapped_in_its_own_header_and_inside_basic,
    a_placeholder_stands_in_no_other_header,
    each_run_has_placeholders_of_its_own,
    what_cannot_be_a_placeholder_is_refused_at_the_start,
];

/// Where the tests' own Python packages are (`tests/run.sh` puts them there).
fn packages() -> String {
    std::env::var("IT_PYTHON")
        .expect("IT_PYTHON names the directory with the Python package mistralai: see tests/run.sh")
}

fn mistral() -> Run {
    Run::new().allow(HOST).arg("--mistral-api").env("MISTRAL_API_KEY", KEY)
}

const CHAT: &str = r#"
import os, sys
sys.path.insert(0, sys.argv[1])
from mistralai.client import Mistral
from mistralai.client.errors import SDKError
def chat(key):
    with Mistral(api_key=key) as client:
        messages = [{"role": "user", "content": "hello from inside"}]
        whole = client.chat.complete(model="mistral-small-latest", messages=messages)
        said = [whole.choices[0].message.content]
        with client.chat.stream(model="mistral-small-latest", messages=messages) as events:
            said += [event.data.choices[0].delta.content for event in events]
        return said
"#;

/// Issue 4, point 2: by the transparent path and through the explicit proxy.
fn the_mistral_client_chats_and_streams_with_a_key_that_is_worthless_outside() {
    let code = format!(
        r#"{CHAT}
print(chat(os.environ["MISTRAL_API_KEY"]))
os.environ["HTTPS_PROXY"] = os.environ["MISTRAL_API_HTTP_PROXY"]
print(chat(os.environ["MISTRAL_API_KEY"]))
try:
    print(chat("another-key"))
except SDKError as error:
    print(error.status_code, error.body)
print(os.environ["MISTRAL_API_KEY"])
"#
    );
    let output = mistral().command(&["/usr/bin/python3", "-c", &code, &packages()]).run();
    output.expect_code(0);
    let lines: Vec<&str> = output.stdout.lines().collect();
    let said = "['HELLO FROM INSIDE', 'HELLO ', 'FROM ', 'INSIDE']";
    assert_eq!((lines[0], lines[1]), (said, said));
    assert!(
        lines[2].starts_with("403 ") && output.stdout.contains("use the key that the environment holds"),
        "{output:#?}"
    );
    let placeholder = lines.last().unwrap();
    assert!(placeholder.len() == KEY.len() && *placeholder != KEY, "{placeholder}");
    assert!(!output.stdout.contains(KEY) && !output.stderr.contains(KEY));
    // Outside nobody takes it.
    let outside = Command::new("curl")
        .args(["-sS", "--cacert"])
        .arg(internet().pki.root_file())
        .args(["--resolve", &format!("{HOST}:443:{}", crate::rig::WEB), "-w", "%{http_code}"])
        .args(["-H", &format!("Authorization: Bearer {placeholder}"), &format!("https://{HOST}/v1/chat/completions")])
        .env("PATH", PATH)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let answer = String::from_utf8_lossy(&outside.stdout);
    assert!(answer.ends_with("401"), "{answer} {}", String::from_utf8_lossy(&outside.stderr));
}

/// One row for each way to send a key: what came of it.
fn only_the_placeholder_is_taken_for_the_mistral_key() {
    let code = r#"
host, key = "api.mistral.ai", os.environ["MISTRAL_API_KEY"]
cases = {
    "200 the key": [f"Authorization: Bearer {key}"], "200 another case": [f"aUTHORIZATION: bEARER {key}"],
    "401 none": [], "403 another": ["Authorization: Bearer other"], "403 one and another": [f"Authorization: Bearer {key}", "Authorization: Bearer other"],
    "403 a longer one": [f"Authorization: Bearer {key}x"], "403 a shorter one": [f"Authorization: Bearer {key[:-1]}"], "403 no scheme": [f"Authorization: {key}"],
    "403 another scheme": [f"Authorization: Token {key}"], "403 empty": ["Authorization:"], "403 in another header": [f"X-Api-Key: {key}"],
    "403 both": [f"Authorization: Bearer {key}", f"X-Api-Key: {key}"],
}
told, body = [], json.dumps({"messages": [{"content": "hi"}]})
for name, lines in cases.items():
    sock = tls(socket.create_connection((host, 443)), host)
    head = ["POST /v1/chat/completions HTTP/1.1", f"Host: {host}", "Content-Type: application/json", f"Content-Length: {len(body)}"]
    sock.sendall(("\r\n".join(head + lines) + "\r\n\r\n" + body).encode())
    told += [[name, answer(sock)[0]]]
fields = [("authorization", f"Bearer {key}")]
told += [["404 over h2", h2(tls(connect(host), host, "h2"), [h2_get(host, "/v1/none", *fields)])[0]]]
tell(told)
"#;
    let (told, output) = program(mistral(), code);
    all_are(&told, |name| name[..3].parse::<u16>().unwrap().into());
    let codes: Vec<&Value> =
        output.audit.iter().filter_map(|row| row.get("code")).filter(|code| !code.is_null()).collect();
    assert_eq!(codes.iter().filter(|code| **code == "credential_not_accepted").count(), 7, "{codes:?}");
    assert_eq!(codes.iter().filter(|code| **code == "placeholder_misplaced").count(), 2, "{codes:?}");
}

/// A private deployment, with a key from a file.
fn a_policy_file_binds_the_mistral_api_elsewhere() {
    let policy = r#"
[network]
mode = "allow"
hosts = ["llm.allowed.test"]
[[header_bindings]]
kind = "mistral_api"
host = "llm.allowed.test"
ttl_seconds = 600
run_as = "auto"
"#;
    let run = Run::new();
    let file = run.outside().join("policy.toml");
    std::fs::write(&file, policy).unwrap();
    let run = run.arg("--policy").arg(&file.display().to_string()).env("MISTRAL_API_KEY", "canary-private-key");
    let code = r#"
key = os.environ["MISTRAL_API_KEY"]
host = "llm.allowed.test"
tell([["ok", ask(tls(connect(host), host), "GET /echo HTTP/1.1", f"Host: {host}", f"Authorization: Bearer {key}")[0]]])
"#;
    all_are(&program(run, code).0, |_| 200.into());
    let seen = internet().web.requests("llm.allowed.test");
    assert_eq!(seen[0].header("authorization"), ["Bearer canary-private-key"]);
}

fn bound(host: &str, secret: &str) -> Run {
    let run = Run::new().allow(host).bind(&format!("{host} Authorization: Bearer {{KEY}}"));
    run.secret_env("KEY", secret).arg("--placeholder").arg("KEY=TOOL_TOKEN")
}

/// A tool that insists on a token: curl with `-u`, git's askpass and the like.
fn a_placeholder_is_swapped_in_its_own_header_and_inside_basic() {
    let code = r#"
import base64
host, token = "swap.allowed.test", os.environ["TOOL_TOKEN"]
assert token.startswith("ghp_") and len(token) == 40, token
basic = lambda pair: "Basic " + base64.b64encode(pair.encode()).decode()
told = []
for name, value in [("bearer", f"Bearer {token}"), ("password", basic(f"x-access-token:{token}")), ("user", basic(f"{token}:x-oauth-basic")),
                    ("mine", "Bearer mine"), ("mine in basic", basic("me:mine"))]:
    told += [[name, ask(tls(connect(host), host), f"GET /echo?{name.replace(' ', '-')} HTTP/1.1", f"Host: {host}", f"Authorization: {value}")[0]]]
quoted = f"my token is {token}"
told += [["in a body", ask(tls(connect(host), host), "POST /echo?body HTTP/1.1", f"Host: {host}", f"Content-Length: {len(quoted)}", "", quoted)[0]]]
tell(told)
"#;
    let secret = "ghp_canaryofswapcanaryofswapcanaryofswap";
    let (told, _) = program(bound("swap.allowed.test", secret), code);
    all_are(&told, |_| 200.into());
    let basic = |pair: &str| format!("Basic {}", base64(pair.as_bytes()));
    for request in internet().web.requests("swap.allowed.test") {
        let wanted = match request.target.split('?').nth(1).unwrap() {
            "password" => basic(&format!("x-access-token:{secret}")),
            "user" => basic(&format!("{secret}:x-oauth-basic")),
            _ => format!("Bearer {secret}"),
        };
        assert_eq!(request.header("authorization"), [wanted], "{}", request.target);
        assert!(!String::from_utf8_lossy(&request.body).contains("canary"), "swapped in a body");
    }
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine;
    base64::prelude::BASE64_STANDARD.encode(bytes)
}

/// Whether the host has a binding or not, over https and plain http, also encoded, and in a trailer.
fn a_placeholder_stands_in_no_other_header() {
    let code = r#"
import base64
token = os.environ["TOOL_TOKEN"]
encoded = base64.b64encode(f"u:{token}".encode()).decode()
told = []
for host in ["misplaced.allowed.test", "unbound.allowed.test"]:
    for lines in [[f"X-Debug: {token}"], [f"Cookie: a=b; t={token}"], [f"X-Auth: Basic {encoded}"], [f"Referer: https://x/?t={token}"]]:
        told += [[f"403 {host} {lines[0][:9]}", ask(tls(connect(host), host), "GET /echo HTTP/1.1", f"Host: {host}", *lines)[0]]]
    chunked = ["Transfer-Encoding: chunked", "Trailer: X-Debug", "", "2", "ok", "0", f"X-Debug: {token}", "X-Fine: yes"]
    told += [[f"200 {host} trailer", ask(tls(connect(host), host), "POST /echo?trailer HTTP/1.1", f"Host: {host}", *chunked)[0]]]
told += [["403 its header elsewhere", ask(tls(connect(host), host), "GET /echo HTTP/1.1", f"Host: {host}", f"Authorization: Bearer {token}")[0]]]
told += [["403 h2", h2(tls(connect(host), host, "h2"), [h2_get(host, "/echo", ("authorization", f"Bearer {token}"))])[0]]]
told += [["200 in a body", ask(tls(connect(host), host), "POST /echo HTTP/1.1", f"Host: {host}", f"Content-Length: {len(token)}", "", token)[0]]]
tell([[token, 0]] + told)
"#;
    let run = bound("misplaced.allowed.test", "canary-of-misplaced").allow("unbound.allowed.test");
    let (told, output) = program(run, code);
    let (token, told) = told.as_array().unwrap().split_first().unwrap();
    let token = token[0].as_str().unwrap();
    all_are(&told.to_vec().into(), |name| name[..3].parse::<u16>().unwrap().into());
    for host in ["misplaced.allowed.test", "unbound.allowed.test"] {
        for request in internet().web.requests(host) {
            let in_head = request.headers.iter().any(|(_, value)| value.contains(token));
            assert!(!in_head, "{request:?}");
        }
    }
    let reason = output.audit.iter().find_map(|row| row["reason"].as_str()).unwrap();
    assert!(reason.contains("TOOL_TOKEN") && !reason.contains(token), "{reason}");
}

fn each_run_has_placeholders_of_its_own() {
    let values = [0, 1].map(|_| bound("fresh.allowed.test", "canary-of-fresh").script("echo $TOOL_TOKEN").run().stdout);
    assert!(values[0].len() > 20 && values[0] != values[1], "{values:?}");
}

fn what_cannot_be_a_placeholder_is_refused_at_the_start() {
    let run = || bound("odd.allowed.test", "canary-of-odd");
    refuses(run().arg("--placeholder").arg("OTHER"), &["OTHER", "--secret OTHER="]);
    refuses(run().arg("--placeholder").arg("KEY=LD_PRELOAD"), &["LD_PRELOAD"]);
    refuses(run().arg("--placeholder").arg("KEY=a b"), &["a b"]);
    refuses(run().arg("--keep-env").arg("TOOL_TOKEN"), &["--keep-env TOOL_TOKEN"]);
    let unbound = Run::new().secret_env("KEY", "x").arg("--placeholder").arg("KEY");
    refuses(unbound, &["KEY", "no binding"]);
    refuses(Run::new().allow(HOST).arg("--mistral-api"), &["MISTRAL_API_KEY", "not set"]);
}
