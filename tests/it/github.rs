//! `--github`: real clients on the repositories that are named, and what they read where one is not.

use crate::cases;
use crate::internet::github::github;
use crate::internet::internet;
use crate::sandbox::{Output, Run, need};

cases![
    git_clones_by_ssh_urls_and_pushes,
    lfs_objects_travel_by_urls_that_were_seen,
    gh_does_its_work,
    octokit_pages_by_numbers,
    what_is_not_named_is_refused_in_each_clients_words,
    the_token_stays_outside,
    push_rules_hold_for_git_and_for_the_apis,
    a_forced_push_is_told_by_its_pack,
    reading_is_not_writing,
    storage_is_reached_by_urls_that_were_seen_alone,
    a_refused_token_is_the_proxys_own,
    a_name_that_moved_leads_on,
];

/// Before every script: a git that has a name.
const SETUP: &str = "set -e; export HOME=$PWD NO_COLOR=1
    git config --global user.name s; git config --global user.email s@s.test\n";

fn run(token: &str, repository: &str, script: &str) -> Output {
    let run = Run::new().arg("--github").arg(repository).secret_env("GITHUB_TOKEN", token);
    run.script(&format!("{SETUP}{script}")).run()
}

/// The same by a policy file with these further lines in its binding.
fn run_by(token: &str, repository: &str, lines: &str, script: &str) -> Output {
    let policy = format!(
        "[[header_bindings]]\nkind = \"github\"\nrepos = [\"{repository}\"]\nsecret_name = \"GITHUB_TOKEN\"\n{lines}\n\
         [secrets.GITHUB_TOKEN]\nenv = \"GITHUB_TOKEN\"\n"
    );
    let run = Run::new().file("policy.toml", &policy).arg("--policy").arg("policy.toml").env("GITHUB_TOKEN", token);
    run.script(&format!("{SETUP}{script}")).run()
}

fn git_clones_by_ssh_urls_and_pushes() {
    need("git", "git");
    github().repository("acme/sshbound");
    let token = github().token(&["acme/sshbound", "acme/lib"]);
    let script = "git clone -q git@github.com:acme/sshbound && cd sshbound
        git clone -q --filter=blob:none --no-checkout ssh://git@github.com/Acme/SshBound.git partial && git -C partial show HEAD:README.md
        git checkout -q -b work && echo new > new.txt && git add new.txt && git commit -q -m new && git push -q origin work
        git rev-parse HEAD";
    let output = run(&token, "acme/sshbound", script);
    output.expect_code(0).expect_stdout("hello from acme/sshbound");
    let tip = github().git("acme/sshbound", &["rev-parse", "refs/heads/work"]);
    assert_eq!(output.stdout.lines().last(), Some(tip.as_str()));
    let seen = github().requests_with("/acme/sshbound");
    assert!(seen.iter().all(|request| request.credential.as_ref() == Some(&token)), "{seen:#?}");
}

fn lfs_objects_travel_by_urls_that_were_seen() {
    need("git-lfs", "git-lfs");
    github().repository("acme/boundlarge");
    let token = github().token(&["acme/boundlarge"]);
    let script = "git lfs install --skip-repo > /dev/null; git clone -q https://github.com/acme/boundlarge && cd boundlarge
        head -c 26 big.bin; head -c 70000 /dev/urandom > two.bin; git add two.bin; git commit -q -m two; git push -q origin main";
    run(&token, "acme/boundlarge", script).expect_code(0).expect_stdout("large file of acme/widget");
    let objects = github().lever(serde_json::json!({"do": "large", "name": "acme/boundlarge"}));
    assert!(objects.as_object().unwrap().values().any(|size| size == 70_000), "{objects}");
}

fn gh_does_its_work() {
    need("gh", "gh");
    github().repository("acme/work");
    let token = github().token(&["acme/work"]);
    let script = "gh auth status; gh repo view acme/work; gh issue list -R acme/work; gh issue view 1 -R acme/work
        gh issue create -R acme/work --title made --body text; gh issue comment 1 --body heard -R acme/work
        gh pr list -R acme/work; gh pr view 2 -R acme/work; gh pr diff 2 -R acme/work; gh pr checks 2 -R acme/work
        echo asset > a.txt; gh release create v9 a.txt -R acme/work --title nine --notes text
        gh release download v9 -R acme/work --dir down; cat down/a.txt; gh run list -R acme/work
        gh api repos/acme/work -q .full_name; gh repo clone acme/work cloned -- -q";
    let output = run(&token, "acme/work", script);
    output.expect_code(0).expect_stdout("hello from acme/work").expect_stdout("build\tpass").expect_stdout("asset");
    let there = github().lever(serde_json::json!({"do": "look", "name": "acme/work"}));
    assert_eq!(there["issues"][0]["comments"], serde_json::json!(["heard"]));
}

fn octokit_pages_by_numbers() {
    need("node", "nodejs");
    github().repository("acme/boundpages");
    let token = github().token(&["acme/boundpages"]);
    let octokit = format!("{}/node_modules/octokit/dist-bundle/index.js", std::env::var("IT_NODE").unwrap());
    let script = format!(
        "cat > pages.mjs <<'END'
const {{ Octokit }} = await import('{octokit}');
const octokit = new Octokit({{ auth: process.env.GITHUB_TOKEN }});
const of = {{ owner: 'acme', repo: 'boundpages', per_page: 2 }};
console.log('commits', (await octokit.paginate(octokit.rest.repos.listCommits, of)).length);
try {{ await octokit.rest.repos.get({{ owner: 'other', repo: 'secret' }}); }} catch (error) {{ console.log(error.status, error.message); }}
END
node pages.mjs"
    );
    let output = run(&token, "acme/boundpages", &script);
    output
        .expect_code(0)
        .expect_stdout("commits 7")
        .expect_stdout("403 this sandbox may not use the repository other/secret");
}

fn what_is_not_named_is_refused_in_each_clients_words() {
    let token = github().wide_token();
    let ask = |script: &str| run(&token, "acme/widget", &format!("{script} || true"));
    ask("git ls-remote git@github.com:other/secret")
        .expect_stderr("remote: this sandbox may not use the repository other/secret");
    ask("gh api repos/other/secret").expect_stderr("may not use the repository other/secret (HTTP 403)");
    ask("gh repo view other/secret").expect_stderr("GraphQL: this sandbox may not use the repository other/secret");
    ask("gh issue list -R acme/widget --search 'x repo:other/secret'").expect_stderr("other/secret");
    ask("gh api user/repos").expect_stderr("HTTP 403");
    ask("gh api graphql -f query='{viewer{repositories(first:9){nodes{name}}}}'")
        .expect_stderr("gh: `repositories` may not be asked of an account");
    ask("gh gist list").expect_code(0);
    ask("gh api -X POST user/keys -f key=x").expect_stderr("HTTP 403");
    ask("gh api repos/acme/widget/compare/main...other:secret:main").expect_stderr("HTTP 403");
    ask("curl -sS https://github.com/acme/widget/../../other/secret/info/refs?service=git-upload-pack --path-as-is -o /dev/null -w '%{http_code}'")
        .expect_stdout("400");
    let leaked = github().requests_with("/other/secret");
    assert!(leaked.iter().all(|request| request.credential.as_ref() != Some(&token)), "{leaked:#?}");
}

fn the_token_stays_outside() {
    let token = github().token(&["acme/widget"]);
    let script = "env; gh auth token; git config --get-regexp . || true; ls -a ~/.config 2>/dev/null || true
        curl -sS -H 'Authorization: Bearer ghp_someoneelse0000000000000000000000000000' https://api.github.com/repos/acme/widget -o /dev/null -w '%{http_code}'";
    let output = run(&token, "acme/widget", script);
    output.expect_code(0).expect_stdout("ghs_").expect_stdout("200");
    assert!(!output.stdout.contains(&token) && !output.stderr.contains(&token), "{}", output.stdout);
    assert!(github().requests_with("ghp_someoneelse").is_empty());
    let stand_in = output.stdout.lines().find_map(|line| line.strip_prefix("GH_TOKEN=")).expect("a stand-in");
    assert!(github().requests_with(stand_in).is_empty());
}

/// What may be pushed, wherever it is asked for.
const RULES: &str = "push = { branches = [\"agent/**\"] }\noptions = [\"merge\"]";

fn push_rules_hold_for_git_and_for_the_apis() {
    github().repository("acme/ruled");
    let token = github().token(&["acme/ruled"]);
    let script = "git clone -q https://github.com/acme/ruled && cd ruled
        git checkout -q -b agent/x && git commit -q --allow-empty -m one && git push -q origin agent/x
        git push origin agent/x:main || echo refused main
        git push origin agent/x:agent/y agent/x:main || echo refused both
        git push origin :agent/x || echo refused delete; git tag v7 && git push origin v7 || echo refused tag
        gh api -X PATCH repos/acme/ruled/git/refs/heads/main -f sha=$(git rev-parse HEAD) || echo refused rest
        gh api -X DELETE repos/acme/ruled/git/refs/heads/agent/x || echo refused deletion
        gh pr merge 2 --squash -R acme/ruled || echo refused merge";
    let before = github().git("acme/ruled", &["rev-parse", "refs/heads/main"]);
    let output = run_by(&token, "acme/ruled", RULES, script);
    output.expect_code(0);
    for refused in ["main", "both", "delete", "tag", "rest", "deletion", "merge"] {
        output.expect_stdout(&format!("refused {refused}"));
    }
    output
        .expect_stderr("(blocked by policy: branch not allowed: refs/heads/main)")
        .expect_stderr("not sent: another ref");
    assert_eq!(github().git("acme/ruled", &["rev-parse", "refs/heads/main"]), before);
    let branches = github().git("acme/ruled", &["for-each-ref", "--format=%(refname)", "refs/heads/agent"]);
    assert_eq!(branches, "refs/heads/agent/x");
}

fn a_forced_push_is_told_by_its_pack() {
    github().repository("acme/history");
    let token = github().token(&["acme/history"]);
    let script = "git clone -q https://github.com/acme/history && cd history
        git checkout -q -b agent/x && git commit -q --allow-empty -m one && git push -q origin agent/x
        git commit -q --allow-empty -m two && git push -q origin agent/x && git rev-parse HEAD
        git reset -q --hard HEAD~1 && git commit -q --allow-empty -m other && git push -f origin agent/x || echo refused force";
    let output = run_by(&token, "acme/history", RULES, script);
    output.expect_code(0).expect_stdout("refused force").expect_stderr("blocked by policy: force push not allowed");
    let tip = github().git("acme/history", &["rev-parse", "refs/heads/agent/x"]);
    assert!(output.stdout.contains(&tip), "{} {tip}", output.stdout);
}

fn reading_is_not_writing() {
    github().repository("acme/readonly");
    let token = github().token(&["acme/readonly"]);
    let script = "git clone -q https://github.com/acme/readonly && cd readonly && git commit -q --allow-empty -m one
        git push origin HEAD:x || echo refused push; gh issue comment 1 --body no -R acme/readonly || echo refused comment
        gh api -X POST repos/acme/readonly/labels -f name=x || echo refused label; gh issue view 1 -R acme/readonly";
    let output = run_by(&token, "acme/readonly", "access = \"read\"", script);
    output.expect_code(0).expect_stdout("refused push").expect_stdout("refused comment").expect_stdout("refused label");
    assert!(github().requests_with("/acme/readonly").iter().all(|request| !request.target.contains("receive-pack")));
}

fn storage_is_reached_by_urls_that_were_seen_alone() {
    let token = github().token(&["acme/widget"]);
    let script = "curl -sS -o /dev/null -w '%{http_code}\\n' https://release-assets.githubusercontent.com/x?sig=1
        curl -sS -X PUT -o /dev/null -w '%{http_code}\\n' https://github-cloud.s3.amazonaws.com/x?sig=1
        curl -sS -o /dev/null -w '%{http_code}\\n' https://productionresultssamadeup.blob.core.windows.net/x?sig=1
        curl -sS -o /dev/null -w '%{http_code}\\n' https://gist.github.com/ || echo closed";
    let output = run(&token, "acme/widget", script);
    assert!(output.stdout.starts_with("403\n403\n403\n"), "{} {}", output.stdout, output.stderr);
    // A name could say something to whoever serves it.
    assert_eq!(internet().dns.queries("productionresultssamadeup.blob.core.windows.net"), 0);
    assert!(github().requests_with("sig=1").iter().all(|request| !request.target.starts_with("/x")));
}

fn a_refused_token_is_the_proxys_own() {
    let token = github().token(&["acme/widget"]);
    github().revoke(&token);
    let script = "gh api repos/acme/widget || true; git ls-remote https://github.com/acme/widget || true";
    let output = run(&token, "acme/widget", script);
    assert!(!output.stderr.contains("401") && !output.stderr.contains("gh auth login"), "{}", output.stderr);
}

fn a_name_that_moved_leads_on() {
    github().repository("acme/moved");
    let token = github().token(&["acme/moved"]);
    github().lever(serde_json::json!({"do": "rename", "name": "acme/moved", "to": "acme/movedon"}));
    let script = "git ls-remote -q https://github.com/acme/moved HEAD; gh api repos/acme/movedon -q .full_name";
    run(&token, "acme/moved", script).expect_code(0).expect_stdout("acme/movedon");
}
