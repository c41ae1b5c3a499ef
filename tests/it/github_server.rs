//! The GitHub of the tests itself: real clients through the product with an ordinary header binding.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use crate::cases;
use crate::internet::github::github;
use crate::sandbox::{Output, Run, need};

cases![
    git_clones_with_submodules_and_pushes,
    lfs_objects_travel_both_ways,
    gh_shows_a_repository_and_makes_a_pull_request,
    octokit_pages_through_commits,
    a_token_sees_its_repositories_only,
    a_revoked_token_is_worth_nothing,
    a_fault_is_answered_once,
];

/// Before every script: git that asks nobody, gh that has some token.
const SETUP: &str = "set -e; export HOME=$PWD GH_TOKEN=none GIT_TERMINAL_PROMPT=0 GH_PROMPT_DISABLED=1 NO_COLOR=1
    git config --global user.name s; git config --global user.email s@s.test\n";

fn run(token: &str, script: &str) -> Output {
    let basic = STANDARD.encode(format!("x-access-token:{token}"));
    let mut run = Run::new().secret_env("GIT", &basic).secret_env("API", token);
    for host in ["github.com", "github-cloud.s3.amazonaws.com", "lfs.github.com", "api.github.com"] {
        run = run.allow(host);
    }
    run.bind("github.com Authorization: Basic {GIT}")
        .bind("api.github.com Authorization: Bearer {API}")
        .script(&format!("{SETUP}{script}"))
        .run()
}

fn git_clones_with_submodules_and_pushes() {
    need("git", "git");
    github().repository("acme/cloned");
    let token = github().token(&["acme/cloned", "acme/lib"]);
    let script = "git clone -q --recurse-submodules https://github.com/acme/cloned && cd cloned && cat libs/lib/README.md
        git clone -q --filter=blob:none --no-checkout https://github.com/acme/cloned partial && git -C partial show HEAD:README.md
        git checkout -q -b work && echo new > new.txt && git add new.txt && git commit -q -m new && git push -q origin work
        git rev-parse HEAD";
    let output = run(&token, script);
    output.expect_code(0).expect_stdout("hello from acme/lib").expect_stdout("hello from acme/cloned");
    let tip = github().git("acme/cloned", &["rev-parse", "refs/heads/work"]);
    assert_eq!(output.stdout.lines().last(), Some(tip.as_str()));
    let seen = github().requests_with("/acme/cloned");
    assert!(
        seen.iter().any(|request| request.line().contains("POST github.com/acme/cloned/git-receive-pack")),
        "{seen:#?}"
    );
    assert!(seen.iter().all(|request| request.authorization.len() == 1), "injected at once: {seen:#?}");
    assert!(seen.iter().all(|request| request.credential.as_ref() == Some(&token)), "{seen:#?}");
}

fn lfs_objects_travel_both_ways() {
    need("git-lfs", "git-lfs");
    github().repository("acme/large");
    let token = github().token(&["acme/large"]);
    let script = "git lfs install --skip-repo > /dev/null; git clone -q https://github.com/acme/large && cd large
        head -c 26 big.bin; head -c 70000 /dev/urandom > two.bin; git add two.bin; git commit -q -m two; git push -q origin main";
    run(&token, script).expect_code(0).expect_stdout("large file of acme/widget");
    let objects = github().lever(json!({"do": "large", "name": "acme/large"}));
    assert!(objects.as_object().unwrap().values().any(|size| size == 70_000), "{objects}");
}

fn gh_shows_a_repository_and_makes_a_pull_request() {
    need("gh", "gh");
    github().repository("acme/shown");
    let token = github().token(&["acme/shown"]);
    let script = "gh repo view acme/shown; gh pr checks 2 -R acme/shown
        gh pr merge 2 --squash -R acme/shown; gh issue comment 1 --body heard -R acme/shown";
    run(&token, script).expect_code(0).expect_stdout("hello from acme/shown").expect_stdout("build\tpass");
    let there = github().lever(json!({"do": "look", "name": "acme/shown"}));
    assert_eq!(there["issues"][0]["comments"], json!(["heard"]));
    assert_eq!(there["issues"][1]["state"], "MERGED");
}

fn octokit_pages_through_commits() {
    need("node", "nodejs");
    github().repository("acme/paged");
    let token = github().token(&["acme/paged"]);
    let octokit = format!("{}/node_modules/octokit/dist-bundle/index.js", std::env::var("IT_NODE").unwrap());
    let script = format!(
        "cat > pages.mjs <<'END'
const {{ Octokit }} = await import('{octokit}');
const octokit = new Octokit({{ auth: 'none' }});
const of = {{ owner: 'acme', repo: 'paged', per_page: 2 }};
console.log('commits', (await octokit.paginate(octokit.rest.repos.listCommits, of)).length);
END
node pages.mjs"
    );
    run(&token, &script).expect_code(0).expect_stdout("commits 7");
    let by_number = github().requests_with(&token);
    assert!(by_number.iter().any(|request| request.target.starts_with("/repositories/")), "{by_number:#?}");
}

fn a_token_sees_its_repositories_only() {
    let view = "gh api repos/acme/widget -q .id; gh api repos/other/secret -q .id";
    let narrow = github().token(&["acme/widget"]);
    run(&narrow, view).expect_code(1).expect_stdout("1001").expect_stderr("Not Found (HTTP 404)");
    let wide = github().wide_token();
    run(&wide, view).expect_code(0).expect_stdout("2001");
}

fn a_revoked_token_is_worth_nothing() {
    let token = github().token(&["acme/widget"]);
    github().revoke(&token);
    run(&token, "gh api user").expect_code(1).expect_stderr("Bad credentials (HTTP 401)");
    run(&token, "git clone -q https://github.com/acme/widget")
        .expect_code(128)
        .expect_stderr("could not read Username");
}

fn a_fault_is_answered_once() {
    github().repository("acme/faulty");
    let token = github().token(&["acme/faulty"]);
    github()
        .lever(json!({"do": "fault", "target": "/repos/acme/faulty", "status": 502, "body": "{\"message\":\"late\"}"}));
    let script = "gh api repos/acme/faulty -q .id || true; gh api repos/acme/faulty -q .full_name";
    run(&token, script).expect_code(0).expect_stdout("acme/faulty").expect_stderr("HTTP 502");
}
