//! What a policy says to a question, and why: one value, of which `policy explain` makes its text and its JSON. Verdict, rule
//! and bindings come from the functions that enforce; the rest is why the others did not decide.

mod beside;

use serde::Serialize;

use crate::types::{Authority, Host, RequestFacts};

use super::Policy;
use super::binding::{Accepts, BasicUser, Binding, Placement};
use super::compile::Compiled;
use super::github::route::{Action, Git, Route, Subject};
use super::mistake::Place;
use super::question::{self, Question};
use super::rule::{Action as RuleAction, Rule, RuleState};
use super::verdict::{Denial, Grant, Permit};

use beside::{notes, other_bindings};

/// An answer with its reasons.
#[derive(Clone, Debug, Serialize)]
pub struct Explanation {
    /// The question, in canonical spelling.
    pub asked: String,
    /// The answer.
    pub verdict: Verdict,
    /// The code of a denial.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<&'static str>,
    /// The reason of a denial, as the sandbox reads it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What permits it, or the rule that denies it. None where nothing permits it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decided_by: Option<Decider>,
    /// The rules for the host that did not decide, in the order in which they are asked; at most 20.
    pub other_rules: Vec<OtherRule>,
    /// Rules for the host beyond these.
    pub more_rules: usize,
    /// Rules for other hosts.
    pub rules_for_other_hosts: usize,
    /// How a GitHub binding judges it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub github: Option<OnGitHub>,
    /// The credentials that are put in.
    pub bindings: Vec<Credential>,
    /// The bindings for the host that are not used.
    pub other_bindings: Vec<OtherBinding>,
    /// What a permitted connection goes through.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstream_proxy: Option<Through>,
    /// What would permit it, where something would.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cure: Option<String>,
    /// What else is to be known.
    pub notes: Vec<String>,
}

/// The answer of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It may pass.
    Permit,
    /// It may not.
    Deny,
}

/// What decided.
#[derive(Clone, Debug, Serialize)]
pub struct Decider {
    /// Its kind.
    pub kind: DeciderKind,
    /// The entry of `network.hosts` or `egress.allow_cidrs`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entry: Option<String>,
    /// Where it was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
}

/// What of a policy can decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DeciderKind {
    /// `network.mode`.
    NetworkAll,
    /// An entry of `network.hosts`.
    NetworkHost,
    /// The egress policy.
    Egress,
    /// A GitHub binding.
    #[serde(rename = "github")]
    GitHub,
    /// A rule.
    AllowRule,
    /// A rule.
    DenyRule,
}

/// What a GitHub binding says to the head of a request that it allows.
#[derive(Clone, Debug, Serialize)]
pub struct OnGitHub {
    /// The repository, where it is in one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repository: Option<String>,
    /// The row of the tables that allows it.
    pub row: &'static str,
    /// What has to be right besides, which only the request itself shows; may be empty.
    pub also: &'static str,
}

impl OnGitHub {
    fn of(route: &Route) -> Self {
        let also = match &route.action {
            Action::Forward | Action::Git(Git::AdvertiseFetch | Git::AdvertisePush | Git::Fetch) => "",
            Action::Body(_) => "its body, which is read",
            Action::Git(Git::Push) => "its commands, which are held to the push rules",
            Action::Graphql => "every field, argument and id of its document",
            Action::LfsBatch => "its operation",
            Action::Capability => "that an answer to the sandbox has named exactly this URL",
            Action::Local(_) => "nothing: it is answered here",
        };
        let repository = route.repository.as_ref().map(|subject| match subject {
            Subject::Pinned(repository) => repository.name.to_string(),
            Subject::Name(name) => name.to_string(),
            Subject::Id(id) => format!("number {id}"),
        });
        Self { repository, row: route.family, also }
    }
}

/// A rule that did not decide.
#[derive(Clone, Debug, Serialize)]
pub struct OtherRule {
    /// `allow` or `deny`.
    pub action: &'static str,
    /// The hosts it is for.
    pub host: String,
    /// Where it was written.
    pub place: Place,
    /// Why it did not decide, as the end of a sentence about it.
    pub why: &'static str,
}

/// A credential of a binding.
#[derive(Clone, Debug, Serialize)]
pub struct Credential {
    /// The kind of the binding.
    pub kind: &'static str,
    /// The header.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub header: Option<String>,
    /// The parameter of the query.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameter: Option<String>,
    /// The name of the cookie.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cookie: Option<String>,
    /// The user of Basic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The name of the secret that holds a client's certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate: Option<String>,
    /// The name of the secret that holds an access key ID of AWS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access_key_id: Option<String>,
    /// The name of the secret that holds its session token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_token: Option<String>,
    /// The region that requests must be signed for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// The service that requests must be signed for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// The name of the secret that is the user of Basic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_secret: Option<String>,
    /// The name of the secret.
    pub secret: String,
    /// What stands before its value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// What stands behind it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suffix: Option<String>,
    /// What the place will hold, with `{SECRET}` for the value; of the text alone, since the other fields say it.
    #[serde(skip)]
    pub shown: String,
    /// Where its value comes from, and how long one is used.
    pub source: String,
    /// Only a client that sends its placeholder gets it.
    pub only_for_placeholder: bool,
    /// Whether answers are searched for it.
    pub scrub: bool,
    /// What paths begin with that it is for.
    pub path_prefix: String,
    /// Where the binding was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
}

/// A binding that is not used.
#[derive(Clone, Debug, Serialize)]
pub struct OtherBinding {
    /// What it would put in.
    #[serde(flatten)]
    pub credential: Credential,
    /// Why it does not, as the end of a sentence about it.
    pub why: String,
}

/// A proxy between this one and the upstream.
#[derive(Clone, Debug, Serialize)]
pub struct Through {
    /// Where it listens.
    pub address: String,
    /// The name of the secret that it is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
}

/// How many rules that did not decide are shown.
const SHOWN: usize = 20;

impl Explanation {
    /// What a policy says to a question.
    pub fn of(compiled: &Compiled, question: &Question) -> Self {
        let policy = &compiled.policy;
        let answer = question.ask(policy);
        let decided_by = decider(compiled, &answer);
        let (about, others) = other_rules(policy, question, decided_by.as_ref());
        let (code, reason, cure) = match &answer {
            Ok(_) => (None, None, None),
            Err(denial) => (Some(denial.code()), Some(denial.to_string()), denial.cure()),
        };
        Self {
            asked: question.to_string(),
            verdict: if answer.is_ok() { Verdict::Permit } else { Verdict::Deny },
            code,
            reason,
            decided_by,
            more_rules: others.len().saturating_sub(SHOWN),
            other_rules: others.into_iter().take(SHOWN).collect(),
            rules_for_other_hosts: policy.rules().as_slice().len() - about,
            github: question.on_github(policy).and_then(|route| route.ok().map(|route| OnGitHub::of(&route))),
            bindings: answer.iter().flat_map(|permit| &permit.bindings).map(|at| credential(compiled, *at)).collect(),
            other_bindings: other_bindings(compiled, question, &answer),
            upstream_proxy: through(compiled, question, &answer),
            cure,
            notes: notes(policy, question, &answer),
        }
    }
}

type Answer = Result<Permit, Denial>;

fn decider(compiled: &Compiled, answer: &Answer) -> Option<Decider> {
    let (kind, entry, place) = match answer {
        Ok(Permit { grant, .. }) => {
            let (kind, entry) = match grant {
                Grant::NetworkAll => (DeciderKind::NetworkAll, None),
                Grant::Host { entry } => (DeciderKind::NetworkHost, Some(entry.to_string())),
                Grant::Rule { .. } => (DeciderKind::AllowRule, None),
                Grant::Egress { entry } => (DeciderKind::Egress, Some(entry.clone())),
                Grant::GitHub { .. } => (DeciderKind::GitHub, None),
            };
            (kind, entry, compiled.written.grant(grant))
        }
        Err(Denial::RuleDenied { rule, .. }) => (DeciderKind::DenyRule, None, Some(rule)),
        Err(_) => return None,
    };
    Some(Decider { kind, entry, place: place.cloned() })
}

/// How many rules there are for the host, and those of them that did not decide.
fn other_rules(policy: &Policy, question: &Question, decided_by: Option<&Decider>) -> (usize, Vec<OtherRule>) {
    let about = match question {
        Question::Request { destination, method, path, .. } => {
            about_request(policy, &RequestFacts { destination, method, path })
        }
        // What nobody reads has neither method nor path.
        Question::Connection(destination) => about_request(policy, &RequestFacts { destination, method: "", path: "" }),
        Question::LookUp(name) => {
            let host = Host::Name(name.clone());
            policy.rules().of_host(&host).map(|rule| (rule, why_not_looked_up(policy, rule, &host))).collect()
        }
    };
    let decided = decided_by.and_then(|decider| decider.place.as_ref());
    let others = about.iter().filter(|(rule, _)| Some(&rule.place) != decided).map(|(rule, why)| OtherRule {
        action: rule.action.as_str(),
        host: rule.host.to_string(),
        place: rule.place.clone(),
        why,
    });
    (about.len(), others.collect())
}

fn about_request<'a>(policy: &'a Policy, facts: &RequestFacts<'_>) -> Vec<(&'a Rule, &'static str)> {
    let why = |state| match state {
        RuleState::Applies => "applies as well",
        RuleState::OtherScheme => "is for another scheme",
        RuleState::OtherPort => "is for other ports",
        RuleState::OtherPath => "is for other paths",
        RuleState::AmbiguousPath => "looks at the path, which is ambiguous",
        RuleState::OtherMethod => "is for other methods",
    };
    policy.rules_about(facts).into_iter().map(|(rule, state)| (rule, why(state))).collect()
}

fn why_not_looked_up(policy: &Policy, rule: &Rule, host: &Host) -> &'static str {
    match rule.action {
        RuleAction::Allow if question::reaches_by(policy, rule, host) => "permits it as well",
        RuleAction::Allow => "permits only what deny rules close",
        RuleAction::Deny if rule.is_whole() => "closes a part of it",
        RuleAction::Deny => "looks at requests",
    }
}

fn credential(compiled: &Compiled, index: usize) -> Credential {
    let binding: &Binding = &compiled.policy.bindings()[index];
    let placement = binding.placement();
    let mut credential = Credential {
        kind: placement.kind(),
        header: placement.header().map(ToString::to_string),
        parameter: None,
        cookie: None,
        user: None,
        user_secret: None,
        certificate: None,
        access_key_id: None,
        session_token: None,
        region: None,
        service: None,
        secret: binding.secret_name().to_owned(),
        prefix: None,
        suffix: None,
        shown: placement.sample(binding.secret_name()),
        source: source(compiled, binding),
        only_for_placeholder: binding.accepts() == Accepts::PlaceholderOnly,
        scrub: binding.scrub(),
        path_prefix: binding.path_prefix().to_owned(),
        place: compiled.written.binding(index).cloned(),
    };
    match placement {
        Placement::Header { prefix, suffix, .. } | Placement::PathSegment { prefix, suffix } => {
            (credential.prefix, credential.suffix) = (Some(prefix.clone()), Some(suffix.clone()));
        }
        Placement::QueryParameter { name } => credential.parameter = Some(name.clone()),
        Placement::Cookie { name } => credential.cookie = Some(name.clone()),
        Placement::Basic { user: BasicUser::Plain(user) } => credential.user = Some(user.clone()),
        Placement::Basic { user: BasicUser::Secret(user) } => credential.user_secret = Some(user.clone()),
        Placement::ClientCertificate { certificate } => credential.certificate = Some(certificate.clone()),
        Placement::AwsSigv4 { access_key_id, session_token, scope } => {
            credential.access_key_id = Some(access_key_id.clone());
            credential.session_token = session_token.clone();
            (credential.region, credential.service) = (scope.region.clone(), scope.service.clone());
            credential.only_for_placeholder = true;
        }
    }
    credential
}

/// Nothing is read for this, so it does not say when a value of now ends.
fn source(compiled: &Compiled, binding: &Binding) -> String {
    let secret = compiled.secrets.iter().find(|secret| secret.name == binding.secret_name());
    secret.map_or_else(String::new, |secret| format!("{}, used {}", secret.source, secret.source.life(binding.ttl())))
}

fn through(compiled: &Compiled, question: &Question, answer: &Answer) -> Option<Through> {
    let proxy = compiled.upstream_proxy.as_ref().filter(|_| answer.is_ok())?;
    match question {
        Question::Request { .. } | Question::Connection(_) => {
            let Authority { host, port } = &proxy.authority;
            Some(Through { address: format!("{host}:{port}"), secret: proxy.auth.clone() })
        }
        Question::LookUp(_) => None,
    }
}
