//! `--github`: the commands of gh, git and octokit that people and agents use, on a repository that is named, and the words in which
//! each of them says that another one is not.

use serde_json::json;

use crate::cases;
use crate::github_scope::{scoped, scoped_by};
use crate::internet::github::github;
use crate::sandbox::{Output, Run, need};

cases![
    gh_makes_checks_out_and_merges_a_pull_request,
    gh_says_that_merging_is_off,
    gh_makes_and_fills_a_release,
    gh_shows_runs_and_their_logs,
    gh_says_what_is_refused,
    git_follows_submodules_to_what_is_named_alone,
    git_fetches_in_part_and_later_the_rest,
    octokit_writes_and_says_what_is_refused,
    a_renamed_repository_goes_by_both_names,
];

const SETUP: &str = "export HOME=$PWD NO_COLOR=1 GH_PAGER=cat
    git config --global user.name s; git config --global user.email s@s.test\n";

/// A script that ends where a command fails.
fn done(run: Run, script: &str) -> Output {
    let output = run.script(&format!("set -e; {SETUP}{script}")).run();
    output.expect_code(0);
    output
}

fn look(repository: &str) -> serde_json::Value {
    github().lever(json!({"do": "look", "name": repository}))
}

fn gh_makes_checks_out_and_merges_a_pull_request() {
    need("gh", "gh");
    github().repository("acme/pulled");
    let token = github().token(&["acme/pulled"]);
    let script = "gh auth status; gh repo clone acme/pulled -- -q; cd pulled
        git checkout -q -b topic; echo topic > topic.txt; git add topic.txt; git commit -q -m topic; git push -q origin topic
        gh pr create --title made --body text --head topic --base main; gh pr list; gh pr status
        git checkout -q main; gh pr checkout 2; git log -1 --format=%s; test -f feature.txt; gh pr view 2; gh pr diff 2; gh pr checks 2
        gh pr comment 2 --body said; gh pr review 2 --comment --body seen
        git checkout -q main; gh pr merge 2 --squash --delete-branch";
    let output = done(scoped_by(&token, "acme/pulled", "options = [\"merge\"]"), script);
    output
        .expect_stdout("https://github.com/acme/pulled/pull/4")
        .expect_stdout("Add a feature")
        .expect_stdout("+a feature");
    let there = look("acme/pulled");
    assert_eq!(
        (&there["issues"][1]["state"], &there["issues"][3]["title"]),
        (&json!("MERGED"), &json!("made")),
        "{there}"
    );
    let branches = github().git("acme/pulled", &["for-each-ref", "--format=%(refname)", "refs/heads"]);
    assert_eq!(branches, "refs/heads/main\nrefs/heads/topic");
}

fn gh_says_that_merging_is_off() {
    need("gh", "gh");
    github().repository("acme/unmerged");
    let token = github().wide_token();
    let script = format!(
        "{SETUP}gh pr merge 2 --squash -R acme/unmerged; echo merge $?; gh api -X PUT repos/acme/unmerged/pulls/2/merge; echo rest $?"
    );
    let output = scoped(&token, &["acme/unmerged"]).script(&script).run();
    output.expect_stdout("merge 1").expect_stdout("rest 1");
    output.expect_stderr("Message: the mutation `mergePullRequest` is not allowed here");
    output.expect_stderr("gh: PUT /repos/acme/unmerged/pulls/2/merge is switched off for this sandbox (HTTP 403)");
    assert_eq!(look("acme/unmerged")["issues"][1]["state"], "OPEN");
}

fn gh_makes_and_fills_a_release() {
    need("gh", "gh");
    github().repository("acme/released");
    let token = github().token(&["acme/released"]);
    let script = "echo one > one.txt; echo two > two.txt; gh release create v9 one.txt -R acme/released --title nine --notes text
        gh release upload v9 two.txt -R acme/released; gh release view v9 -R acme/released; gh release list -R acme/released
        gh release download v9 -R acme/released --dir down; cat down/one.txt down/two.txt
        gh release download v9 -R acme/released --archive tar.gz --dir down; tar tzf down/*.tar.gz | head -1";
    let output = done(scoped(&token, &["acme/released"]), script);
    output.expect_stdout("one\ntwo\nreleased-");
    let there = look("acme/released");
    assert_eq!(there["releases"][0]["assets"], json!({"one.txt": 4, "two.txt": 4}));
    let uploads = github().requests_with("/acme/released/releases");
    assert_eq!(uploads.iter().filter(|seen| seen.host == "uploads.github.com").count(), 2);
    // What is stored comes from a host of its own, by a URL that is signed, and no credential goes there.
    let stored = github().requests().into_iter().filter(|seen| seen.target.contains("/two.txt?"));
    assert!(stored.clone().count() == 1 && stored.into_iter().all(|seen| seen.authorization.is_empty()));
}

fn gh_shows_runs_and_their_logs() {
    need("gh", "gh");
    github().repository("acme/running");
    let token = github().token(&["acme/running"]);
    let script = "gh run list -R acme/running; id=$(gh api repos/acme/running/actions/runs -q '.workflow_runs[0].id')
        gh run view $id -R acme/running; gh workflow list -R acme/running; gh run download $id -R acme/running --dir got; ls got
        gh api repos/acme/running/actions/runs/$id/logs | head -c 40 | tr -d '\\0'; gh run rerun $id -R acme/running";
    let output = done(scoped(&token, &["acme/running"]), script);
    output.expect_stdout("CI").expect_stdout("build");
}

/// Every command with another repository, in one sandbox: none of them works, and each says why.
fn gh_says_what_is_refused() {
    need("gh", "gh");
    github().repository("acme/named");
    let token = github().wide_token();
    let refused = [
        "pr create --title t --body b --head feature --base main",
        "pr checkout 2",
        "pr merge 2 --squash",
        "pr diff 2",
        "pr checks 2",
        "pr view 2",
        "issue create --title t --body b",
        "issue comment 1 --body b",
        "issue view 1",
        "issue list",
        "release create v9 --notes n",
        "release download v1",
        "release upload v1 a.txt",
        "run list",
        "run view 100",
        "workflow list",
        "label list",
    ];
    let mut script = format!("{SETUP}gh repo clone acme/named -- -q; cd named; echo a > a.txt\n");
    for (at, command) in refused.iter().enumerate() {
        script.push_str(&format!(
            "gh {command} -R other/secret > out{at} 2>&1 < /dev/null; echo \"{at} $?\"; cat out{at}\n"
        ));
    }
    let others = [
        "repo view other/secret",
        "repo clone other/secret",
        "repo fork other/secret",
        "repo fork acme/named",
        "gist list",
        "repo list other",
        "issue transfer 1 other/secret",
        "search issues x",
        "ssh-key list",
        "status",
    ];
    for (at, command) in others.iter().enumerate() {
        let at = at + refused.len();
        script.push_str(&format!("gh {command} > out{at} 2>&1 < /dev/null; echo \"{at} $?\"; cat out{at}\n"));
    }
    script.push_str("echo end");
    let output = scoped(&token, &["acme/named"]).script(&script).run();
    let mut wrong = Vec::new();
    for (at, command) in refused.iter().chain(&others).enumerate() {
        let rest = output.stdout.split_once(&format!("{at} ")).map_or("", |(_, rest)| rest);
        let next = format!("\n{} ", at + 1);
        let said = rest.split(next.as_str()).next().unwrap_or_default();
        let why = [
            "this sandbox may not use the repository other/secret",
            "is not allowed",
            "may not be asked",
            "may not begin with",
            "repo:",
        ];
        if said.starts_with('0') || !why.iter().any(|why| said.contains(why)) || said.contains("gh auth login") {
            wrong.push(format!("gh {command}: {said}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n---\n"));
    assert!(!github().requests_with(&token).iter().any(|seen| seen.has("secret")));
}

fn git_follows_submodules_to_what_is_named_alone() {
    need("git", "git");
    for name in ["acme/parts", "acme/part"] {
        github().repository(name);
    }
    let token = github().wide_token();
    // One script makes what the other one clones: a path relative to this repository, one by SSH, and one to another's.
    let make = "git clone -q https://github.com/acme/parts; cd parts
        add() { git config -f .gitmodules submodule.$1.path $1; git config -f .gitmodules submodule.$1.url $2
            git update-index --add --cacheinfo 160000,$(git ls-remote https://github.com/acme/part HEAD | cut -f1),$1; }
        git rm -q --cached libs/lib; rm -f .gitmodules
        add relative ../part.git; add ssh git@github.com:acme/part.git; add other ../../other/secret.git
        git add .gitmodules; git commit -q -m parts; git push -q origin main";
    done(scoped(&token, &["acme/parts", "acme/part"]), make);
    let script = format!(
        "{SETUP}git clone -q git@github.com:acme/parts; cd parts; git submodule update -q --init relative ssh; echo named $?
        cat relative/README.md ssh/README.md; git submodule update --init other; echo other $?"
    );
    let output = scoped(&token, &["acme/parts", "acme/part"]).script(&script).run();
    output
        .expect_stdout("named 0")
        .expect_stdout("hello from acme/part\n# acme/part\n\nhello from acme/part")
        .expect_stdout("other 1");
    output.expect_stderr("remote: this sandbox may not use the repository other/secret");
    assert!(!github().requests_with(&token).iter().any(|seen| seen.target.contains("secret")));
    let alone = scoped(&token, &["acme/parts"]);
    let output =
        alone.script(&format!("{SETUP}git clone -q --recurse-submodules https://github.com/acme/parts; echo $?")).run();
    output.expect_stderr("remote: this sandbox may not use the repository acme/part");
}

fn git_fetches_in_part_and_later_the_rest() {
    need("git", "git");
    github().repository("acme/partial");
    let token = github().token(&["acme/partial"]);
    let script = "git clone -q --filter=blob:none --no-checkout https://github.com/acme/partial lazy; cd lazy
        missing() { git rev-list --objects --all --missing=print | grep -c '^?' || true; }
        echo before $(missing); git checkout -q main; cat src/main.txt | head -1; git show origin/feature:feature.txt; echo after $(missing)
        cd ..; git clone -q --depth 1 https://github.com/acme/partial shallow; cd shallow; git rev-list --count HEAD
        git fetch -q --deepen 1; git rev-list --count HEAD; git fetch -q --unshallow; git rev-list --count HEAD
        git fetch -q origin refs/pull/2/head; git log -1 --format=%s FETCH_HEAD";
    let output = done(scoped(&token, &["acme/partial"]), script);
    output.expect_stdout("line\na feature\nafter 0\n1\n2\n7\nAdd a feature");
    assert!(!output.stdout.contains("before 0"), "{}", output.stdout);
}

fn octokit_writes_and_says_what_is_refused() {
    need("node", "nodejs");
    github().repository("acme/octo");
    let token = github().wide_token();
    let octokit = format!("{}/node_modules/octokit/dist-bundle/index.js", std::env::var("IT_NODE").unwrap());
    let script = format!(
        "cat > write.mjs <<'END'
const {{ Octokit }} = await import('{octokit}');
const octokit = new Octokit({{ auth: process.env.GITHUB_TOKEN }});
const own = {{ owner: 'acme', repo: 'octo' }}, other = {{ owner: 'other', repo: 'secret' }};
const made = await octokit.rest.issues.create({{ ...own, title: 'by octokit', body: 'b' }});
await octokit.rest.issues.createComment({{ ...own, issue_number: made.data.number, body: 'said' }});
console.log((await octokit.graphql('query($n:Int!){{repository(owner:\"acme\",name:\"octo\"){{issue(number:$n){{title}}}}}}', {{ n: made.data.number }})).repository.issue.title);
const refused = async (what, asked) => {{ try {{ await asked; console.log(what, 'was allowed'); }} catch (error) {{ console.log(what, error.status ?? 'none', error.message); }} }};
await refused('read', octokit.rest.repos.getContent({{ ...other, path: 'README.md' }}));
await refused('write', octokit.rest.issues.create({{ ...other, title: 't' }}));
await refused('gist', octokit.rest.gists.create({{ files: {{ a: {{ content: 'b' }} }} }}));
await refused('graphql', octokit.graphql('{{repository(owner:\"other\",name:\"secret\"){{id}}}}'));
END
node write.mjs"
    );
    let output = done(scoped(&token, &["acme/octo"]), &script);
    output.expect_stdout("by octokit\nread 403 this sandbox may not use the repository other/secret");
    output.expect_stdout("write 403 this sandbox may not use the repository other/secret");
    output.expect_stdout("gist 403 POST /gists is not allowed: gists belong to no repository");
    output.expect_stdout("this sandbox may not use the repository other/secret\n");
    assert!(!output.stdout.contains("was allowed"), "{}", output.stdout);
    let there = look("acme/octo");
    assert_eq!(
        (&there["issues"][3]["title"], &there["issues"][3]["comments"]),
        (&json!("by octokit"), &json!(["said"]))
    );
}

/// Row 36.
fn a_renamed_repository_goes_by_both_names() {
    github().repository("acme/former");
    github().lever(json!({"do": "rename", "name": "acme/former", "to": "acme/latter"}));
    let token = github().wide_token();
    let script = "git clone -q https://github.com/acme/former; cd former; git remote set-url origin git@github.com:acme/latter; git fetch -q
        gh api repos/acme/former -q .full_name; gh api repos/acme/latter -q .full_name; gh issue list -R acme/former
        git commit -q --allow-empty -m one; git push -q origin HEAD:one";
    done(scoped(&token, &["acme/former"]), script)
        .expect_stdout("acme/latter\nacme/latter")
        .expect_stdout("first issue");
    assert!(!github().git("acme/latter", &["rev-parse", "refs/heads/one"]).is_empty());
}
