//! Requests to GitHub's hosts: judged by their binding before any credential is put in, and their answers after it.
//!
//! What is asked for is decided by `policy::github`, which knows nothing of time and of the network; here is what it needs to know, and
//! the reading of bodies. Whatever cannot be read or looked up is refused.

mod answer;
mod graphql;
mod push;

use std::sync::Arc;

use bytes::Bytes;
use http::header::{
    ACCEPT_ENCODING, AUTHORIZATION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, COOKIE, EXPECT, FORWARDED,
    HeaderMap, HeaderName, HeaderValue,
};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};

use crate::credentials::{Placeholder, Records, placeholder};
use crate::policy::Policy;
use crate::policy::github::body::lfs_batch;
use crate::policy::github::credential::choose;
use crate::policy::github::forms::Asked;
use crate::policy::github::hosts::{CredentialForm, HostClass, class_of};
use crate::policy::github::local::LocalAnswer;
use crate::policy::github::route::{self, Action, Git, Route, Subject};
use crate::policy::github::scope::Scope;
use crate::policy::github::{Code, GitHubBinding, OutOfScope, RepoName};

use super::Connection;
use super::authorize::Permitted;
use super::body::ProxyBody;
use super::headers;
use super::held::Held;
use super::refusal::Refusal;
use crate::sandboxes::InForce;

pub use answer::AnswerPlan;

/// The longest body that is read whole, in bytes.
const BODY_MAX: usize = 4 * 1024 * 1024;

/// Never sent to GitHub: what would change a request's meaning there, or who it is from.
const NOT_SENT: [HeaderName; 9] = [
    COOKIE,
    FORWARDED,
    HeaderName::from_static("x-http-method-override"),
    HeaderName::from_static("x-method-override"),
    HeaderName::from_static("x-http-method"),
    HeaderName::from_static("x-github-otp"),
    HeaderName::from_static("x-gh-cache-ttl"),
    HeaderName::from_static("x-sandbox-proxy-token"),
    HeaderName::from_static("sudo"),
];

/// A permitted request whose content has been judged, where a GitHub binding judges its host. `inject` takes nothing else, and nobody
/// else can make one.
///
/// ```compile_fail,E0451
/// use sandbox_proxy::proxy::github::Scoped;
///
/// let forged = Scoped { request: (), bindings: Vec::new() };
/// ```
#[derive(Debug)]
pub struct Scoped<R> {
    request: R,
    bindings: Vec<usize>,
}

/// What comes of a request.
pub enum Outcome {
    /// It goes on; the plan is for what a GitHub binding judges.
    Pass(Scoped<Request<Held>>, Option<Box<AnswerPlan>>),
    /// It is answered here, and nobody is asked.
    Here(Response<ProxyBody>),
}

impl<R> Scoped<R> {
    /// What is asked for.
    pub fn request(&self) -> &R {
        &self.request
    }

    /// The bindings that apply, as indexes into the policy's.
    pub fn bindings(&self) -> &[usize] {
        &self.bindings
    }

    /// Ends it: the request and its bindings. `inject` builds on them.
    pub fn into_parts(self) -> (R, Vec<usize>) {
        (self.request, self.bindings)
    }
}

/// Judges a request, where a GitHub binding is for its destination; all others pass as they are.
///
/// # Errors
/// [`Refusal::OutOfScope`], in a form that the client shows, and [`Refusal::Malformed`].
pub async fn scope(
    connection: &Connection,
    in_force: &InForce,
    permitted: Permitted<Request<Held>>,
) -> Result<Outcome, Refusal> {
    let Some((index, binding)) = in_force.policy.github(&connection.destination) else {
        let (request, bindings) = permitted.into_parts();
        return Ok(Outcome::Pass(Scoped { request, bindings }, None));
    };
    let (request, bindings) = permitted.into_parts();
    let (head, body) = request.into_parts();
    let host = connection.destination.authority.host.to_string();
    let asked = asked(binding.scope(), &host, head.uri.path());
    let refuse = |denial: OutOfScope| Refusal::out_of_scope(denial, asked);
    let records = in_force.records(index);
    let records =
        records.ok_or_else(|| refuse(OutOfScope::new(Code::Unresolved, "there are no records of the binding")))?;
    records.refresh().await;
    let placeholders = in_force.injector.placeholders();
    let judge = Judge { policy: &in_force.policy, binding, records, placeholders, host, asked };
    // Boxed: a request that is for nobody's GitHub would have room for this in its future, too.
    Box::pin(judge.judge(head, body, &bindings)).await
}

/// One request's judge.
struct Judge<'a> {
    policy: &'a Policy,
    binding: &'a GitHubBinding,
    records: &'a Arc<Records>,
    placeholders: &'a [Placeholder],
    host: String,
    asked: Asked,
}

/// Who asks, by where: each shows a refusal in another form.
fn asked(scope: &Scope, host: &str, path: &str) -> Asked {
    let is_lfs = path.contains("/info/lfs/");
    match class_of(scope, host) {
        Some(HostClass::Web) if path.starts_with("/api/graphql") => Asked::Graphql,
        Some(HostClass::Web) if path.starts_with("/api/") => Asked::Rest,
        Some(HostClass::Web) if is_lfs => Asked::Lfs,
        Some(HostClass::Api) if path.starts_with("/graphql") => Asked::Graphql,
        Some(HostClass::Api | HostClass::Uploads) => Asked::Rest,
        Some(
            HostClass::Web
            | HostClass::Raw
            | HostClass::Codeload
            | HostClass::Media
            | HostClass::Maven
            | HostClass::Storage
            | HostClass::Closed,
        )
        | None => Asked::Git,
    }
}

impl Judge<'_> {
    async fn judge(&self, mut head: Parts, mut body: Held, bindings: &[usize]) -> Result<Outcome, Refusal> {
        if headers::websocket_upgrade(&head.headers) {
            let what = "no WebSocket is opened to GitHub from this sandbox";
            return Err(self.refuse(OutOfScope::new(Code::NotAllowed, what)));
        }
        clean(&mut head.headers);
        if let Some(name) = unclear(&head.headers) {
            return Err(self.malformed(&format!("send one {name}, in ASCII")));
        }
        let target = head.uri.path_and_query().map_or("/", |target| target.as_str()).to_owned();
        let route = self.route(&head, &body, &target).map_err(|denial| self.refuse(denial))?;
        let owner = self.binding.credential().owner_of(route.names()).map_err(|denial| self.refuse(denial))?;
        let mut owner = owner.map(str::to_owned);
        let mut plan = AnswerPlan::new(self.records, self.binding, self.asked);
        plan.reads(&route, &head.headers);
        match &route.action {
            Action::Forward | Action::Git(Git::AdvertiseFetch | Git::AdvertisePush | Git::Fetch) => {}
            Action::Capability => {
                self.capability(&target, head.method.as_str())?;
                // What LFS says of its storage may hold an authorization of its own, which stays. The stand-in is none.
                if placeholder::misplaced(self.placeholders, &head.headers).is_some_and(|(_, at)| at == AUTHORIZATION) {
                    head.headers.remove(AUTHORIZATION);
                }
            }
            Action::Local(answer) => return Ok(Outcome::Here(self.answer_here(*answer, &head.method))),
            Action::Body(check) => {
                let bytes = self.read_whole(&mut head.headers, &mut body).await?;
                let changes = check.check(bytes, &**self.records).map_err(|denial| self.refuse(denial))?;
                if check.may_be_form() && !bytes.is_empty() {
                    // It is JSON, and nobody is to read it as a form: curl says so of everything.
                    head.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
                }
                if !changes.is_empty() {
                    self.changes(self.name_of(&route)?, &changes).await?;
                }
            }
            Action::LfsBatch => {
                let bytes = self.read_whole(&mut head.headers, &mut body).await?;
                lfs_batch(self.binding.scope(), route.wiki, bytes).map_err(|denial| self.refuse(denial))?;
            }
            Action::Graphql => {
                let read = self.graphql(&mut head.headers, &mut body).await?;
                owner = read.owner;
                plan.learns(read.learn);
            }
            Action::Git(Git::Push) => self.receive_pack(self.name_of(&route)?, &mut head.headers, &mut body).await?,
        }
        if plan.is_read() {
            head.headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        }
        let bindings = self.credential(route.credential, owner.as_deref(), bindings)?;
        if route.credential == CredentialForm::None && !matches!(route.action, Action::Capability) {
            head.headers.remove(AUTHORIZATION);
        }
        plan.keep(&head, &body, &bindings);
        let request = Request::from_parts(head, body);
        Ok(Outcome::Pass(Scoped { request, bindings }, Some(Box::new(plan))))
    }

    fn refuse(&self, denial: OutOfScope) -> Refusal {
        Refusal::out_of_scope(denial, self.asked)
    }

    fn route(&self, head: &Parts, body: &Held, target: &str) -> Result<Route, OutOfScope> {
        let request = route::Request {
            host: &self.host,
            method: head.method.as_str(),
            target,
            content_type: head.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()),
            body: !http_body::Body::is_end_stream(body),
        };
        route::judge(self.binding.scope(), &**self.records, &request)
    }

    /// The name of the repository whose refs a request changes.
    fn name_of<'r>(&self, route: &'r Route) -> Result<&'r RepoName, Refusal> {
        let name = route.repository.as_ref().and_then(Subject::name);
        name.ok_or_else(|| self.malformed("name the repository as owner/repository"))
    }

    fn capability(&self, target: &str, method: &str) -> Result<(), Refusal> {
        if self.records.is_capability(&self.host, target, method) {
            return Ok(());
        }
        let what = "no answer to this sandbox has named this URL: ask the API for it again";
        Err(self.refuse(OutOfScope::new(Code::UnknownCapability, what)))
    }

    /// Of the permitted bindings, the one that puts the credential in as this host wants it, for this owner's repositories.
    fn credential(&self, form: CredentialForm, owner: Option<&str>, bindings: &[usize]) -> Result<Vec<usize>, Refusal> {
        let all = self.policy.bindings();
        // Others may be for other places of the request.
        let others = bindings.iter().copied().filter(|&at| !all[at].is_for_github());
        if form == CredentialForm::None {
            return Ok(others.collect());
        }
        match choose(all, bindings, form, owner) {
            Some(ours) => Ok(others.chain([ours]).collect()),
            None => {
                let what = "no credential of the binding is for what this request asks for";
                Err(self.refuse(OutOfScope::new(Code::Unresolved, what)))
            }
        }
    }

    /// All of a body, in plain. What is checked is what goes on.
    async fn read_whole<'b>(&self, headers: &mut HeaderMap, body: &'b mut Held) -> Result<&'b Bytes, Refusal> {
        if headers.contains_key(CONTENT_ENCODING) {
            return Err(self.malformed("its body has a content coding; send it without"));
        }
        self.read(headers, body).await
    }

    /// All of a body as it came.
    async fn read<'b>(&self, headers: &mut HeaderMap, body: &'b mut Held) -> Result<&'b Bytes, Refusal> {
        headers.remove(EXPECT);
        // What is compressed may be as long as anything.
        let told = headers.get(CONTENT_LENGTH).filter(|_| !headers.contains_key(CONTENT_ENCODING));
        let told = told.and_then(|length| length.to_str().ok()?.parse().ok());
        let room = self.records.room_for_body(told.unwrap_or(BODY_MAX).min(BODY_MAX)).await;
        body.takes(room.map_err(|denial| self.refuse(denial))?);
        body.read(BODY_MAX + 1).await.map_err(|_| self.malformed("its body broke off"))?;
        if body.beginning().len() > BODY_MAX || !body.is_whole() {
            return Err(self.malformed("its body is longer than 4 MiB"));
        }
        Ok(body.beginning())
    }

    fn malformed(&self, what: &str) -> Refusal {
        self.refuse(OutOfScope::new(Code::Malformed, format!("this request cannot be judged: {what}")))
    }

    fn answer_here(&self, answer: LocalAnswer, method: &Method) -> Response<ProxyBody> {
        let known = self.records.repositories();
        let (status, body) = answer.make("app[bot]", known.iter().map(|repository| &**repository));
        let body = body.filter(|_| method != Method::HEAD);
        let mut response = Response::new(body.map_or_else(ProxyBody::empty, |body| ProxyBody::full(Bytes::from(body))));
        *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
        let json = HeaderValue::from_static("application/json; charset=utf-8");
        response.headers_mut().insert(CONTENT_TYPE, json);
        response
    }
}

/// Takes out what is not judged and could change what is: one hop's fields (`Connection` may name any other), those of [`NOT_SENT`],
/// `X-Forwarded-…`, and names with a `_`, which some servers take for the same with a `-`.
fn clean(headers: &mut HeaderMap) {
    headers::strip_hop_by_hop(headers);
    NOT_SENT.iter().for_each(|name| drop(headers.remove(name)));
    let is_other = |name: &&HeaderName| name.as_str().starts_with("x-forwarded-") || name.as_str().contains('_');
    let others: Vec<HeaderName> = headers.keys().filter(is_other).cloned().collect();
    others.iter().for_each(|name| drop(headers.remove(name)));
}

/// A header that decides how a body is read, and that two readers may read in two ways.
fn unclear(headers: &HeaderMap) -> Option<&'static str> {
    let is_unclear = |name: &HeaderName| {
        let mut values = headers.get_all(name).iter();
        values.next().is_some_and(|value| value.to_str().is_err()) || values.next().is_some()
    };
    let names = [(CONTENT_TYPE, "Content-Type"), (CONTENT_ENCODING, "Content-Encoding")];
    names.into_iter().find(|(name, _)| is_unclear(name)).map(|(_, shown)| shown)
}

/// Puts another body in place of one that was read.
fn replace_body(headers: &mut HeaderMap, body: &mut Held, bytes: Bytes) {
    headers.remove(CONTENT_ENCODING);
    headers.insert(CONTENT_LENGTH, HeaderValue::from(bytes.len()));
    body.replace(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        fields.iter().map(|&(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn what_could_change_the_judged_is_taken_out_first() {
        let mut headers = map(&[
            ("connection", "content-type, x-kept"),
            ("content-type", "application/x-www-form-urlencoded"),
            ("x-http-method-override", "DELETE"),
            ("x_http_method_override", "DELETE"),
            ("content_type", "application/json"),
            ("x-forwarded-host", "other.test"),
            ("sudo", "root"),
            ("accept", "*/*"),
        ]);
        clean(&mut headers);
        assert_eq!(headers, map(&[("accept", "*/*")]));
    }

    #[test]
    fn a_header_that_can_be_read_in_two_ways_is_unclear() {
        let json = ("content-type", "application/json");
        assert_eq!(unclear(&map(&[json, ("accept", "a"), ("content-encoding", "gzip")])), None);
        let mut two = map(&[json]);
        two.append(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
        assert_eq!(unclear(&two), Some("Content-Type"));
        let mut not_ascii = map(&[]);
        not_ascii.insert(CONTENT_TYPE, HeaderValue::from_bytes(b"application/json; x=\xff").unwrap());
        assert_eq!(unclear(&not_ascii), Some("Content-Type"));
        let mut coded = map(&[("content-encoding", "identity")]);
        coded.append(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        assert_eq!(unclear(&coded), Some("Content-Encoding"));
    }
}
