//! What the sandbox holds in place of a credential: shaped like the real thing, worthless anywhere else.

use std::fmt;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use base64::Engine;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use http::HeaderMap;
use http::header::{HeaderName, HeaderValue};
use memchr::memmem;
use serde_json::{Value, json};
use zeroize::Zeroizing;

use crate::types::Secret;

/// What tokens begin with so that tools know them by it. It is in their documentation, so it tells nothing of the value.
const PREFIXES: [&str; 32] = [
    "AIza",
    "AKIA",
    "ASIA",
    "SG.",
    "dckr_pat_",
    "dop_v1_",
    "ghp_",
    "gho_",
    "ghr_",
    "ghs_",
    "ghu_",
    "github_pat_",
    "glpat-",
    "gsk_",
    "hf_",
    "lin_api_",
    "npm_",
    "ntn_",
    "pypi-",
    "r8_",
    "rk_live_",
    "rk_test_",
    "shpat_",
    "sk-",
    "sk-ant-",
    "sk-ant-api03-",
    "sk-proj-",
    "sk_live_",
    "sk_test_",
    "xapp-",
    "xoxb-",
    "xoxp-",
];
/// An access key ID of AWS has 20 characters, which tools count. It says who signs and is no secret, so the 82 bits of the rest do.
const ACCESS_KEYS: [&str; 2] = ["AKIA", "ASIA"];
const ACCESS_KEY_REST: usize = 16;
/// The least randomness in a placeholder, in bits.
const BITS: f64 = 128.0;
/// When a placeholder in the form of a JWT says that it ends: 2100-01-01, since it is good as long as the sandbox is.
const JWT_END: u64 = 4_102_444_800;

/// The stand-in for one secret, in one variable of one sandbox.
#[derive(Clone)]
pub struct Placeholder {
    secret: String,
    variable: String,
    value: String,
}

/// Random bytes could not be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the system gives no random bytes")]
pub struct NoRandomness;

impl Placeholder {
    /// A fresh stand-in that has the form of `secret` and is to be the value of `variable`: a known prefix, length, kinds of
    /// characters and separators stay, a JWT stays one; all else is random, 128 bits of it at least.
    ///
    /// # Errors
    /// [`NoRandomness`].
    pub fn of(secret: &Secret, variable: &str) -> Result<Self, NoRandomness> {
        let real = String::from_utf8_lossy(secret.expose());
        let value = match like_jwt(&real) {
            Some(jwt) => jwt?,
            None => like_token(&real)?,
        };
        Ok(Self { secret: secret.name().to_owned(), variable: variable.to_owned(), value })
    }

    /// A fresh stand-in for a token of GitHub, whatever the token's own form: `ghs_` and 36 letters and digits, as an App's token
    /// had before it got dots, by which some clients take it for a JWT. Its checksum is wrong, so that nobody who searches for
    /// leaked tokens takes it for one.
    ///
    /// # Errors
    /// [`NoRandomness`].
    pub fn github(secret: &str, variable: &str) -> Result<Self, NoRandomness> {
        Ok(Self { secret: secret.to_owned(), variable: variable.to_owned(), value: like_github()? })
    }

    /// The name of the secret it stands for.
    pub fn secret(&self) -> &str {
        &self.secret
    }

    /// The variable that holds it inside.
    pub fn variable(&self) -> &str {
        &self.variable
    }

    /// The text itself.
    pub fn value(&self) -> &str {
        &self.value
    }

    /// Whether a text is the placeholder and nothing else.
    pub fn is(&self, text: &[u8]) -> bool {
        verify_slices_are_equal(self.value.as_bytes(), text).is_ok()
    }

    /// Whether it stands anywhere in a header's value, also in what is encoded there as Basic has it.
    fn is_in(&self, value: &HeaderValue) -> bool {
        let stands_in = |text: &[u8]| memmem::find(text, self.value.as_bytes()).is_some();
        stands_in(value.as_bytes()) || basic(value).is_some_and(|pair| stands_in(&pair))
    }

    /// The client's Basic credentials with the real value where the placeholder is all of the user or of the password.
    pub fn swapped_in_basic(&self, sent: &HeaderValue, real: &Secret) -> Option<Zeroizing<Vec<u8>>> {
        let pair = basic(sent)?;
        let colon = pair.iter().position(|byte| *byte == b':')?;
        let (user, password) = (&pair[..colon], &pair[colon + 1..]);
        let parts: [&[u8]; 3] = match (self.is(user), self.is(password)) {
            (false, false) => return None,
            (true, false) => [real.expose(), b":", password],
            (false, true) => [user, b":", real.expose()],
            (true, true) => [real.expose(), b":", real.expose()],
        };
        // Of its final size from the start: growing would leave copies behind.
        let mut plain = Zeroizing::new(Vec::with_capacity(parts.iter().map(|part| part.len()).sum()));
        parts.iter().for_each(|part| plain.extend_from_slice(part));
        Some(plain)
    }
}

impl fmt::Debug for Placeholder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Placeholder").field("secret", &self.secret).field("variable", &self.variable).finish()
    }
}

/// The first header in which one of the placeholders stands.
pub fn misplaced<'a>(placeholders: &'a [Placeholder], headers: &HeaderMap) -> Option<(&'a Placeholder, HeaderName)> {
    if placeholders.is_empty() {
        return None;
    }
    headers.iter().find_map(|(name, value)| {
        placeholders.iter().find(|placeholder| placeholder.is_in(value)).map(|placeholder| (placeholder, name.clone()))
    })
}

/// User and password of Basic credentials (RFC 7617), decoded.
fn basic(value: &HeaderValue) -> Option<Zeroizing<Vec<u8>>> {
    const SCHEME: &[u8] = b"Basic ";
    let bytes = value.as_bytes().trim_ascii();
    let (scheme, rest) = bytes.split_at_checked(SCHEME.len())?;
    let encoded = rest.trim_ascii();
    let plain = scheme.eq_ignore_ascii_case(SCHEME).then(|| BASE64_STANDARD.decode(encoded).ok()).flatten();
    plain.map(Zeroizing::new)
}

/// Three parts in base64url, of which the first is a JSON object with an `alg` (RFC 7519, RFC 7515).
fn like_jwt(real: &str) -> Option<Result<String, NoRandomness>> {
    let parts: Vec<&str> = real.split('.').collect();
    let [head, _, signature] = parts[..] else { return None };
    let head: Value = serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(head).ok()?).ok()?;
    let algorithm = head.get("alg")?.as_str()?;
    let signature = BASE64_URL_SAFE_NO_PAD.decode(signature).ok()?.len();
    Some(jwt(algorithm, signature))
}

fn jwt(algorithm: &str, signature: usize) -> Result<String, NoRandomness> {
    let encode = |bytes: &[u8]| BASE64_URL_SAFE_NO_PAD.encode(bytes);
    let head = json!({ "alg": algorithm, "typ": "JWT" }).to_string();
    let number = text(&['0'..='9', 'a'..='f'].map(Iterator::collect::<String>).concat(), 32)?;
    let claims = json!({ "iss": "sandbox-proxy", "sub": "placeholder", "jti": number, "exp": JWT_END }).to_string();
    Ok(format!("{}.{}.{}", encode(head.as_bytes()), encode(claims.as_bytes()), encode(&random(signature)?)))
}

/// Which kinds of characters there are is kept, and where the separators stand. Which of them stands where would tell something
/// of the value.
fn like_token(real: &str) -> Result<String, NoRandomness> {
    let prefix = PREFIXES.iter().filter(|prefix| real.starts_with(**prefix)).max_by_key(|prefix| prefix.len());
    let prefix = prefix.copied().unwrap_or_default();
    let rest = &real[prefix.len()..];
    let alphabet = alphabet(rest);
    let is_separator = |c: char| matches!(c, '-' | '_' | '.');
    let separators = rest.chars().filter(|c| is_separator(*c)).count();
    let least = (BITS / (alphabet.len() as f64).log2()).ceil() as usize;
    let length = rest.chars().count();
    let is_key_id = ACCESS_KEYS.contains(&prefix) && length == ACCESS_KEY_REST;
    let least = if is_key_id { length } else { least };
    let missing = least.saturating_sub(length - separators);
    let drawn = text(&alphabet, length - separators + missing)?;
    let mut drawn = drawn.chars();
    let mut value = String::from(prefix);
    value.extend(rest.chars().filter_map(|c| if is_separator(c) { Some(c) } else { drawn.next() }));
    value.extend(drawn);
    Ok(value)
}

/// Drawn again where the last 6 characters are the checksum of the others, which one in 2^32 is.
fn like_github() -> Result<String, NoRandomness> {
    let alphabet: String = ('0'..='9').chain('A'..='Z').chain('a'..='z').collect();
    loop {
        let value = format!("ghs_{}", text(&alphabet, 36)?);
        if !has_checksum(&value) {
            return Ok(value);
        }
    }
}

/// Whether a token of GitHub ends in the CRC-32 of what is before it, with or without its prefix, in base 62. In which order the
/// 62 characters count is not documented, so both usual ones do.
fn has_checksum(token: &str) -> bool {
    const LENGTH: usize = 6;
    let Some((before, checksum)) = token.split_at_checked(token.len().saturating_sub(LENGTH)) else { return false };
    let orders = [('A'..='Z').chain('a'..='z'), ('a'..='z').chain('A'..='Z')];
    let orders = orders.map(|letters| ('0'..='9').chain(letters).collect::<Vec<char>>());
    [before, before.get(4..).unwrap_or_default()].iter().any(|text| {
        let sum = u64::from(crc32(text.as_bytes()));
        orders.iter().any(|order| {
            let digit = |place: usize| order[(sum / 62_u64.pow((LENGTH - 1 - place) as u32) % 62) as usize];
            checksum.chars().eq((0..LENGTH).map(digit))
        })
    })
}

/// As in ISO 3309.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |sum: u32, _| if sum & 1 == 1 { (sum >> 1) ^ 0xedb8_8320 } else { sum >> 1 };
    !bytes.iter().fold(!0, |sum, byte| (0..8).fold(sum ^ u32::from(*byte), step))
}

/// Hexadecimal digits where there is nothing else, else letters and digits of the cases that there are.
fn alphabet(text: &str) -> String {
    let letters = || text.chars().filter(|c| c.is_ascii_alphabetic());
    let (lower, upper) = (letters().any(|c| c.is_ascii_lowercase()), letters().any(|c| c.is_ascii_uppercase()));
    let is_hex = lower != upper && letters().all(|c| c.is_ascii_hexdigit());
    let last = if is_hex { 'f' } else { 'z' };
    let mut alphabet: String = ('0'..='9').collect();
    if lower {
        alphabet.extend('a'..=last);
    }
    if upper {
        alphabet.extend('A'..=last.to_ascii_uppercase());
    }
    alphabet
}

/// So many characters of an alphabet of at most 128, each as likely as the others.
fn text(alphabet: &str, length: usize) -> Result<String, NoRandomness> {
    let size = alphabet.len();
    // Beyond the last whole multiple some would be likelier.
    let usable = 256 - 256 % size;
    let mut text = String::with_capacity(length);
    while text.len() < length {
        let bytes = random(length)?;
        let drawn = bytes.iter().map(|byte| usize::from(*byte)).filter(|byte| *byte < usable);
        text.extend(drawn.map(|byte| char::from(alphabet.as_bytes()[byte % size])));
    }
    text.truncate(length);
    Ok(text)
}

fn random(length: usize) -> Result<Vec<u8>, NoRandomness> {
    let mut bytes = vec![0; length];
    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| NoRandomness)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(value: &str) -> Secret {
        Secret::new("K", Zeroizing::new(value.as_bytes().to_vec())).unwrap()
    }

    fn placeholder(value: &str) -> Placeholder {
        Placeholder::of(&secret(value), "KEY").unwrap()
    }

    /// Whether a text has a form: `a` stands for a small letter or digit, `A` for any letter or digit, `h` for a hexadecimal
    /// digit; all else for itself.
    fn has_form(text: &str, form: &str) -> bool {
        let fits = |(c, kind): (char, char)| match kind {
            'a' => c.is_ascii_lowercase() || c.is_ascii_digit(),
            'A' => c.is_ascii_alphanumeric(),
            'h' => c.is_ascii_digit() || ('a'..='f').contains(&c),
            other => c == other,
        };
        text.len() == form.len() && text.chars().zip(form.chars()).all(fits)
    }

    macro_rules! forms {
        ($($test:ident: $real:expr => $prefix:literal, $form:expr;)*) => { $(
            #[test]
            fn $test() {
                let (real, form): (String, String) = ($real, $form);
                let (one, other) = (placeholder(&real), placeholder(&real));
                let rest = one.value().strip_prefix($prefix);
                assert!(rest.is_some_and(|rest| has_form(rest, &form)), "{}", one.value());
                assert_ne!(one.value(), other.value());
            }
        )* };
    }

    forms! {
        a_github_token: format!("ghp_{}", "x9Y".repeat(12)) => "ghp_", "A".repeat(36);
        the_longest_prefix_counts: format!("sk-ant-api03-{}", "zB3-".repeat(10)) => "sk-ant-api03-", "AAA-".repeat(10);
        an_access_key_stays_one: "ASIAIOSFODNN7EXAMPLE".to_owned() => "ASIA", "A".repeat(16);
        hexadecimal_stays_so: "0123456789abcdef".repeat(3) => "", "h".repeat(48);
        small_letters_stay_so: "zebra7".repeat(7) => "", "a".repeat(42);
        a_short_one_becomes_longer: "ab".to_owned() => "", "h".repeat(32);
        what_is_no_ascii_is_nothing_special: "gr\u{fc}n".repeat(10) => "", "a".repeat(40);
        separators_stay_where_they_are: format!("{}z", "1234-".repeat(8)) => "", format!("{}a", "aaaa-".repeat(8));
    }

    #[test]
    fn one_for_github_has_the_form_and_no_checksum() {
        let one = Placeholder::github("TOKEN", "GH_TOKEN").unwrap();
        assert_eq!((one.secret(), one.variable()), ("TOKEN", "GH_TOKEN"));
        let rest = one.value().strip_prefix("ghs_").unwrap();
        assert!(has_form(rest, &"A".repeat(36)) && !has_checksum(one.value()), "{rest}");
        assert_ne!(Placeholder::github("TOKEN", "GH_TOKEN").unwrap().value(), one.value());
    }

    #[test]
    fn a_checksum_is_known_when_it_is_there() {
        // The check value of the CRC, and a token that was made by another implementation.
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert!(has_checksum("ghs_zQWBuTSOoRi4A9spHcVY5ncnsDkxkJ0mLq17"));
        assert!(!has_checksum("ghs_zQWBuTSOoRi4A9spHcVY5ncnsDkxkJ0mLq18"));
    }

    #[test]
    fn nothing_of_the_value_is_in_it() {
        let real = "Zq8".repeat(20);
        let value = placeholder(&real).value().to_owned();
        let same = value.chars().zip(real.chars()).filter(|(a, b)| a == b).count();
        // By chance one in 62 is.
        assert!(same < 20, "{same} of 60");
    }

    #[test]
    fn a_jwt_stays_one_and_does_not_end_soon() {
        let encode = |text: &str| BASE64_URL_SAFE_NO_PAD.encode(text);
        let real =
            format!("{}.{}.{}", encode(r#"{"alg":"RS256","kid":"7"}"#), encode(r#"{"sub":"me"}"#), encode("sign"));
        let value = placeholder(&real).value().to_owned();
        let parts: Vec<Vec<u8>> = value.split('.').map(|part| BASE64_URL_SAFE_NO_PAD.decode(part).unwrap()).collect();
        let [head, claims, signature] = &parts[..] else { panic!("{value}") };
        let claims: Value = serde_json::from_slice(claims).unwrap();
        assert_eq!(serde_json::from_slice::<Value>(head).unwrap(), json!({ "alg": "RS256", "typ": "JWT" }));
        assert_eq!((claims["sub"].as_str(), claims["jti"].as_str().map(str::len)), (Some("placeholder"), Some(32)));
        assert!(claims["exp"].as_u64() > Some(4_000_000_000) && signature.len() == 4);
        assert_ne!(placeholder(&real).value(), value);
    }

    fn encoded(pair: &str) -> HeaderValue {
        HeaderValue::from_str(&format!("basic {}", BASE64_STANDARD.encode(pair))).unwrap()
    }

    #[test]
    fn basic_is_swapped_where_it_stands_alone() {
        let (real, placeholder) = (secret("real"), placeholder("real"));
        let stand_in = placeholder.value();
        let swap = |pair: &str| {
            let swapped = placeholder.swapped_in_basic(&encoded(pair), &real)?;
            Some(String::from_utf8(swapped.to_vec()).unwrap())
        };
        assert_eq!(swap(&format!("x-access-token:{stand_in}")).as_deref(), Some("x-access-token:real"));
        assert_eq!(swap(&format!("{stand_in}:x:y")).as_deref(), Some("real:x:y"));
        assert_eq!(swap(&format!("u:x{stand_in}")), None);
        assert_eq!(swap(stand_in), None);
        assert_eq!(swap("u:p"), None);
    }

    #[test]
    fn it_is_found_in_any_header_also_encoded() {
        let all = [placeholder("one"), placeholder("two")];
        let second = all[1].value();
        let mut headers = HeaderMap::new();
        headers.insert("accept", "*/*".parse().unwrap());
        headers.insert("authorization", encoded("u:p"));
        assert!(misplaced(&all, &headers).is_none());
        headers.insert("x-debug", format!("<{second}>").parse().unwrap());
        assert!(
            misplaced(&all, &headers).is_some_and(|(found, name)| found.is(second.as_bytes()) && name == "x-debug")
        );
        headers.remove("x-debug");
        headers.insert("x-auth", encoded(&format!("u:{second}")));
        assert!(misplaced(&all, &headers).is_some_and(|(_, name)| name == "x-auth"));
    }
}
