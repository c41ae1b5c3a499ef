//! The strictest reader of HTTP/1 requests (RFC 9112): it takes what is well-formed beyond doubt, and nothing else.

/// One request, whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Strict {
    pub method: String,
    pub target: String,
    /// Names in lower case.
    pub fields: Vec<(String, String)>,
    pub body: Vec<u8>,
    pub trailers: Vec<(String, String)>,
}

impl Strict {
    /// The values of a field.
    pub fn field(&self, name: &str) -> Vec<&str> {
        self.fields.iter().filter(|(key, _)| key == name).map(|(_, value)| value.as_str()).collect()
    }
}

/// The first request in `bytes` and its length; nothing where its end has not come.
///
/// # Errors
/// What is odd about it.
pub fn read(bytes: &[u8]) -> Result<Option<(Strict, usize)>, String> {
    let mut rest = bytes;
    let Some(head) = until_empty_line(&mut rest) else { return Ok(None) };
    let (request_line, lines) = head.split_once("\r\n").ok_or("a head of one line")?;
    let [method, target, "HTTP/1.1"] = request_line.split(' ').collect::<Vec<_>>()[..] else {
        return Err(format!("the request line {request_line:?}"));
    };
    let plain = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic());
    if !plain(target) || !method.bytes().all(is_token) || method.is_empty() {
        return Err(format!("the request line {request_line:?}"));
    }
    let fields = fields(lines)?;
    let values = |name: &str| fields.iter().filter(|(key, _)| key == name).map(|(_, v)| v.clone()).collect::<Vec<_>>();
    if values("host").len() != 1 {
        return Err(format!("the hosts {:?}", values("host")));
    }
    let (body, trailers) = match (&values("content-length")[..], &values("transfer-encoding")[..]) {
        ([], []) => (Vec::new(), Vec::new()),
        ([length], []) if length.bytes().all(|b| b.is_ascii_digit()) => {
            let length = length.parse().map_err(|_| format!("the length {length:?}"))?;
            let Some((body, behind)) = rest.split_at_checked(length) else { return Ok(None) };
            rest = behind;
            (body.to_vec(), Vec::new())
        }
        ([], [encoding]) if encoding == "chunked" => match chunks(&mut rest)? {
            Some(read) => read,
            None => return Ok(None),
        },
        other => return Err(format!("the framing {other:?}")),
    };
    let request = Strict { method: method.into(), target: target.into(), fields, body, trailers };
    Ok(Some((request, bytes.len() - rest.len())))
}

/// Every request of a connection, and whether its last one was cut off.
///
/// # Errors
/// What is odd about one of them.
pub fn read_all(mut bytes: &[u8]) -> Result<(Vec<Strict>, bool), String> {
    let mut requests = Vec::new();
    while !bytes.is_empty() {
        let Some((request, length)) = read(bytes)? else { return Ok((requests, true)) };
        requests.push(request);
        bytes = &bytes[length..];
    }
    Ok((requests, false))
}

/// As Latin-1, so that every byte is a character.
fn until_empty_line(rest: &mut &[u8]) -> Option<String> {
    let end = rest.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = rest[..end].iter().copied().map(char::from).collect();
    *rest = &rest[end + 4..];
    Some(head)
}

fn fields(lines: &str) -> Result<Vec<(String, String)>, String> {
    let field = |line: &str| {
        let (name, value) = line.split_once(':').filter(|(name, _)| !name.is_empty() && name.bytes().all(is_token))?;
        let value = value.trim_matches([' ', '\t']);
        let fine = value.chars().all(|c| c == '\t' || !c.is_control());
        fine.then(|| (name.to_ascii_lowercase(), value.to_owned()))
    };
    lines.split("\r\n").map(|line| field(line).ok_or_else(|| format!("the line {line:?}"))).collect()
}

type Chunked = (Vec<u8>, Vec<(String, String)>);

fn chunks(rest: &mut &[u8]) -> Result<Option<Chunked>, String> {
    let mut body = Vec::new();
    loop {
        let Some(line) = line(rest) else { return Ok(None) };
        let digits = line.iter().all(u8::is_ascii_hexdigit).then(|| String::from_utf8_lossy(line).into_owned());
        let size = digits.and_then(|digits| usize::from_str_radix(&digits, 16).ok());
        let Some(size) = size else { return Err(format!("the chunk size {:?}", String::from_utf8_lossy(line))) };
        if size == 0 {
            break;
        }
        let Some((data, behind)) = rest.split_at_checked(size + 2) else { return Ok(None) };
        body.extend_from_slice(data.strip_suffix(b"\r\n").ok_or("a chunk without its end")?);
        *rest = behind;
    }
    let mut trailers = Vec::new();
    loop {
        let Some(line) = line(rest) else { return Ok(None) };
        if line.is_empty() {
            return Ok(Some((body, trailers)));
        }
        trailers.extend(fields(&String::from_utf8_lossy(line))?);
    }
}

fn line<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let end = rest.windows(2).position(|window| window == b"\r\n")?;
    let line = &rest[..end];
    *rest = &rest[end + 2..];
    Some(line)
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}
