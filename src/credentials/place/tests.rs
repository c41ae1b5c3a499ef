use http::Request;

use super::*;
use crate::types::Secret;

fn head(target: &str, cookies: &[&'static str]) -> Parts {
    let (mut head, ()) = Request::builder().uri(target).body(()).unwrap().into_parts();
    for line in cookies {
        head.headers.append(COOKIE, HeaderValue::from_static(line));
    }
    head
}

macro_rules! queries {
    ($($test:ident: $sent:literal => $stripped:literal;)*) => { $(
        #[test]
        fn $test() {
            let mut head = head(concat!("/p", $sent), &[]);
            query::strip(&mut head.uri, "api_key").unwrap();
            assert_eq!(head.uri.to_string(), concat!("/p", $stripped));
            query::append(&mut head.uri, "api_key", b"a+b &=%\xfc/~").unwrap();
            let mark = if matches!($stripped, "" | "?") { "?" } else { concat!($stripped, "&") };
            assert_eq!(head.uri.to_string(), format!("/p{mark}api_key=a%2Bb%20%26%3D%25%FC%2F~"));
        }
    )* };
}

queries! {
    no_query: "" => "";
    an_empty_query: "?" => "?";
    another_one_stays_as_it_is: "?a=%41&b=+c;d&&=" => "?a=%41&b=+c;d&&=";
    the_only_one: "?api_key=mine" => "";
    the_first: "?api_key=mine&b=2" => "?b=2";
    the_last: "?a=1&api_key=mine" => "?a=1";
    between_others: "?a=1&api_key=mine&b=2" => "?a=1&b=2";
    each_of_several: "?api_key=mine&a=1&api_key=too" => "?a=1";
    without_a_value: "?api_key&a=1" => "?a=1";
    escaped: "?%61pi%5fkey=mine&a" => "?a";
    escaped_twice: "?%2561pi_key=mine&a" => "?a";
    escaped_as_iis_does: "?%u0061pi_key=mine&a" => "?a";
    in_capitals: "?API_Key=mine&a" => "?a";
    as_an_array: "?api_key[]=mine&api_key%5B0%5D=too&a" => "?a";
    as_php_spells_it: "?api.key=mine&api+key=mine&api[key=mine&%20api_key=mine&a" => "?a";
    behind_a_semicolon: "?a=1;api_key=mine&b=2" => "?a=1&b=2";
    escaped_three_times: "?%252561pi_key=mine&a" => "?a";
    cut_at_nul: "?api_key%00x=mine&a" => "?a";
    another_name: "?api-key=1&xapi_key=2&api_keys=3&x[api_key]=4&a=api_key" => "?api-key=1&xapi_key=2&api_keys=3&x[api_key]=4&a=api_key";
    half_an_escape: "?%=1&%6=2&api_key%=3" => "?%=1&%6=2&api_key%=3";
}

macro_rules! cookies {
    ($($test:ident: [$($sent:literal),*] => $want:literal;)*) => { $(
        #[test]
        fn $test() {
            let mut head = head("/", &[$($sent),*]);
            cookie::strip(&mut head.headers, "session").unwrap();
            cookie::put(&mut head.headers, "session", b"V").unwrap();
            let lines: Vec<_> = head.headers.get_all(COOKIE).iter().collect();
            assert_eq!(lines, [$want]);
            assert!(lines[0].is_sensitive());
        }
    )* };
}

cookies! {
    no_cookie: [] => "session=V";
    another_cookie_stays_as_it_is: ["a=\"1, 2\";b=x y;  c=%41"] => "session=V; a=\"1, 2\";b=x y;  c=%41";
    the_only_cookie: ["session=mine"] => "session=V";
    the_first_cookie: ["session=mine; b=2"] => "session=V; b=2";
    the_last_cookie: ["a=1; session=mine"] => "session=V; a=1";
    a_cookie_between_others: ["a=1; session=mine; b=2"] => "session=V; a=1; b=2";
    each_of_several_cookies: ["session=mine; a=1; session=too;session = three"] => "session=V; a=1";
    a_cookie_without_a_value: ["session; a=1"] => "session=V; a=1";
    an_escaped_cookie: ["s%65ssion=mine; a=1"] => "session=V; a=1";
    a_cookie_in_capitals: ["SESSION=mine; a=1"] => "session=V; a=1";
    a_cookie_behind_a_comma: ["a=1, session=mine"] => "session=V; a=1";
    a_cookie_behind_white_space: ["a=1 session=mine; b=2"] => "session=V; a=1; b=2";
    a_cookie_behind_white_space_with_more: ["a=1\tsession = mine; b=2"] => "session=V; a=1; b=2";
    cookies_of_other_names: ["xsession=1; sessions=2; a=session"] => "session=V; xsession=1; sessions=2; a=session";
}

#[test]
fn a_cookie_carries_what_it_can() {
    for good in ["", "abc", "\"abc\"", "a=b&c/d:e%20", "!#$'()*+-./:<=>?@[]^_`{|}~"] {
        assert_eq!(cookie::check(good.as_bytes()), Ok(()), "{good}");
    }
    for bad in ["a b", "a,b", "a;b", "a\\b", "a\"b", "\"", "\u{fc}", "a\tb"] {
        let told = cookie::check(bad.as_bytes()).unwrap_err();
        assert!(told.starts_with("it holds what no cookie can carry"), "{told}");
    }
}

fn stand_in(value: &str) -> Placeholder {
    Placeholder::of(&Secret::new("K", Zeroizing::new(value.as_bytes().to_vec())).unwrap(), "K").unwrap()
}

#[test]
fn a_segment_that_is_the_placeholder_is_replaced_and_stays_one() {
    let known = [stand_in("one"), stand_in("two")];
    let marks = known.each_ref().map(Placeholder::value);
    let first = marks[0];
    let escaped = format!("%{:02x}{}", first.as_bytes()[0], &first[1..]);
    for (sent, affixes, want) in [
        (format!("/a/{first}/b?q={first}"), ("", ""), Some(format!("/a/x%2Fy%3F%23%25%3Bz%3A%40/b?q={first}"))),
        (
            format!("/{first}/{}", marks[1]),
            ("", ""),
            Some("/x%2Fy%3F%23%25%3Bz%3A%40/x%2Fy%3F%23%25%3Bz%3A%40".to_owned()),
        ),
        (format!("/{escaped}"), ("", ""), Some("/x%2Fy%3F%23%25%3Bz%3A%40".to_owned())),
        (format!("/bot{first}/send"), ("bot", ""), Some("/botx%2Fy%3F%23%25%3Bz%3A%40/send".to_owned())),
        (format!("/bot{first}.json"), ("bot", ".json"), Some("/botx%2Fy%3F%23%25%3Bz%3A%40.json".to_owned())),
        (format!("/bot{first}/send"), ("", ""), None),
        (format!("/{first}x/x{first}/{first};a"), ("", ""), None),
        (format!("/{first}"), ("bot", ""), None),
        (format!("/?{first}"), ("", ""), None),
    ] {
        let mut head = head(&sent, &[]);
        assert_eq!(segment::has(head.uri.path(), affixes.0, affixes.1, known.iter()), want.is_some(), "{sent}");
        segment::swap(&mut head.uri, affixes, b"x/y?#%;z:@", known.iter()).unwrap();
        assert_eq!(head.uri.to_string(), want.unwrap_or(sent));
    }
}

#[test]
fn a_segment_is_no_dot_segment() {
    assert!(segment::check("", b".", "").is_err() && segment::check(".", b".", "").is_err());
    assert!(segment::check("", b"..", "").is_err());
    assert_eq!((segment::check("bot", b"..", ""), segment::check("", b"...", "")), (Ok(()), Ok(())));
}

#[test]
fn what_is_too_long_for_a_target_is_refused() {
    let mut head = head("/", &[]);
    let told = query::append(&mut head.uri, "key", &[b'a'; 65_535]).unwrap_err();
    assert!(told.contains("longer than 65534 bytes"), "{told}");
    assert_eq!(head.uri, "/");
}
