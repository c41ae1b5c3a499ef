use super::*;
use crate::policy::{NamedText, PolicyOptions, load};

const WHOLE: &str = r#"[network]
mode = "allow"
hosts = ["api.example.com", "files.example.com:8443"]

[[network.rules]]
host = "*.example.com"
scheme = "https"
ports = [443]
methods = ["GET", "HEAD"]
paths = ["/v1/**"]
action = "allow"
reason = 'it says "read only"'

[[network.rules]]
host = "bad.example.com"
scheme = "any"
ports = "all"
action = "deny"

[egress]
mode = "custom"
allow_cidrs = ["203.0.113.5/24"]
deny_cidrs = ["9.9.9.0/24"]
block_private_ips = false

[files]
allow_write = [".", "/tmp"]
deny_read = ["~/.ssh"]
allow_git_config = false
unix_sockets = ["/run/x.sock"]

[upstream]
proxy = "http://proxy.example.com:3128"
proxy_auth = "PROXY"
resolve = "upstream"

[tls]
passthrough = ["pinned.example.com:8443", "*.pinned.example.org"]

[[header_bindings]]
host = "api.example.com"
header = "authorization"
secret_name = "KEY"
path_prefix = "/v1/"
prefix = "Bearer "
scrub = false

[[header_bindings]]
kind = "query_parameter"
host = "query.example.com"
parameter = "api_key"
secret_name = "KEY"
path_prefix = "/"

[[header_bindings]]
kind = "basic"
host = "basic.example.com"
user = ""
secret_name = "KEY"
path_prefix = "/"

[[header_bindings]]
kind = "basic"
host = "pair.example.com"
user_secret = "USER"
secret_name = "KEY"
path_prefix = "/"

[[header_bindings]]
kind = "cookie"
host = "cookie.example.com"
cookie = "session"
secret_name = "KEY"
path_prefix = "/"

[[header_bindings]]
kind = "client_certificate"
host = "tls.example.com"
certificate = "USER"
secret_name = "KEY"

[[header_bindings]]
kind = "aws_sigv4"
host = "aws.example.com"
access_key_id = "KEY"
session_token = "USER"
region = "eu-west-1"
service = "s3"
secret_name = "KEY"
path_prefix = "/"

[[header_bindings]]
kind = "path_segment"
host = "path.example.com"
secret_name = "KEY"
path_prefix = "/"
prefix = "bot"
suffix = ".json"

[secrets.APP]
github_app = { client_id = "1", permissions = { contents = "write" }, private_key = "KEY", repositories = ["acme/lib", "acme/widget"] }

[secrets.KEY]
command = ["print", "it's"]
placeholders = ["KEY"]

[secrets.LOGIN]
oauth2 = { audience = "a", auth = "post", client_id = "c", client_secret = "KEY", grant = "refresh_token", refresh_token = "PROXY", scope = "s", token_url = "https://login.example.com/token" }

[secrets.MACHINE]
oauth2 = { client_id = "c", client_secret = "KEY", grant = "client_credentials", token_url = "https://login.example.com/token" }

[secrets.NARROWED]
github_scoped_token = { client_id = "c", client_secret = "KEY", host = "ghes.test", owner = "acme", permissions = { contents = "read", issues = "write" }, repositories = "all", user_token = "LOGIN" }

[secrets.PROXY]
env = "PROXY"

[secrets.SERVED]
http = "https://issuer.example.com/key"
method = "POST"
bearer = "KEY"
ttl_seconds = 600

[secrets.SLOW]
command = ["print"]
timeout_seconds = 90
ttl_seconds = 3600

[secrets.USER]
env = "USER_NAME"

[secrets.VAULT]
vault = { address = "https://vault.example.com:8200", field = "f", namespace = "n", path = "secret/data/app", token = "KEY" }
ttl_seconds = 60
"#;

#[test]
fn what_is_printed_says_what_was_written() {
    let load = |text: &str| {
        let file = NamedText { name: "p.toml".to_owned(), text: text.to_owned() };
        load(&[file], &PolicyOptions::default()).unwrap_or_else(|mistakes| panic!("{mistakes}"))
    };
    let printed_of = |text: &str| toml(&load(text), false);
    let printed = printed_of(WHOLE);
    assert_eq!(printed, WHOLE);
    let placed = toml(&load(WHOLE), true);
    assert!(placed.contains("\n# p.toml:5:1\n[[network.rules]]\n"), "{placed}");
    assert_eq!(toml(&load(&placed), false), WHOLE);
    assert_eq!(toml(&load(""), false), "");
    assert_eq!(toml(&load("[network]\nmode = \"none\"\n"), false), "[network]\nmode = \"none\"\n");
    let project = printed_of("network_policy:\n  allow_all_unix_sockets: true");
    assert_eq!(project, "[files]\ndisabled = true\nunix_sockets = \"all\"\n");
    assert_eq!(printed_of(&project), project);
    assert_eq!(printed_of("[files]\n"), "[files]\nallow_git_config = false\n");
}
