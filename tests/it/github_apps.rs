//! A binding whose tokens a GitHub App gives: repositories of two owners, lives that end while the work goes on, refusals, and what
//! there is to be found inside. The GitHub of the tests takes no token but those that it gave, each for its owner's repositories.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;

use serde_json::{Value, json};

use crate::cases;
use crate::internet::github::{Seen, github};
use crate::internet::github_app::private_key;
use crate::issuers::private_file;
use crate::sandbox::{Output, Run, need};

cases![
    work_outlives_three_lives_of_two_owners_tokens,
    each_request_has_its_owners_token,
    what_is_of_two_owners_is_refused,
    a_revoked_token_is_renewed_once_and_the_work_goes_on,
    an_app_that_is_refused_is_told_in_each_clients_words,
    a_users_token_is_narrowed_and_renewed,
    nothing_but_the_stand_in_is_inside,
];

/// Before every script: a git that has a name.
const SETUP: &str = "set -e; export HOME=$PWD NO_COLOR=1
    git config --global user.name s; git config --global user.email s@s.test\n";

/// Repositories of owners that only this test has, and the App's installation for each of them.
struct Owners {
    installations: Vec<u64>,
    repositories: Vec<String>,
}

impl Owners {
    fn new(owners: &[&str], lifetime: Option<u64>) -> Self {
        need("gh", "gh");
        need("git", "git");
        let repositories: Vec<String> = owners.iter().map(|owner| format!("{owner}/app-of-{owner}")).collect();
        for name in &repositories {
            github().repository(name);
        }
        let install = |owner: &&str| {
            let order = json!({"do": "installation", "account": owner, "lifetime": lifetime});
            github().lever(order).as_u64().unwrap()
        };
        Self { installations: owners.iter().map(install).collect(), repositories }
    }

    /// A run by a policy file outside of what the sandbox sees, with the App's key.
    fn run(&self, script: &str) -> Run {
        let app =
            "app = { client_id = \"Iv1.acme\", private_key = \"PEM\" }\n[secrets.PEM]\nfile = \"private/token\"\n";
        let run = self.run_by(app, script);
        private_file(&run, &private_key("pkcs1"));
        run
    }

    fn run_by(&self, app: &str, script: &str) -> Run {
        let run = Run::new();
        let policy = run.outside().join("policy.toml");
        let repos = json!(self.repositories);
        let text = format!("[[header_bindings]]\nkind = \"github\"\nrepos = {repos}\n{app}");
        fs::write(&policy, text).unwrap();
        run.arg("--policy").arg(&policy.display().to_string()).script(&format!("{SETUP}{script}"))
    }

    /// The requests for tokens of one owner.
    fn issues(&self, owner: usize) -> Vec<Seen> {
        let target = format!("/app/installations/{}/access_tokens", self.installations[owner]);
        github().requests_with(&target)
    }

    /// The tokens that were used for one owner's repository.
    fn used(&self, owner: usize) -> BTreeSet<String> {
        let name = &self.repositories[owner];
        let seen = github().requests_with(name);
        let own = seen.into_iter().filter(|request| !request.target.ends_with("/installation"));
        own.filter_map(|request| request.credential).collect()
    }
}

/// Neither client sees that there is a credential that could be refused, or asks for one.
fn is_no_login(output: &Output) {
    for text in ["401", "gh auth login", "Username", "Password", "Bad credentials"] {
        assert!(!output.stderr.contains(text) && !output.stdout.contains(text), "{text}: {}", output.stderr);
    }
}

fn work_outlives_three_lives_of_two_owners_tokens() {
    let owners = Owners::new(&["threelives", "fourlives"], Some(2));
    github().lever(json!({"do": "warm"}));
    let script = "for name in threelives fourlives; do git clone -q https://github.com/$name/app-of-$name; done
        end=$(( $(date +%s) + 8 )); turn=0
        while [ $(date +%s) -lt $end ] || [ $turn -lt 6 ]; do
            turn=$((turn + 1))
            for name in threelives fourlives; do
                repository=$name/app-of-$name
                [ \"$(gh api repos/$repository -q .full_name)\" = $repository ]
                gh pr list -R $repository > /dev/null; gh issue list -R $repository > /dev/null
                git -C app-of-$name commit -q --allow-empty -m $turn; git -C app-of-$name push -q origin HEAD:work
            done
        done; echo turns $turn";
    let output = owners.run(script).run();
    output.expect_code(0).expect_stdout("turns ");
    assert!(!output.stderr.contains("remote:"), "{}", output.stderr);
    for owner in 0..2 {
        let issues = owners.issues(owner);
        // Renewed after 1.45 to 1.5 of its 2 seconds: never twice in one life.
        assert!(issues.len() >= 5, "{issues:#?}");
        let lives = issues.windows(2).map(|pair| pair[1].time - pair[0].time);
        assert!(lives.clone().all(|life| life > 1.4), "{:?}", lives.collect::<Vec<_>>());
        let used = owners.used(owner);
        assert!(used.len() >= 4 && used.len() <= issues.len(), "{used:?} {}", issues.len());
        let tip = github().git(&owners.repositories[owner], &["log", "-1", "--format=%s", "refs/heads/work"]);
        assert!(output.stdout.contains(&format!("turns {tip}")), "{tip} {}", output.stdout);
    }
    assert!(owners.used(0).is_disjoint(&owners.used(1)));
}

fn each_request_has_its_owners_token() {
    let owners = Owners::new(&["choosing", "chosen"], None);
    let issue = |name: &str| {
        let there = github().lever(json!({"do": "look", "name": name}));
        there["issues"][0]["node_id"].as_str().unwrap().to_owned()
    };
    let node = issue("chosen/app-of-chosen");
    let script = format!(
        "gh api graphql -f query='query($id:ID!){{node(id:$id){{...on Issue{{title}}}}}}' -f id={node} -q '\"node \"+.data.node.title'
        gh api repos/chosen/app-of-chosen -q .full_name; gh issue view 1 -R chosen/app-of-chosen
        gh issue comment 1 --body heard -R chosen/app-of-chosen; gh search issues --repo chosen/app-of-chosen issue || true
        gh api -X GET search/issues -f q='repo:chosen/app-of-chosen is:issue' -q .total_count
        gh api rate_limit > /dev/null; git ls-remote -q https://github.com/choosing/app-of-choosing HEAD
        curl -sS -o /dev/null -w '%{{http_code}}\\n' https://raw.githubusercontent.com/chosen/app-of-chosen/main/README.md"
    );
    let output = owners.run(&script).run();
    output.expect_code(0).expect_stdout("chosen/app-of-chosen").expect_stdout("node first issue").expect_stdout("200");
    let there = github().lever(json!({"do": "look", "name": "chosen/app-of-chosen"}));
    assert_eq!(there["issues"][0]["comments"], json!(["heard"]));
    let (first, second) = (owners.used(0), owners.used(1));
    assert_eq!((first.len(), second.len()), (1, 1), "{first:?} {second:?}");
    assert!(first.is_disjoint(&second));
    // What is least for writing, of exactly the one repository.
    for owner in 0..2 {
        let [asked] = &owners.issues(owner)[..] else { panic!("one token") };
        let body: Value = serde_json::from_str(&asked.body).unwrap();
        let wanted = json!({
            "actions": "write", "checks": "read", "contents": "write", "issues": "write", "metadata": "read",
            "pull_requests": "write", "statuses": "read",
        });
        let name = owners.repositories[owner].split('/').nth(1).unwrap();
        assert_eq!(body, json!({ "permissions": wanted, "repositories": [name] }));
    }
}

fn what_is_of_two_owners_is_refused() {
    let owners = Owners::new(&["onehalf", "otherhalf"], None);
    let script = "gh api graphql -f query='{a:repository(owner:\"onehalf\",name:\"app-of-onehalf\"){id}
            b:repository(owner:\"otherhalf\",name:\"app-of-otherhalf\"){id}}' || echo refused graphql
        gh api -X GET search/issues -f q='repo:onehalf/app-of-onehalf repo:otherhalf/app-of-otherhalf' || echo refused search
        gh api repos/acme/widget || echo refused other";
    let output = owners.run(script).run();
    output
        .expect_code(0)
        .expect_stdout("refused graphql")
        .expect_stdout("refused search")
        .expect_stdout("refused other")
        .expect_stderr("this is about repositories of onehalf and of otherhalf; one request cannot be for both");
}

/// The words of a script that goes on when the test says so.
const WAIT: &str = "echo ready; while [ ! -e go ]; do sleep 0.02; done";

fn a_revoked_token_is_renewed_once_and_the_work_goes_on() {
    for (number, next) in ["gh issue list", "git ls-remote", "gh api", "git push"].into_iter().enumerate() {
        let owner = format!("revoked{number}");
        let owners = Owners::new(&[&owner, &format!("kept{number}")], None);
        let name = &owners.repositories[0];
        let next = match next {
            "gh issue list" => format!("gh issue list -R {name}"),
            "git ls-remote" => format!("git ls-remote -q https://github.com/{name} HEAD"),
            "gh api" => format!("gh api repos/{name} -q .full_name"),
            _ => "git commit -q --allow-empty -m one && git push -q origin HEAD:work".to_owned(),
        };
        let script = format!("git clone -q https://github.com/{name} c; {WAIT}; cd c; {next}; {next}; echo done");
        let run = owners.run(&script);
        let work = run.work();
        let running = run.start();
        running.wait_for("ready");
        github().lever(json!({"do": "revoke_of", "number": owners.installations[0]}));
        fs::write(work.join("go"), "").unwrap();
        let output = running.wait();
        output.expect_code(0).expect_stdout("done");
        is_no_login(&output);
        assert_eq!((owners.issues(0).len(), owners.issues(1).len()), (2, 1), "{next}");
    }
}

fn an_app_that_is_refused_is_told_in_each_clients_words() {
    let owners = Owners::new(&["refusedone", "refusedtwo"], None);
    let name = &owners.repositories[0];
    let script = format!(
        "git clone -q https://github.com/{name} c; {WAIT}
        gh api repos/{name} || echo refused rest; gh issue list -R {name} || echo refused graphql
        git ls-remote https://github.com/{name} || echo refused git; cd c; git commit -q --allow-empty -m one
        git push origin HEAD:work || echo refused push; gh api repos/{} -q .full_name",
        owners.repositories[1]
    );
    let run = owners.run(&script);
    let work = run.work();
    let running = run.start();
    running.wait_for("ready");
    github().lever(json!({"do": "installation", "account": "refusedone", "dead": true}));
    fs::write(work.join("go"), "").unwrap();
    let output = running.wait();
    output.expect_code(0).expect_stdout(&owners.repositories[1]);
    for refused in ["rest", "graphql", "git", "push"] {
        output.expect_stdout(&format!("refused {refused}"));
    }
    let said = "GitHub refuses the credential that the proxy has: the person who runs this sandbox has to renew it";
    for client in ["gh: ", "GraphQL: ", "remote: "] {
        output.expect_stderr(&format!("{client}{said}"));
    }
    is_no_login(&output);
    // The first one, and one more for the first refusal; not one for each.
    assert_eq!(owners.issues(0).len(), 2);
}

fn a_users_token_is_narrowed_and_renewed() {
    let owners = Owners::new(&["narrowed"], None);
    let name = &owners.repositories[0];
    let user = github().lever(json!({"do": "token", "text": "ghu_userofnarrowed00000000000000000000000"}));
    let user = user.as_str().unwrap();
    let app = "user_app = { client_id = \"Iv1.acme\", client_secret = \"CLIENT\", user_token = \"USER\" }\n\
        [secrets.CLIENT]\nenv = \"CLIENT\"\n[secrets.USER]\nenv = \"USER_TOKEN\"\n";
    let script = format!(
        "git clone -q https://github.com/{name} c; {WAIT}; gh api repos/{name} -q .full_name
        rm go; echo again; {WAIT}; gh api repos/{name} || echo refused"
    );
    let run = owners.run_by(app, &script).env("CLIENT", "client-secret").env("USER_TOKEN", user);
    let work = run.work();
    let running = run.start();
    running.wait_for("ready");
    let used = || {
        let seen = github().requests_with(name).into_iter().filter_map(|request| request.credential);
        seen.filter(|token| token.starts_with("ghu_")).collect::<BTreeSet<_>>()
    };
    let first = used();
    assert!(first.len() == 1 && !first.contains(user), "{first:?}");
    first.iter().for_each(|token| github().revoke(token));
    fs::write(work.join("go"), "").unwrap();
    running.wait_for("again");
    let second: Vec<String> = used().difference(&first).cloned().collect();
    assert!(second.len() == 1 && second[0] != user, "{second:?}");
    github().revoke(user);
    github().revoke(&second[0]);
    fs::write(work.join("go"), "").unwrap();
    let output = running.wait();
    output.expect_code(0).expect_stdout("refused").expect_stderr("GitHub refuses the credential that the proxy has");
    is_no_login(&output);
}

fn nothing_but_the_stand_in_is_inside() {
    let owners = Owners::new(&["insideone", "insidetwo"], None);
    let home = Run::new().home();
    let (gh, bus) = (home.join(".config/gh"), home.join("runtime/bus"));
    let shown = |path: &Path| path.display().to_string();
    let login = "ghp_canaryofthehostslogin00000000000000000";
    let hosts = format!("github.com:\n    oauth_token: {login}\n    user: octo-user\n    git_protocol: https\n");
    fs::create_dir_all(&gh).unwrap();
    fs::create_dir_all(bus.parent().unwrap()).unwrap();
    fs::write(gh.join("hosts.yml"), hosts).unwrap();
    fs::set_permissions(gh.join("hosts.yml"), fs::Permissions::from_mode(0o600)).unwrap();
    let keyring = UnixListener::bind(&bus).unwrap();
    keyring.set_nonblocking(true).unwrap();
    let script = format!(
        "set +e; gh auth token; gh auth token --hostname github.com; gh auth status -t; env; git config --list; gh config list
        GH_TOKEN= GITHUB_TOKEN= GH_CONFIG_DIR={gh} gh auth token; cat {gh}/hosts.yml; ls -la {gh}; HOME={home} gh auth token
        printf 'protocol=https\\nhost=github.com\\n' | git credential fill; cat /proc/*/environ | tr '\\0' '\\n'
        gh api repos/insideone/app-of-insideone -q .full_name; gh api repos/insidetwo/app-of-insidetwo -q .full_name
        DBUS_SESSION_BUS_ADDRESS=unix:path={bus} GH_TOKEN= GITHUB_TOKEN= gh auth token
        python3 -c \"import socket
try:
    socket.socket(socket.AF_UNIX).connect('{bus}'); print('reached')
except OSError as error:
    print('no keyring', error.errno)\"; cat $PWD/../policy.toml $PWD/../private/token; echo end",
        gh = shown(&gh),
        home = shown(&home),
        bus = shown(&bus),
    );
    let run = owners.run(&script);
    let outside = run.outside().to_owned();
    let output = run
        .env("HOME", &shown(&home))
        .env("GH_TOKEN", login)
        .env("XDG_RUNTIME_DIR", &shown(bus.parent().unwrap()))
        .env("DBUS_SESSION_BUS_ADDRESS", &format!("unix:path={}", shown(&bus)))
        .run();
    output.expect_code(0).expect_stdout("insidetwo/app-of-insidetwo").expect_stdout("no keyring").expect_stdout("end");
    assert!(keyring.accept().is_err(), "nobody has asked the keyring");
    let key = private_key("pkcs1");
    let issued: BTreeSet<String> = (0..2).flat_map(|owner| owners.used(owner)).collect();
    let jwts = (0..2).flat_map(|owner| owners.issues(owner)).filter_map(|request| request.credential);
    let jwts: Vec<String> = jwts.collect();
    assert_eq!((issued.len(), jwts.len()), (2, 2));
    let audit = fs::read_to_string(outside.join("audit.jsonl")).unwrap_or_default() + &json!(output.audit).to_string();
    let asked = ["GET", "https://api.github.com/repos/insidetwo/app-of-insidetwo"];
    let explained = std::process::Command::new(crate::sandbox::program())
        .args(["policy", "explain", "--policy", &shown(&outside.join("policy.toml"))])
        .args(asked)
        .output()
        .unwrap();
    let explained = String::from_utf8_lossy(&explained.stdout).into_owned();
    assert!(explained.contains("secret: GITHUB_TOKEN_INSIDETWO"), "{explained}");
    assert!(explained.contains("the App Iv1.acme at github.com, for insidetwo/app-of-insidetwo"), "{explained}");
    let secrets = issued.iter().chain(&jwts).map(String::as_str).chain(key.lines().filter(|line| line.len() > 40));
    for secret in secrets.chain([login]) {
        for text in [&output.stdout, &output.stderr, &audit, &explained] {
            assert!(!text.contains(secret), "{secret} in {text}");
        }
    }
    let stand_in = output.stdout.lines().next().unwrap();
    assert!(stand_in.starts_with("ghs_") && output.stdout.contains(&format!("GH_TOKEN={stand_in}\n")), "{stand_in}");
}
