//! Requests to AWS: signed inside with placeholders by AWS's own client, and signed anew with the keys on their way out.

use std::process::{Command, Stdio};

use crate::cases;
use crate::internet::aws::{ID, SECRET, SUFFIX, TEMPORARY, TOKEN};
use crate::internet::internet;
use crate::sandbox::{PATH, Run};

cases![
    boto3_stores_and_lists_objects,
    boto3_calls_a_service_that_does_not_send_the_hash_of_its_body,
    temporary_keys_have_a_token,
    what_cannot_be_signed_anew_is_refused,
    the_placeholders_are_worthless_outside,
    what_explain_says_of_a_signature,
];

/// The token is there only where it is bound: a secret that has a placeholder and no binding is a mistake.
fn policy(host: &str, lines: &str) -> String {
    let token = if lines.contains("session_token") {
        "[secrets.TOKEN]\nenv = \"REAL_TOKEN\"\nplaceholders = [\"AWS_SESSION_TOKEN\"]\n"
    } else {
        ""
    };
    format!(
        "[network]\nmode = \"allow\"\nhosts = [\"{host}\"]\n[[header_bindings]]\nkind = \"aws_sigv4\"\nhost = \"{host}\"\n\
         access_key_id = \"ID\"\nsecret_name = \"KEY\"\n{lines}\n\
         [secrets.ID]\nenv = \"REAL_ID\"\nplaceholders = [\"AWS_ACCESS_KEY_ID\"]\n\
         [secrets.KEY]\nenv = \"REAL_KEY\"\nplaceholders = [\"AWS_SECRET_ACCESS_KEY\"]\n{token}"
    )
}

fn bound(host: &str, lines: &str) -> Run {
    let run = Run::new();
    let path = run.outside().join("p.toml");
    std::fs::write(&path, policy(host, lines)).unwrap();
    let run = run.arg("--policy").arg(&path.display().to_string());
    run.env("REAL_ID", ID).env("REAL_KEY", SECRET).env("REAL_TOKEN", TOKEN)
}

/// Runs a program with boto3 for HOST inside, and gives the lines that it prints.
#[track_caller]
fn boto3(host: &str, lines: &str, code: &str) -> Vec<String> {
    let packages = std::env::var("IT_PYTHON").expect("IT_PYTHON names the directory with boto3: see tests/run.sh");
    let code = format!(
        r#"
import io, os, sys
sys.path.insert(0, sys.argv[1])
host = sys.argv[2]
import boto3
from botocore.auth import S3SigV4Auth, S3SigV4QueryAuth, SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials
from botocore.httpsession import URLLib3Session
keys = Credentials(os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"])
def client(service, **more):
    config = Config(s3={{"addressing_style": "path"}}, retries={{"total_max_attempts": 1}}, signature_version="v4" if service != "s3" else "s3v4")
    return boto3.client(service, region_name="eu-west-1", endpoint_url=f"https://{{host}}", config=config, **more)
{code}
"#
    );
    let output = bound(host, lines).command(&["/usr/bin/python3", "-c", &code, &packages, host]).run();
    output.expect_code(0);
    for real in [ID, SECRET, TOKEN] {
        assert!(!output.stdout.contains(real) && !output.stderr.contains(real), "{output:#?}");
        assert!(!serde_json::to_string(&output.audit).unwrap().contains(real));
    }
    output.stdout.lines().map(str::to_owned).collect()
}

fn name(first: &str) -> String {
    format!("{first}{SUFFIX}")
}

/// The last one is sent in pieces with a trailer, and is longer than what is ever held.
fn boto3_stores_and_lists_objects() {
    let host = name("s3");
    let code = r#"
s3 = client("s3")
for key, body in [("plain", b"hello"), ("a b//c+d=\u00fc~", b"odd"), ("large", io.BytesIO(b"0123456789abcdef" * (3 << 16)))]:
    s3.put_object(Bucket="b", Key=key, Body=body)
    got = s3.get_object(Bucket="b", Key=key)["Body"].read()
    print(len(got), got[:5])
print([found["Key"] for found in s3.list_objects_v2(Bucket="b", Prefix="x/y z", MaxKeys=7)["Contents"]])
"#;
    let told = boto3(&host, "region = \"eu-west-1\"\nservice = \"s3\"", code);
    assert_eq!(told, ["5 b'hello'", "3 b'odd'", "3145728 b'01234'", "['x/y z']"]);
    let seen = internet().web.requests(&host);
    assert_eq!(seen.len(), 7);
    assert!(seen.iter().all(|request| request.count(ID) == 1 && request.count(SECRET) == 0), "{seen:#?}");
}

fn boto3_calls_a_service_that_does_not_send_the_hash_of_its_body() {
    let host = name("dynamodb");
    let code = r#"
table = client("dynamodb")
for size in [0, 1000, 900_000]:
    item = table.get_item(TableName="t", Key={"k": {"S": "x" * size}})["Item"]
    print(item["table"]["S"], int(item["length"]["N"]) > size)
try:
    table.get_item(TableName="t", Key={"k": {"S": "x" * (1 << 20)}})
except Exception as error:
    print(error.response["ResponseMetadata"]["HTTPStatusCode"], error.response["ResponseMetadata"]["HTTPHeaders"]["x-sandbox-proxy-denial"])
"#;
    assert_eq!(boto3(&host, "", code), ["t True", "t True", "t True", "413 body_too_long_to_sign"]);
    assert_eq!(internet().web.requests(&host).len(), 3);
}

/// With the token's placeholder, and without any.
fn temporary_keys_have_a_token() {
    let host = name(TEMPORARY);
    let code = r#"
s3 = client("s3")
s3.put_object(Bucket="b", Key="temporary", Body=b"one")
print(s3.get_object(Bucket="b", Key="temporary")["Body"].read())
print(len(keys.access_key), keys.access_key[:4])
del os.environ["AWS_SESSION_TOKEN"]
boto3.DEFAULT_SESSION = None
print(client("s3").get_object(Bucket="b", Key="temporary")["Body"].read())
"#;
    let told = boto3(&host, "session_token = \"TOKEN\"", code);
    assert_eq!(told, ["b'one'", "20 AKIA", "b'one'"]);
    for request in internet().web.requests(&host) {
        assert_eq!(request.header("x-amz-security-token"), [TOKEN]);
    }
}

/// One row for each: what came of it.
fn what_cannot_be_signed_anew_is_refused() {
    let host = name("refused");
    let code = r#"
def send(path="/b/k", keys=keys, auth=S3SigV4Auth, service="s3", change=lambda request: None, method="GET", data=b""):
    request = AWSRequest(method, f"https://{host}{path}", data=data)
    if auth:
        auth(keys, service, "eu-west-1").add_auth(request)
    change(request)
    answer = URLLib3Session(verify=os.environ["REQUESTS_CA_BUNDLE"]).send(request.prepare())
    return f'{answer.status_code} {answer.headers.get("x-sandbox-proxy-denial", "-")}'
def header(name, value):
    def change(request):
        del request.headers[name]
        request.headers[name] = value
    return change
other = Credentials("AKIAIOSFODNN7EXAMPLE", keys.secret_key)
for name, got in {
    "good": send(method="PUT", data=b"x"),
    "unsigned": send("/public", auth=None),
    "unsigned private": send(auth=None),
    "another key": send(keys=other),
    "another secret": send(keys=Credentials(keys.access_key, "x" * 40)),
    "altered": send(change=lambda request: setattr(request, "method", "DELETE")),
    "another hash": send(change=header("X-Amz-Content-SHA256", "0" * 64)),
    "another body": send(auth=SigV4Auth, method="POST", data=b"a", change=lambda request: setattr(request, "data", b"b")),
    "no hash": send(auth=SigV4Auth, method="POST", data=b"a"),
    "another service": send(auth=SigV4Auth, service="sts", method="POST", data=b"a"),
    "presigned": send(auth=S3SigV4QueryAuth),
    "bearer": send(auth=None, change=header("Authorization", "Bearer x")),
    "sigv4a": send(change=header("Authorization", "AWS4-ECDSA-P256-SHA256 Credential=x")),
    "placeholder elsewhere": send(auth=None, change=header("X-Debug", keys.secret_key)),
    "a part": send(change=header("X-Amz-Acl", "public-read")),
}.items():
    print(f"{name}: {got}")
"#;
    let told = boto3(&host, "service = \"s3\"", code);
    let refused = "403 signature_not_accepted";
    let want = [
        "good: 200 -".to_owned(),
        "unsigned: 200 -".to_owned(),
        "unsigned private: 403 -".to_owned(),
        "another key: 403 credential_not_accepted".to_owned(),
        format!("another secret: {refused}"),
        format!("altered: {refused}"),
        format!("another hash: {refused}"),
        format!("another body: {refused}"),
        "no hash: 200 -".to_owned(),
        format!("another service: {refused}"),
        format!("presigned: {refused}"),
        format!("bearer: {refused}"),
        format!("sigv4a: {refused}"),
        "placeholder elsewhere: 403 placeholder_misplaced".to_owned(),
        format!("a part: {refused}"),
    ];
    assert_eq!(told, want);
    assert_eq!(internet().web.requests(&host).len(), 4);
}

/// curl, which signs by itself, is the judge of the upstream here.
fn the_placeholders_are_worthless_outside() {
    let host = name("outside");
    let told = boto3(&host, "", "print(keys.access_key, keys.secret_key)");
    let placeholders = told[0].replace(' ', ":");
    let answer = |user: &str| {
        let output = Command::new("curl")
            .args(["-sS", "--http1.1", "--cacert"])
            .arg(internet().pki.root_file())
            .args(["--resolve", &format!("{host}:443:{}", crate::rig::WEB), "-o", "/dev/null", "-w", "%{http_code}"])
            .args(["--aws-sigv4", "aws:amz:eu-west-1:s3", "--user", user, &format!("https://{host}/none")])
            .env("PATH", PATH)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!((answer(&placeholders).as_str(), answer(&format!("{ID}:{SECRET}")).as_str()), ("403", "404"));
}

fn what_explain_says_of_a_signature() {
    let run = Run::bare().file("p.toml", &policy("a.test", "session_token = \"TOKEN\"\nservice = \"s3\""));
    let file = run.work().join("p.toml").display().to_string();
    let (code, out, err) = crate::cli::cli(&["policy", "explain", "--policy", &file, "GET", "https://a.test/v1/x"]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    let line = "binding: authorization: AWS4-HMAC-SHA256 {ID}/*/*/s3 signed with {KEY} and {TOKEN} (secret ID, secret TOKEN, secret KEY, paths /…)\n";
    assert!(out.contains(line), "{out}");
}
