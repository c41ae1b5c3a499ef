//! `policy replay` and `policy diff`.

use serde_json::{Value, json};

use super::*;

/// A row as `run --audit` writes it, with these fields changed.
fn row(fields: &Value) -> String {
    let mut row = json!({
        "time": "2026-01-01T00:00:00Z", "sandbox": "s", "capture": "transparent", "scheme": "https", "protocol": "h2",
        "method": "GET", "authority": "a.test", "path": "/", "verdict": "permit", "rule": "network host a.test",
        "upstream": "11.22.33.9:443", "status": 200, "bytes_up": 0, "bytes_down": 0, "total_ms": 1.0,
    });
    for (key, value) in fields.as_object().unwrap() {
        row[key] = value.clone();
    }
    format!("{row}\n")
}

#[test]
fn replay_says_what_changes() {
    let denied = json!({"authority": "b.test", "verdict": "deny", "code": "host_not_listed", "rule": null});
    let long = json!({"path": format!("/{}", "x".repeat(2047)), "authority": "r.test", "rule": "rule p:1:1"});
    let rows = [
        row(&json!({})),
        row(&json!({"method": "POST", "path": "/\u{1b}[2J"})),
        row(&json!({"method": "POST", "path": "/\u{1b}[2J"})),
        row(&denied),
        row(&json!({"authority": "c.test", "verdict": "deny", "code": "host_not_listed"})),
        row(&json!({"verdict": "deny", "code": "misdirected"})),
        row(&long),
    ];
    let audit = Scratch::new("audit", &rows.concat());
    let text = "[[network.rules]]\nhost = \"a.test\"\naction = \"allow\"\nmethods = [\"GET\"]\nreason = \"read-only\"\n\
                [[network.rules]]\nhost = \"r.test\"\naction = \"allow\"\npaths = [\"/v1\"]\n";
    let file = Scratch::new("replayed", text);
    let o = policy(&["replay", "--policy", file.path(), "--allow", "b.test", audit.path()]);
    assert_eq!((o.code, o.err.as_str()), (1, ""));
    assert_eq!(
        o.out.replace(file.path(), "p"),
        "now denied: POST https://a.test:443/\\u{1b}[2J: method_not_permitted: a.test may be reached, but not with POST for \
         this path: read-only (the rule at p:1:1) (2 rows)\n\
         now permitted: GET https://b.test:443/: by network host b.test, by --allow \"b.test\"\n\
         not known: GET https://r.test:443/…: its path is too long to have been recorded whole\n\
         7 rows: 2 now denied, 1 now permitted, 1 permitted and 1 denied as before, 1 not known, 1 that no policy decides\n"
    );
    let same = Scratch::new("same", &[row(&json!({})), row(&denied)].concat());
    let o = policy(&["replay", "--policy", file.path(), same.path()]);
    let counts = "2 rows: 0 now denied, 0 now permitted, 1 permitted and 1 denied as before, 0 not known, 0 that no policy decides\n";
    assert_eq!((o.code, o.out.as_str()), (0, counts));
}

#[test]
fn replay_names_a_line_that_is_no_row() {
    let good = row(&json!({}));
    for bad in ["no row\n", "{}\n", &good[..good.len() / 2], "\n"] {
        let audit = Scratch::new("bad-audit", &format!("{good}{good}{bad}"));
        let o = policy(&["replay", "--network", "all", audit.path()]);
        assert_eq!((o.code, o.out.as_str()), (2, ""), "{bad:?}");
        assert!(o.err.starts_with(&format!("error: {}:3: no row of an audit: ", audit.path())), "{}", o.err);
    }
    let o = policy(&["replay", "--network", "all", "/nowhere/audit.jsonl"]);
    assert!(o.code == 2 && o.err.starts_with("error: cannot read /nowhere/audit.jsonl: "), "{}", o.err);
}

/// However many rows there are, no more changes than that are remembered.
#[test]
fn replay_remembers_a_bounded_number_of_changes() {
    let rows: String = (0..10_050).map(|at| row(&json!({"path": format!("/{at}")}))).collect();
    let audit = Scratch::new("many-rows", &rows);
    let o = policy(&["replay", audit.path()]);
    assert_eq!((o.code, o.out.matches("now denied: ").count()), (1, 10_000));
    assert!(o.out.contains("and 50 rows of further requests, beyond 10000\n10050 rows: 10050 now denied, "));
}

#[test]
fn diff_says_what_is_more() {
    let a = Scratch::new("diff-a", "[[network.rules]]\nhost = \"a.test\"\naction = \"allow\"\nmethods = [\"GET\"]\n");
    let b = Scratch::new("diff-b", "[network]\nmode = \"allow\"\nhosts = [\"a.test\"]\n");
    let ask = |arguments: &[&str]| {
        let o = policy(&[&["diff"], arguments].concat());
        (o.code, o.out.replace(a.path(), "a").replace(b.path(), "b"))
    };
    let more = "b permits more than a:\n  https://a.test/** with any method is permitted, such as POST https://a.test/ (b:3:10)\n";
    assert_eq!(ask(&[a.path(), b.path()]), (1, more.to_owned()));
    assert_eq!(ask(&[b.path(), a.path()]), (0, "a permits nothing that b does not\n".to_owned()));
    assert_eq!(ask(&["--both", b.path(), a.path()]), (1, format!("a permits nothing that b does not\n{more}")));
    assert_eq!(ask(&[b.path(), "/nowhere"]), (2, String::new()));
}
