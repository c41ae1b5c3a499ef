//! `policy explain`: what decided, and what would permit.

use super::*;

#[test]
fn explain_shows_the_entry_and_the_bindings() {
    let file = Scratch::new("explain", "[network]\nmode = \"allow\"\nhosts = [\"api.example.com\"]\n");
    let o = policy(&[
        "explain",
        "--policy",
        file.path(),
        "--bind",
        "api.example.com/v1/ Authorization: Bearer {KEY}",
        "--secret",
        "KEY=env:NOT_SET_ANYWHERE",
        "POST",
        "https://API.example.com/v1/models?x=1#y",
    ]);
    assert_eq!((o.code, o.err.as_str()), (0, ""));
    assert_eq!(
        o.out.replace(file.path(), "p"),
        "permitted: POST https://api.example.com/v1/models\n\
         decided by: network host api.example.com at p:3:10\n\
         binding: authorization: Bearer {KEY} (secret KEY, paths /v1/…)\n\
         secret: KEY from the variable NOT_SET_ANYWHERE, used as long as the command runs\n\
         note: nothing was resolved; every address of api.example.com is checked when it is looked up, before it is dialled\n"
    );
}

/// Each source, and how long one of its values is used.
#[test]
fn explain_says_where_a_credential_comes_from_and_how_long_it_lives() {
    let text = "[network]\nmode = \"all\"\n\
        [secrets.A]\nfile = \"/k\"\n[secrets.B]\ncommand = [\"issue\", \"--arg\"]\n\
        [secrets.C]\ncommand = [\"issue\"]\nttl_seconds = 60\n[secrets.D]\nhttp = \"https://i.test/secret/path\"\n\
        [[header_bindings]]\nhost = \"a.test\"\nheader = \"A\"\nsecret_name = \"A\"\nscrub = false\n\
        [[header_bindings]]\nhost = \"a.test\"\nheader = \"B\"\nsecret_name = \"B\"\n\
        [[header_bindings]]\nhost = \"a.test\"\nheader = \"C\"\nsecret_name = \"C\"\n\
        [[header_bindings]]\nhost = \"a.test\"\nheader = \"D\"\nsecret_name = \"D\"\n\
        [[header_bindings]]\nkind = \"mistral_api\"\nhost = \"a.test\"\n";
    let file = Scratch::new("lives", text);
    let o = policy(&["explain", "--policy", file.path(), "GET", "https://a.test/"]);
    let said: Vec<&str> = o.out.lines().filter_map(|line| line.strip_prefix("secret: ")).collect();
    assert_eq!(
        said,
        [
            "A from the file /k, used as long as the command runs; answers can show it",
            "B from the command issue, used until the end that its answer tells, and renewed ahead of it",
            "C from the command issue, used for 60 seconds at most, or until the end that its answer tells, and renewed ahead of it",
            "D from https://i.test, used until the end that its answer tells, and renewed ahead of it",
            "MISTRAL_API_KEY from the variable MISTRAL_API_KEY, used for 3600 seconds, and read anew ahead of that; \
             only in place of its placeholder",
        ]
    );
}

#[test]
fn explain_shows_the_denial_and_its_cure() {
    let o = policy(&["explain", "GET", "https://a.test:8443/"]);
    assert_eq!(o.code, 1);
    assert_eq!(
        o.out,
        "denied: GET https://a.test:8443/\n\
         code: host_not_listed\n\
         reason: a.test:8443 is not in this sandbox's policy\n\
         to allow it: --allow a.test:8443\n"
    );
}

/// The cure of a denial, given as option, permits the request.
#[test]
fn a_cure_cures() {
    for (options, url) in [
        (&[] as &[&str], "https://a.test/"),
        (&[], "https://a.test:8443/"),
        (&[], "https://10.0.0.1:8443/"),
        (&[], "https://10.0.0.1:5432/"),
        (&["--network", "all"], "https://169.254.169.254/"),
        (&["--network", "all"], "https://[64:ff9b::10.0.0.1]/"),
        (&["--network", "all"], "https://[fe80::1]/"),
    ] {
        let ask = |more: &[&str]| policy(&[&["explain"], options, more, &["GET", url]].concat());
        let denied = ask(&[]);
        assert_eq!(denied.code, 1, "{url}");
        let cure = denied.out.lines().find_map(|line| line.strip_prefix("to allow it: ")).unwrap();
        let cured = ask(&cure.split(' ').collect::<Vec<_>>());
        assert_eq!(cured.code, 0, "{url} {cure}: {}", cured.out);
    }
}

#[test]
fn explain_shows_the_rule_that_decided_and_why_the_others_did_not() {
    let file = Scratch::new("rules", RULES);
    let p = file.path();
    let ask = |method, url| {
        let o = policy(&["explain", "--policy", p, method, url]);
        assert_eq!(o.err, "");
        (o.code, o.out.lines().skip(1).map(|line| line.replace(p, "p") + "\n").collect::<String>())
    };
    let others = "not by: the deny rule for *.example.com at p:9:1, which is for other paths\n\
                  not by: 1 rule for another host\n";
    let (code, out) = ask("GET", "https://api.example.com/v1/x");
    assert_eq!(code, 0);
    assert!(
        out.starts_with(&format!(
            "decided by: the allow rule at p:2:1\n\
             not by: the allow rule for api.example.com at p:15:1, which is for other ports\n{others}"
        )),
        "{out}"
    );
    assert_eq!(
        ask("PUT", "https://api.example.com/v1/x"),
        (
            1,
            format!(
                "code: method_not_permitted\n\
                 reason: api.example.com may be reached, but not with PUT for this path: read-only API\n\
                 not by: the allow rule for api.example.com at p:2:1, which is for other methods\n\
                 not by: the allow rule for api.example.com at p:15:1, which is for other ports\n{others}\
                 to allow it: PUT in the methods of the rule at p:2:1, or a rule of its own\n"
            )
        )
    );
    assert_eq!(
        ask("GET", "https://api.example.com:8443/admin/x"),
        (
            1,
            "code: rule_denied\n\
             reason: a rule of this sandbox's policy denies this request to api.example.com:8443: no administration\n\
             decided by: the deny rule at p:9:1\n\
             not by: the allow rule for api.example.com at p:2:1, which is for other ports\n\
             not by: the allow rule for api.example.com at p:15:1, which applies as well\n\
             not by: 1 rule for another host\n\
             to allow it: take out or narrow the deny rule at p:9:1\n"
                .to_owned()
        )
    );
    let (code, out) = ask("GET", "https://api.example.com/v1/../x");
    assert_eq!(code, 1);
    assert!(out.starts_with("code: ambiguous_path\nreason: the path is ambiguous: a dot segment\n"), "{out}");
    assert!(out.contains("at p:2:1, which looks at the path, which is ambiguous\n"), "{out}");
    let (code, out) = ask("GET", "http://api.example.com/v1/x");
    assert_eq!(code, 1);
    assert!(out.contains("code: https_only") && out.contains("at p:2:1, which is for another scheme\n"), "{out}");
    assert!(out.ends_with("not by: 1 rule for another host\n"), "no cure that would not help: {out}");
}

/// Rules that a policy has for one host may be many; they are not all shown.
#[test]
fn explain_shows_a_bounded_number_of_rules() {
    let rule =
        |at: usize| format!("[[network.rules]]\nhost = \"a.test\"\naction = \"allow\"\nports = [{}]\n", 1000 + at);
    let file = Scratch::new("many", &(0..30).map(rule).collect::<String>());
    let o = policy(&["explain", "--policy", file.path(), "GET", "https://a.test/"]);
    assert_eq!(o.out.matches("which is for other ports").count(), 20);
    assert!(o.out.contains("not by: 10 more rules for this host\n"), "{}", o.out);
}

/// Where a file fixes the mode, `--allow` would contradict it, so a rule is named; written into the file, it permits.
#[test]
fn the_cure_beside_a_fixed_mode_is_a_rule() {
    let none = "[network]\nmode = \"none\"\n";
    let file = Scratch::new("fixed", none);
    let o = policy(&["explain", "--policy", file.path(), "GET", "https://a.test:8443/"]);
    let cure = "[[network.rules]] with host = \"a.test\", ports = [8443], action = \"allow\"";
    assert!(o.out.contains(&format!("to allow it: {cure}\n")), "{}", o.out);
    let written = cure.replace(" with ", "\n").replace(", ", "\n");
    let cured = Scratch::new("cured", &format!("{none}{written}\n"));
    assert_eq!(policy(&["explain", "--policy", cured.path(), "GET", "https://a.test:8443/"]).code, 0);
}

#[test]
fn explain_checks_a_literal_address() {
    let o = policy(&["explain", "--network", "all", "GET", "https://2130706433/"]);
    assert_eq!(o.code, 1);
    assert!(o.out.contains("code: address_blocked\nreason: 127.0.0.1 is at a loopback address"), "{}", o.out);
    assert_eq!(policy(&["explain", "--network", "all", "GET", "https://1.1.1.1/"]).code, 0);
}

#[test]
fn explain_refuses_what_it_cannot_use() {
    for (method, url, what) in [
        ("GET", "a.test", "it has no scheme"),
        ("GET", "ftp://a.test/", "the scheme \"ftp\""),
        ("GET", "https:///x", "the host is empty"),
        ("GET", "https://u:p@a.test/", "it holds a user name"),
        ("GET", "https://a.test:0/", "the port is not a number"),
        ("GET", "tcp://a.test", "a tcp URL needs a port"),
        ("GET", "tcp://a.test:1", "tcp://HOST:PORT has no method"),
        ("GET", "dns:a.test", "dns:NAME has no method"),
        ("G T", "https://a.test/", "\"G T\" is not a method"),
    ] {
        let o = policy(&["explain", method, url]);
        assert_eq!((o.code, o.out.as_str()), (2, ""), "{method} {url}");
        assert!(o.err.contains(what), "{url}: {}", o.err);
    }
    let o = policy(&["explain", "--allow", "*.a.test", "GET", "https://a.test/"]);
    assert_eq!(o.code, 2);
    assert!(o.err.starts_with("--allow \"*.a.test\": wildcards are not accepted here\n  hint: "), "{}", o.err);
}
