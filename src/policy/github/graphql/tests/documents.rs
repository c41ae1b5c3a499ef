//! Documents that are to be read as something else than they are, or to cost much.

use super::*;

#[test]
fn what_can_be_read_in_two_ways_is_refused() {
    let fine = "repository(owner:\"acme\",name:\"widget\"){id}";
    let cases = [
        "{repository(owner:\"acme\",name:\"widget\",owner:\"other\"){id}}".to_owned(),
        "query A{viewer{login}} query A{viewer{login}}".to_owned(),
        "query A{viewer{login}} {viewer{login}}".to_owned(),
        "query($a:Int,$a:Int){viewer{login}}".to_owned(),
        "{...f} fragment f on Query{viewer{login}} fragment f on Query{viewer{login}}".to_owned(),
        "{viewer{login} ...g}".to_owned(),
        "{viewer{login}} fragment unused on Query{viewer{login}}".to_owned(),
        "fragment f on Query{viewer{login}}".to_owned(),
        "{__type(name:\"\"\"x\\\\\"\"\"){name}}".to_owned(),
        "{__type(name:\"\"\"x\"\"\"){name}}".to_owned(),
        "{__type(name:\"\\u{61}\"){name}}".to_owned(),
        "{__type(name:\"a\nb\"){name}}".to_owned(),
        "{__type(name:\"\n\"){name}}".to_owned(),
        format!("\u{feff}{{{fine}}}"),
        format!("{{ \u{feff} {fine}}}"),
        format!("# x\r{{{fine}}}"),
        format!("{{{fine}}}\0"),
        format!("{{{fine}}} extra"),
        format!("{{{fine}"),
        format!("{{{fine} {{}}}}"),
        format!("query @client {{{fine}}}"),
        format!("{{{fine}}} type X{{a:Int}}"),
        "subscription{viewer{login}}".to_owned(),
        "fragment f($x:Int) on Query{viewer{login}} {...f}".to_owned(),
        "query($v:ID=$v){node(id:$v){id}}".to_owned(),
        "{node(id:$v){id}}".to_owned(),
        "query($v:ID!){node(id:$v){id}}".to_owned(),
        "{repository(owner:acme,name:\"widget\"){id}}".to_owned(),
        "{repository(owner:\"\\u0061cme\",name:\"widget\"){id}}".to_owned(),
        "{viewer{login{x}}}".to_owned(),
        "{}".to_owned(),
        String::new(),
    ];
    for text in cases {
        assert_eq!(refused(query(&text)), Code::Malformed, "{text}");
    }
}

#[test]
fn the_body_is_one_object_of_three_keys() {
    let cases = [
        r#"{"query":"{viewer{login}}","query":"{viewer{login}}"}"#,
        r#"{"query":"{viewer{login}}","variables":{"a":1,"a":1}}"#,
        r#"{"query":"{viewer{login}}","variables":{"a":{"b":[{"c":1,"c":2}]}}}"#,
        r#"{"query":"{viewer{login}}","variables":"{}"}"#,
        r#"{"query":"{viewer{login}}","variables":[]}"#,
        r#"{"query":"{viewer{login}}","operationName":1}"#,
        r#"{"query":"{viewer{login}}","operationName":"Other"}"#,
        r#"{"query":"query A{viewer{login}} query B{viewer{login}}"}"#,
        r#"{"query":["{viewer{login}}"]}"#,
        r#"{"query":"{viewer{login}}","id":"x"}"#,
        r#"{"query":"{viewer{login}}","extensions":{}}"#,
        r#"{"id":"x"}"#,
        "\u{feff}{\"query\":\"{viewer{login}}\"}",
        r#"{"query":"{viewer{login}}"}{}"#,
        r#""{viewer{login}}""#,
        "query={viewer{login}}",
        "",
    ];
    for text in cases {
        assert_eq!(refused(judge(text, &rules())), Code::Malformed, "{text}");
    }
    for text in [
        r#"{"query":"{viewer{login}}"}"#,
        r#"{"query":"{viewer{login}}","variables":null,"operationName":null}"#,
        r#"{"query":"query A{viewer{login}} query B{viewer{login}}","variables":{"unused":1},"operationName":"B"}"#,
    ] {
        covered(judge(text, &rules()));
    }
}

/// The operation that does not run counts as much.
#[test]
fn every_operation_is_checked() {
    let text = "query A{viewer{login}} query B{viewer{gists(first:1){nodes{id}}}}";
    let chosen = format!("{{\"query\":{},\"operationName\":\"A\"}}", serde_json::Value::from(text));
    assert_eq!(refused(judge(&chosen, &rules())), Code::ForeignObject);
}

#[test]
fn what_would_cost_much_is_refused() {
    // Each fragment doubles: 2^28 fields.
    let mut bomb = "{...f0}".to_owned();
    for at in 0..27 {
        bomb += &format!("fragment f{at} on Query{{...f{next} ...f{next}}}", next = at + 1);
    }
    bomb += "fragment f27 on Query{viewer{login}}";
    let deep = |open: &str, close: &str, times: usize| format!("{}{}", open.repeat(times), close.repeat(times));
    let cases = [
        bomb,
        format!("{{{}}}", "viewer{login}".repeat(3_000)),
        format!("{{{}}}", (0..5_001).map(|at| format!("a{at}:id ")).collect::<String>()),
        deep("{a", "}", 10_000),
        format!("{{a(b:{})}}", deep("[", "]", 10_000)),
        format!("{{a(b:{})}}", deep("{c:", "}", 10_000)),
        format!("query($a:{}){{a}}", deep("[", "]", 10_000)),
        format!("{{{}}}", deep("...on Query{", "}", 10_000)),
        format!("{{viewer{{login}}}}#{}", "x".repeat(LENGTH)),
    ];
    for text in cases {
        assert_eq!(refused(query(&text)), Code::Malformed, "{}", &text[..40]);
    }
    covered(query(&format!("{{{}}}", (0..4_999).map(|at| format!("a{at}:id ")).collect::<String>())));
}

#[test]
fn what_is_odd_but_plain_is_read() {
    let text = "\r\n# comment }\r\nquery query ( $on : String = \"acme\" , $b : [ ID ! ] ! = [] ) , { \
        fragment : repository ( owner : $on name : \"wid\\u0067et\" ) { query : id ... { name , } ... on Repository @skip(if:true) { on:url } ...mutation } } \
        fragment mutation on Repository { type: __typename }";
    assert_eq!(refused(query(text)), Code::Malformed, "an escape that is not served");
    covered(query(&text.replace("wid\\u0067et", "widget")));
}

/// One large variable, used often.
#[test]
fn values_are_counted_where_they_are_used() {
    let ids = vec!["\"I_known\""; 3_000].join(",");
    let text = |times: usize| {
        let roots: String = (0..times).map(|at| format!("a{at}:nodes(ids:$ids){{id}} ")).collect();
        body(&format!("query($ids:[ID!]!){{{roots}}}"), &format!("{{\"ids\":[{ids}]}}"))
    };
    covered(judge(&text(2), &rules()));
    assert_eq!(refused(judge(&text(100), &rules())), Code::Malformed);
}
