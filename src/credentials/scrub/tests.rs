use super::*;

fn secret(value: &[u8]) -> Secret {
    Secret::new("K", Zeroizing::new(value.to_vec())).unwrap()
}

fn scrubber(values: &[&[u8]]) -> Arc<Scrubber> {
    let secrets: Vec<Secret> = values.iter().map(|value| secret(value)).collect();
    Arc::new(Scrubber::new(&secrets))
}

/// A text in pieces that is searched for this.
fn stream(scrubber: &Arc<Scrubber>) -> Stream {
    let watch = Watch::new(Vec::new());
    watch.made.lock().unwrap().scrubber = Arc::clone(scrubber);
    Stream::new(Arc::new(watch))
}

/// What is left of a text, given in pieces that end at these places.
fn streamed(scrubber: &Arc<Scrubber>, text: &[u8], cuts: impl IntoIterator<Item = usize>) -> Vec<u8> {
    let mut stream = stream(scrubber);
    let (mut out, mut from) = (Vec::new(), 0);
    for to in cuts.into_iter().chain([text.len()]) {
        out.extend_from_slice(&stream.push(Bytes::copy_from_slice(&text[from..to])));
        assert!(out.len() + stream.held() == to, "{} bytes came, {} held, {to} given", out.len(), stream.held());
        from = to;
    }
    out.extend_from_slice(&stream.finish());
    out
}

/// The same by comparing everything with everything.
fn plainly(scrubber: &Scrubber, text: &[u8]) -> Vec<u8> {
    let mut out = text.to_vec();
    for at in 0..text.len() {
        for form in scrubber.forms.iter().filter(|form| text[at..].starts_with(&form.bytes)) {
            out[at..at + form.bytes.len()].fill(b'*');
        }
    }
    out
}

macro_rules! found {
    ($($test:ident: $value:expr, $text:expr => $left:expr;)*) => { $(
        #[test]
        fn $test() {
            let (scrubber, text): (_, Vec<u8>) = (scrubber(&[$value.as_ref()]), Vec::from($text));
            let shown = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
            let mut whole = text.clone();
            scrubber.mask_in_place(&mut whole);
            assert_eq!(shown(whole), $left);
            for at in 0..=text.len() {
                assert_eq!(shown(streamed(&scrubber, &text, [at])), $left, "cut at {at}");
            }
            assert_eq!(shown(streamed(&scrubber, &text, 1..text.len())), $left);
        }
    )* };
}

const KEY: &str = "sk-live_9f/3+Q=";

found! {
    itself: KEY, "a sk-live_9f/3+Q= b" => "a *************** b";
    nothing: KEY, "a sk-live_9f/3+Q b sk-live_9f/3+" => "a sk-live_9f/3+Q b sk-live_9f/3+";
    twice_in_a_row: KEY, "sk-live_9f/3+Q=sk-live_9f/3+Q=s" => "******************************s";
    percent_in_capitals: KEY, "?k=sk-live_9f%2F3%2BQ%3D&" => "?k=*********************&";
    percent_in_small_letters: KEY, "?k=sk-live_9f%2f3%2bQ%3d&" => "?k=*********************&";
    percent_in_a_path: KEY, "/sk-live_9f/3%2BQ%3D/" => "/*******************/";
    percent_of_every_byte: "a-Z0/bc", "%61%2d%5a%30%2f%62%63 %61%2D%5A%30%2F%62%63" => "********************* *********************";
    as_in_a_form: "a b+c!d", "k=a+b%2Bc%21d&" => "k=***********&";
    basic_behind_a_short_user: "s3cr3t-value-1", "Basic dTpzM2NyM3QtdmFsdWUtMQ==" => "Basic dTp******************Q==";
    basic_behind_a_longer_user: "s3cr3t-value-1", "Basic dXM6czNjcjN0LXZhbHVlLTE=" => "Basic dXM6******************E=";
    basic_behind_the_longest_user: "s3cr3t-value-1", "Basic dXNlOnMzY3IzdC12YWx1ZS0x" => "Basic dXNlOn******************";
    base64_alone: "s3cr3t-value-1", "czNjcjN0LXZhbHVlLTE" => "******************E";
    base64_for_addresses: "??>>??>>??", "Pz8-Pj8_Pj4_Pw Pz8+Pj8/Pj4/Pw" => "*************w *************w";
    hexadecimal: "a-Z0/bc", "612d5a302f6263 612D5A302F6263" => "************** **************";
    json_with_quotes: r#"a"b\c/d"#, r#"{"k":"a\"b\\c/d"}"# => r#"{"k":"*********"}"#;
    json_of_php: r#"a"b\c/d"#, r#"{"k":"a\"b\\c\/d"}"# => r#"{"k":"**********"}"#;
    json_of_go: "a<b>&c'", r#""a\u003cb\u003e\u0026c'""# => "\"**********************\"".to_owned();
    json_of_gson: "a<b=&c'", r#""a\u003cb\u003d\u0026c\u0027""# => "\"***************************\"".to_owned();
    json_in_ascii: "gr\u{fc}n\u{1f511}", r#""gr\u00fcn\ud83d\udd11 gr\u00FCn\uD83D\uDD11 grün🔑""# => format!("\"{0} {0} {1}\"", "*".repeat(21), "*".repeat(9));
    html_in_text: "a<b>\"'&c", "<p>a&lt;b&gt;\"'&amp;c</p>" => "<p>******************</p>";
    html_in_an_attribute: "a<b>\"'&c", "a&lt;b&gt;&quot;&#x27;&amp;c a&lt;b&gt;&#34;&#39;&amp;c" => format!("{} {}", "*".repeat(28), "*".repeat(26));
    one_character: "x", "axbxx" => "a*b**";
    two_characters: "xy", "axyxxyx" => "a**x**x";
    repeated: "aabaab", "aabaabaab aabaaab" => "********* aabaaab";
}

#[test]
fn short_values_are_not_found_by_chance() {
    let scrubber = scrubber(&[b"abc"]);
    // Their base64 and their digits.
    assert!(!scrubber.is_in(b"YWJj 616263"));
    assert!(scrubber.is_in(b"%61%62%63"));
}

#[test]
fn several_values_that_overlap_are_masked_whole() {
    let scrubber = scrubber(&[b"abcXYZ", b"XYZdef", b"ZdefQQQQQQQQ", b"cX"]);
    for at in 0..12 {
        assert_eq!(streamed(&scrubber, b"-abcXYZdefQ-", [at]), b"-*********Q-", "{at}");
    }
}

#[test]
fn lines_never_wait() {
    let mut stream = stream(&scrubber(&[KEY.as_bytes()]));
    for piece in ["data: {\"text\": \"hello\"}\n\n", "data: sk-live_9f/3+Q=\n\n", "data: sk-\r\n", "\0\x01"] {
        assert_eq!((stream.push(piece.into()).len(), stream.held()), (piece.len(), 0), "{piece}");
    }
    assert_eq!(stream.push("\na\tb".into()), "\n");
}

/// What is held must not tell how the value begins.
#[test]
fn what_is_held_does_not_depend_on_the_value() {
    let scrubber = scrubber(&[KEY.as_bytes()]);
    let sizes = |text: &[u8], pieces: usize| -> Vec<(usize, usize)> {
        let mut stream = stream(&scrubber);
        text.chunks(pieces).map(|piece| (stream.push(Bytes::copy_from_slice(piece)).len(), stream.held())).collect()
    };
    let text = |end: &str| ["x".repeat(300).as_bytes(), end.as_bytes(), "y".repeat(300).as_bytes()].concat();
    for length in 1..=KEY.len() {
        for pieces in [1, 7, 100, 300 + length] {
            let (right, wrong) = (text(&KEY[..length]), text(&"z".repeat(length)));
            assert_eq!(sizes(&right, pieces), sizes(&wrong, pieces), "{length} characters in pieces of {pieces}");
        }
    }
}

#[test]
fn what_holds_nothing_is_passed_on_and_not_copied() {
    let mut stream = stream(&scrubber(&[KEY.as_bytes()]));
    let piece = Bytes::from_static(b"nothing here\nbut an s");
    let ready = stream.push(piece.clone());
    assert_eq!((ready.as_ptr(), ready.len()), (piece.as_ptr(), 13));
}

#[test]
fn a_name_without_its_capitals_is_known() {
    let scrubber = scrubber(&[b"AbC-dEf"]);
    assert!(scrubber.is_in_small_letters(b"x-abc-def-y") && !scrubber.is_in(b"x-abc-def-y"));
    assert!(!scrubber.is_in_small_letters(b"x-abc-de"));
}

/// The longest values there are, cut into small pieces, cost time and memory in proportion.
#[test]
fn the_longest_value_is_found_in_small_pieces() {
    let value: Vec<u8> = (0..Secret::MAX_LEN).map(|at| b"abcdefghijklmnopqrstuvwxyz012345"[at * at % 31]).collect();
    let scrubber = scrubber(&[&value]);
    let text = [b"x".as_slice(), &value, &value[..value.len() - 1]].concat();
    let left = streamed(&scrubber, &text, (1..text.len()).step_by(61));
    assert!(left[1..=value.len()].iter().all(|byte| *byte == b'*'));
    assert_eq!(left[0], b'x');
    let spelled: usize = scrubber.forms.iter().map(|form| form.bytes.len()).sum();
    assert!(spelled < 20 * value.len(), "{spelled}");
}

/// What was before stays searched for, and what was held is looked at anew.
#[test]
fn values_may_change_in_the_middle() {
    let mut stream = stream(&scrubber(&[b"first-1"]));
    assert_eq!(stream.push("a second-2 first-1\nsec".into()), "a second-2 *******\n");
    stream.values.made.lock().unwrap().scrubber = scrubber(&[b"second-2", b"first-1"]);
    assert_eq!(stream.push("ond-2 first-1\nsec".into()), "******** *******\n");
    stream.values.made.lock().unwrap().scrubber = scrubber(&[b"third-3"]);
    assert_eq!(stream.push("ond-2 third-3\n".into()), "second-2 *******\n");
    assert!(stream.finish().is_empty());
}

#[test]
fn without_values_nothing_is_found() {
    let mut stream = stream(&scrubber(&[]));
    let text = Bytes::from(vec![b'a'; 1000]);
    assert_eq!(stream.push(text.clone()), text);
    assert!(stream.finish().is_empty());
}

#[test]
fn debug_shows_no_value() {
    let scrubber = scrubber(&[b"canary-of-debug"]);
    let shown = format!("{scrubber:?} {:?}", stream(&scrubber));
    assert!(shown.starts_with("Scrubber(") && !shown.contains("canary"), "{shown}");
}

/// Values and texts of few letters, so that everything begins, overlaps and repeats, in any pieces.
#[test]
fn pieces_give_what_the_whole_gives() {
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    let mut below = move |bound: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % bound
    };
    for round in 0..4000 {
        let letters = 1 + below(5);
        let mut word =
            |most: u64| -> Vec<u8> { (0..=below(most)).map(|_| b"ab%2\n"[below(letters) as usize]).collect() };
        let mut value = || loop {
            let word = word(7);
            if !word.contains(&b'\n') {
                break word;
            }
        };
        let values: Vec<Vec<u8>> = (0..1 + round % 3).map(|_| value()).collect();
        let scrubber = scrubber(&values.iter().map(Vec::as_slice).collect::<Vec<_>>());
        let text = word(60);
        let mut cuts: Vec<usize> = (0..below(6)).map(|_| below(text.len() as u64 + 1) as usize).collect();
        cuts.sort_unstable();
        let wanted = plainly(&scrubber, &text);
        let mut whole = text.clone();
        scrubber.mask_in_place(&mut whole);
        assert_eq!(whole, wanted, "{values:?} in {text:?}");
        assert_eq!(streamed(&scrubber, &text, cuts.clone()), wanted, "{values:?} in {text:?} cut at {cuts:?}");
    }
}
