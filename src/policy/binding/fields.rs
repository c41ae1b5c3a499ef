//! The fields of a binding as they are written, each checked by itself.

use std::borrow::Cow;

use http::{HeaderName, HeaderValue};

use crate::types::Authority;

use super::super::network::parse_entry;
use super::super::path;
use super::placement::same_header;
use super::{BasicUser, Binding, BindingError, Placement, SignedScope};

/// A field of a [`Binding`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::policy) enum Field {
    Host,
    Header,
    Parameter,
    Cookie,
    User,
    UserSecret,
    Certificate,
    AccessKeyId,
    SessionToken,
    Region,
    Service,
    SecretName,
    PathPrefix,
    Prefix,
    Suffix,
}

/// A kind of [`Binding`] by what is written of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::policy) enum Kind {
    Header,
    QueryParameter,
    Basic,
    Cookie,
    PathSegment,
    ClientCertificate,
    AwsSigv4,
}

impl Field {
    /// Its key in a policy file.
    pub(in crate::policy) fn key(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Header => "header",
            Self::Parameter => "parameter",
            Self::Cookie => "cookie",
            Self::User => "user",
            Self::UserSecret => "user_secret",
            Self::Certificate => "certificate",
            Self::AccessKeyId => "access_key_id",
            Self::SessionToken => "session_token",
            Self::Region => "region",
            Self::Service => "service",
            Self::SecretName => "secret_name",
            Self::PathPrefix => "path_prefix",
            Self::Prefix => "prefix",
            Self::Suffix => "suffix",
        }
    }

    /// Whether its text may be empty.
    pub(in crate::policy) fn may_be_empty(self) -> bool {
        match self {
            Self::User | Self::Prefix | Self::Suffix => true,
            Self::Host
            | Self::Header
            | Self::Parameter
            | Self::Cookie
            | Self::UserSecret
            | Self::Certificate
            | Self::AccessKeyId
            | Self::SessionToken
            | Self::Region
            | Self::Service
            | Self::SecretName
            | Self::PathPrefix => false,
        }
    }
}

impl Kind {
    pub(in crate::policy) const ALL: [Self; 7] = [
        Self::Header,
        Self::QueryParameter,
        Self::Basic,
        Self::Cookie,
        Self::PathSegment,
        Self::ClientCertificate,
        Self::AwsSigv4,
    ];

    /// Its name in a policy file.
    pub(in crate::policy) fn name(self) -> &'static str {
        match self {
            Self::Header => "header_binding",
            Self::QueryParameter => "query_parameter",
            Self::Basic => "basic",
            Self::Cookie => "cookie",
            Self::PathSegment => "path_segment",
            Self::ClientCertificate => "client_certificate",
            Self::AwsSigv4 => "aws_sigv4",
        }
    }

    /// The fields that it must have.
    pub(in crate::policy) fn required(self) -> &'static [Field] {
        match self {
            Self::Header => &[Field::Host, Field::Header, Field::SecretName],
            Self::QueryParameter => &[Field::Host, Field::Parameter, Field::SecretName],
            Self::Cookie => &[Field::Host, Field::Cookie, Field::SecretName],
            Self::Basic | Self::PathSegment => &[Field::Host, Field::SecretName],
            Self::ClientCertificate => &[Field::Host, Field::Certificate, Field::SecretName],
            Self::AwsSigv4 => &[Field::Host, Field::AccessKeyId, Field::SecretName],
        }
    }

    /// The fields that it may have besides.
    pub(in crate::policy) fn optional(self) -> &'static [Field] {
        match self {
            Self::Header | Self::PathSegment => &[Field::PathPrefix, Field::Prefix, Field::Suffix],
            Self::QueryParameter | Self::Cookie => &[Field::PathPrefix],
            Self::Basic => &[Field::PathPrefix, Field::User, Field::UserSecret],
            Self::AwsSigv4 => &[Field::PathPrefix, Field::SessionToken, Field::Region, Field::Service],
            // A connection is for every path.
            Self::ClientCertificate => &[],
        }
    }
}

impl Binding {
    /// Makes one of all its fields by name, and reports each that is wrong. A required field that is missing makes none
    /// and is the caller's to report.
    pub(in crate::policy) fn from_fields<'a>(
        kind: Kind,
        field: impl Fn(Field) -> Option<&'a str>,
        mut report: impl FnMut(Field, BindingError),
    ) -> Option<Self> {
        let mut errors = Vec::new();
        let host = check(field(Field::Host), parse_host, Field::Host, &mut errors);
        let secret = check(field(Field::SecretName), parse_secret_name, Field::SecretName, &mut errors);
        let path = field(Field::PathPrefix).or(Some("/"));
        let path_prefix = check(path, parse_path_prefix, Field::PathPrefix, &mut errors);
        let placement = placement(kind, &field, &mut errors);
        errors.into_iter().for_each(|(field, error)| report(field, error));
        Some(Self { path_prefix: path_prefix?, ..Self::of_parts(host?, secret?, placement?) })
    }
}

type Errors = Vec<(Field, BindingError)>;

fn placement<'a>(kind: Kind, field: &impl Fn(Field) -> Option<&'a str>, errors: &mut Errors) -> Option<Placement> {
    let affix = |which| field(which).or(Some(""));
    match kind {
        Kind::Header => {
            let name = check(field(Field::Header), parse_header, Field::Header, errors);
            let prefix = check(affix(Field::Prefix), parse_prefix, Field::Prefix, errors);
            let suffix = check(affix(Field::Suffix), parse_suffix, Field::Suffix, errors);
            Some(Placement::Header { name: name?, prefix: prefix?, suffix: suffix? })
        }
        Kind::QueryParameter => {
            let name = check(field(Field::Parameter), parse_parameter, Field::Parameter, errors)?;
            Some(Placement::QueryParameter { name })
        }
        Kind::Cookie => {
            let name = check(field(Field::Cookie), parse_cookie, Field::Cookie, errors)?;
            Some(Placement::Cookie { name })
        }
        Kind::Basic => {
            let plain = check(field(Field::User), parse_user, Field::User, errors).map(BasicUser::Plain);
            let secret = check(field(Field::UserSecret), parse_secret_name, Field::UserSecret, errors);
            let user = plain.or(secret.map(BasicUser::Secret))?;
            Some(Placement::Basic { user })
        }
        Kind::ClientCertificate => {
            let certificate = check(field(Field::Certificate), parse_secret_name, Field::Certificate, errors)?;
            Some(Placement::ClientCertificate { certificate })
        }
        Kind::AwsSigv4 => aws(field, errors),
        Kind::PathSegment => {
            let prefix = check(affix(Field::Prefix), parse_segment, Field::Prefix, errors);
            let suffix = check(affix(Field::Suffix), parse_segment, Field::Suffix, errors);
            Some(Placement::PathSegment { prefix: prefix?, suffix: suffix? })
        }
    }
}

fn aws<'a>(field: &impl Fn(Field) -> Option<&'a str>, errors: &mut Errors) -> Option<Placement> {
    let access_key_id = check(field(Field::AccessKeyId), parse_secret_name, Field::AccessKeyId, errors);
    let mut given = |which, parse: fn(&str) -> Result<String, BindingError>| {
        let text = field(which);
        let checked = check(text, parse, which, errors);
        (text.is_some() == checked.is_some()).then_some(checked)
    };
    let session_token = given(Field::SessionToken, parse_secret_name);
    let region = given(Field::Region, parse_scope);
    let service = given(Field::Service, parse_scope);
    let scope = SignedScope { region: region?, service: service? };
    Some(Placement::AwsSigv4 { access_key_id: access_key_id?, session_token: session_token?, scope })
}

fn check<T>(
    text: Option<&str>,
    parse: impl Fn(&str) -> Result<T, BindingError>,
    field: Field,
    errors: &mut Errors,
) -> Option<T> {
    text.and_then(|text| parse(text).map_err(|error| errors.push((field, error))).ok())
}

pub(in crate::policy) fn parse_host(text: &str) -> Result<Authority, BindingError> {
    parse_entry(text).map_err(BindingError::Host)
}

/// Checks the name of a secret.
///
/// # Errors
/// [`BindingError::SecretName`].
pub(in crate::policy) fn parse_secret_name(text: &str) -> Result<String, BindingError> {
    let legal = text.bytes().all(is_secret_char) && (1..=256).contains(&text.len());
    if legal { Ok(text.to_owned()) } else { Err(BindingError::SecretName) }
}

fn is_secret_char(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')
}

pub(super) fn parse_header(text: &str) -> Result<HeaderName, BindingError> {
    let name = HeaderName::from_bytes(text.as_bytes()).map_err(|_| BindingError::HeaderName)?;
    let reserved = RESERVED.iter().any(|reserved| same_header(reserved, name.as_str()))
        || name.as_str().replace('_', "-").starts_with("x-sandbox-proxy-");
    if reserved { Err(BindingError::HeaderReserved(text.to_owned())) } else { Ok(name) }
}

/// Hop-by-hop (RFC 9110 section 7.6.1), the authority, and what frames a message.
pub(super) const RESERVED: [&str; 14] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "http2-settings",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "content-encoding",
];

pub(super) fn parse_path_prefix(text: &str) -> Result<String, BindingError> {
    if !text.starts_with('/') {
        return Err(BindingError::PathStart);
    }
    if text.contains("//") {
        return Err(BindingError::PathAmbiguous("a repeated slash"));
    }
    path::canonical(text).map(Cow::into_owned).map_err(BindingError::PathAmbiguous)
}

pub(super) fn parse_prefix(text: &str) -> Result<String, BindingError> {
    if text.starts_with([' ', '\t']) { Err(BindingError::AffixPadding) } else { parse_affix(text) }
}

pub(super) fn parse_suffix(text: &str) -> Result<String, BindingError> {
    if text.ends_with([' ', '\t']) { Err(BindingError::AffixPadding) } else { parse_affix(text) }
}

fn parse_affix(text: &str) -> Result<String, BindingError> {
    match HeaderValue::from_bytes(text.as_bytes()) {
        Ok(_) => Ok(text.to_owned()),
        Err(_) => Err(BindingError::AffixControl),
    }
}

fn parse_parameter(text: &str) -> Result<String, BindingError> {
    let legal = (1..=256).contains(&text.chars().count())
        && !text.starts_with(char::is_whitespace)
        && !text.chars().any(char::is_control);
    if legal { Ok(text.to_owned()) } else { Err(BindingError::Parameter) }
}

fn parse_cookie(text: &str) -> Result<String, BindingError> {
    // The token of RFC 6265 is that of a header's name, which folds capitals, though, so the text is kept.
    match HeaderName::from_bytes(text.as_bytes()) {
        Ok(_) if text.len() <= 256 => Ok(text.to_owned()),
        Ok(_) | Err(_) => Err(BindingError::CookieName),
    }
}

fn parse_user(text: &str) -> Result<String, BindingError> {
    let legal = !text.contains(':') && !text.chars().any(char::is_control);
    if legal { Ok(text.to_owned()) } else { Err(BindingError::User) }
}

/// The name of a region or a service.
fn parse_scope(text: &str) -> Result<String, BindingError> {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_' | b'.');
    if (1..=64).contains(&text.len()) && text.bytes().all(is_plain) {
        Ok(text.to_owned())
    } else {
        Err(BindingError::Scope)
    }
}

/// Characters of a segment that need no escape (`pchar` of RFC 3986), but for `;`, at which some servers cut it.
fn parse_segment(text: &str) -> Result<String, BindingError> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,=:@".contains(&byte);
    if text.bytes().all(is_plain) { Ok(text.to_owned()) } else { Err(BindingError::Segment) }
}
