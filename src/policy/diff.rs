//! What one policy permits that another does not. Parts are compared one with one, in their smallest pieces, so nothing that
//! is more is missed; what several parts together would cover is reported as what may be more. Each finding is tried with a
//! request of its own, which both policies are asked about, and where that shows it, it is certain.

use std::collections::HashSet;

use crate::types::{Authority, Destination, Host, Scheme};

use super::binding::Binding;
use super::compile::Compiled;
use super::egress::{Cidr, EgressMode};
use super::mistake::Place;
use super::network::NetworkMode;
use super::pattern::HostPattern;
use super::question::Question;
use super::rule::{Action, Ports, Rule, Schemes};
use super::rules::RuleSet;
use super::{Grant, SecretSpec};

mod files;
mod pieces;

use pieces::{describe, meet, pieces, seen_alike, tries};

/// What `allow_all` of EgressPolicy is.
const EVERY: [&str; 2] = ["0.0.0.0/0", "::/0"];

/// Something that one policy permits and another does not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct More {
    /// A request shows it, or the parts compare exactly. Else it may be so, and may be nothing.
    pub certain: bool,
    /// What it is.
    pub what: String,
    /// Where the part was written; of a denial that is missing, where the other policy has it.
    pub place: Option<Place>,
    /// A question that the one permits and the other denies.
    pub example: Option<Question>,
}

/// What `this` permits that `other` does not.
pub fn more(this: &Compiled, other: &Compiled) -> Vec<More> {
    let sides = Sides { this, other, ours: permitting(this), theirs: permitting(other) };
    let mut found = Vec::new();
    sides.network(&mut found);
    sides.denials(&mut found);
    sides.looks(&mut found);
    sides.passthrough(&mut found);
    sides.egress(&mut found);
    sides.addresses(&mut found);
    sides.bindings(&mut found);
    sides.githubs(&mut found);
    sides.upstream(&mut found);
    found.extend(files::more(&this.files, &other.files));
    let mut said = HashSet::new();
    found.retain(|more| said.insert(more.what.clone()));
    found
}

struct Sides<'a> {
    this: &'a Compiled,
    other: &'a Compiled,
    /// What permits, by name.
    ours: RuleSet,
    theirs: RuleSet,
}

/// The allow rules, and the listed hosts as such.
fn permitting(compiled: &Compiled) -> RuleSet {
    let listed = compiled.policy.network().entries().into_iter().map(|entry| Rule {
        place: compiled
            .written
            .host(&entry)
            .cloned()
            .unwrap_or_else(|| Place::Option { name: "--allow", value: String::new() }),
        action: Action::Allow,
        schemes: Schemes::Only(Scheme::Https),
        ports: Ports::Of(vec![entry.port]),
        host: HostPattern::Exact(entry.host),
        methods: None,
        paths: None,
        reason: None,
        opens_address: false,
    });
    let allow = rules(compiled, Action::Allow).cloned();
    RuleSet::new(listed.chain(allow).collect())
}

/// Whether one of these rules is for all of a piece.
fn covered(rules: &RuleSet, action: Action, piece: &Rule) -> bool {
    rules.over(&piece.host, usize::MAX).any(|(_, by)| by.action == action && by.covers(piece))
}

fn rules(compiled: &Compiled, action: Action) -> impl Iterator<Item = &Rule> {
    compiled.policy.rules().as_slice().iter().filter(move |rule| rule.action == action)
}

/// Everything is permitted by name, or by an address that a client dials for any name.
fn is_wide(compiled: &Compiled) -> bool {
    is_all(compiled) || compiled.policy.egress().mode() != EgressMode::BlockAll
}

fn is_all(compiled: &Compiled) -> bool {
    compiled.policy.network_mode() == NetworkMode::All
}

impl Sides<'_> {
    /// Another way out, or another that is told of names and secrets.
    fn upstream(&self, found: &mut Vec<More>) {
        let (ours, theirs) = (&self.this.upstream_proxy, &self.other.upstream_proxy);
        if ours == theirs {
            return;
        }
        let what = match ours {
            None => "upstreams are dialled directly, not through a proxy (upstream.proxy)".to_owned(),
            Some(proxy) => {
                let names =
                    if proxy.looks_up { ", which looks names up: a permitted one may lead anywhere" } else { "" };
                format!("upstreams are dialled through {}{names} (upstream.proxy)", proxy.authority)
            }
        };
        found.push(More { certain: true, what, place: None, example: None });
    }

    /// The first of these questions that is permitted here and denied there.
    fn example(&self, tries: impl IntoIterator<Item = Question>) -> Option<Question> {
        let shows =
            |question: &Question| question.ask(&self.this.policy).is_ok() && question.ask(&self.other.policy).is_err();
        tries.into_iter().find(shows)
    }

    fn finding(&self, what: String, place: Option<&Place>, tries: Vec<Question>) -> More {
        let example = self.example(tries);
        More { certain: example.is_some(), what, place: place.cloned(), example }
    }

    fn network(&self, found: &mut Vec<More>) {
        if is_all(self.other) {
            return;
        }
        if is_all(self.this) {
            let place = self.this.written.grant(&Grant::NetworkAll);
            let what = "every host is permitted (network mode all)".to_owned();
            return found.push(More { certain: true, what, place: place.cloned(), example: None });
        }
        for rule in self.ours.as_slice() {
            let denied = |piece: &Rule| covered(self.this.policy.rules(), Action::Deny, piece);
            let permitted = |piece: &Rule| covered(&self.theirs, Action::Allow, piece);
            let beyond: Vec<Rule> =
                pieces(rule).into_iter().filter(|piece| !denied(piece) && !permitted(piece)).collect();
            let Some(first) = beyond.first() else { continue };
            let what = format!("{} is permitted", describe(first));
            found.push(self.finding(what, Some(&rule.place), beyond.iter().flat_map(tries).collect()));
        }
    }

    /// Deny rules of the other one that have no match here, where something permits what they deny.
    fn denials(&self, found: &mut Vec<More>) {
        for deny in rules(self.other, Action::Deny) {
            let denied = |piece: &Rule| covered(self.this.policy.rules(), Action::Deny, piece);
            // A name may lead to an address that is denied.
            let permits = |piece: &Rule| self.permits(piece, is_address(deny));
            let beyond: Vec<Rule> = pieces(deny).into_iter().filter(|piece| !denied(piece) && permits(piece)).collect();
            let Some(first) = beyond.first() else { continue };
            let what = format!("{} is not denied", describe(first));
            found.push(self.finding(what, Some(&deny.place), beyond.iter().flat_map(tries).collect()));
        }
    }

    /// Where the other one looks at paths, it refuses those that can be read in two ways; and what it looks into, it does not
    /// pass on unread.
    fn looks(&self, found: &mut Vec<More>) {
        let (ours, theirs) = (looking(self.this), looking(self.other));
        for look in &theirs {
            if look.rule.paths.is_some() && self.reads_more(look, &ours) {
                let what = format!("paths of {} that can be read in two ways are permitted", look.rule.host);
                found.push(self.finding(what, Some(&look.rule.place), pieces::ambiguous(&look.rule)));
            }
            if self.passes_more(look, &ours) {
                let what =
                    format!("connections to {} that are looked into elsewhere are passed on unread", look.rule.host);
                found.push(self.finding(what, Some(&look.rule.place), pieces::unread(&look.rule)));
            }
        }
    }

    /// Hosts whose TLS nobody looks into, so that anything may be inside.
    fn passthrough(&self, found: &mut Vec<More>) {
        for entry in self.this.policy.passthrough.as_slice() {
            let known = |piece: &Rule| covered(&self.other.policy.passthrough, Action::Allow, piece);
            let beyond = |piece: &Rule| !known(piece) && self.permits(piece, is_address(entry));
            let Some(piece) = pieces(entry).into_iter().find(beyond) else { continue };
            let unread = |compiled: &Compiled, question: &Question| question.passes_unread(&compiled.policy);
            let shown =
                tries(&piece).iter().any(|question| unread(self.this, question) && !unread(self.other, question));
            let what = format!("what is inside TLS to {} is not seen (tls.passthrough)", entry.host);
            found.push(More { certain: shown, what, place: Some(entry.place.clone()), example: None });
        }
    }

    /// Whether requests are permitted here, without a look at their paths, to what `look` is for.
    fn reads_more(&self, look: &Look, ours: &[Look]) -> bool {
        let Look { rule, is_binding } = look;
        // The address that was dialled is looked at for deny rules alone.
        let by_address = rule.action == Action::Deny && is_address(rule);
        let alike = |by: &Rule| seen_alike(by, rule) && by.schemes.covers(rule.schemes);
        let closes = |by: &Rule| by.is_whole() && alike(by);
        let looks = |by: &Look| {
            by.rule.paths.is_some()
                && (*is_binding || !by.is_binding)
                && (!by_address || by.rule.action == Action::Deny)
                && alike(&by.rule)
        };
        self.permits(&open(rule, rule.schemes), by_address)
            && !rules(self.this, Action::Deny).any(closes)
            && !ours.iter().any(looks)
    }

    /// Whether connections to what `look` is for are passed on unread here, where that would be permitted there but for it.
    fn passes_more(&self, look: &Look, ours: &[Look]) -> bool {
        let Look { rule, is_binding } = look;
        let opaque = open(rule, Schemes::Only(Scheme::Tcp));
        let permitted = |by: &RuleSet| by.as_slice().iter().any(|by| meet(by, &opaque, is_address(rule)));
        let sees = |by: &Look| (by.is_binding || !by.rule.is_whole()) && seen_alike(&by.rule, rule);
        (*is_binding || !rule.is_whole())
            && (is_wide(self.other) || permitted(&self.theirs))
            && self.permits(&opaque, is_address(rule))
            && !ours.iter().any(sees)
    }

    /// Whether something that a piece is for is permitted here, deny rules aside.
    fn permits(&self, piece: &Rule, by_address: bool) -> bool {
        is_wide(self.this) || self.ours.as_slice().iter().any(|rule| meet(rule, piece, by_address))
    }

    fn egress(&self, found: &mut Vec<More>) {
        let (ours, theirs) = (self.this.policy.egress(), self.other.policy.egress());
        if is_all(self.other) || theirs.mode() == EgressMode::AllowAll {
            return;
        }
        let nets = ipnet::IpNet::aggregate(&theirs.cidrs().iter().map(|cidr| cidr.net()).collect());
        let permitted = |net: &ipnet::IpNet| nets.iter().any(|known| known.contains(net));
        let (entries, every) = match ours.mode() {
            EgressMode::BlockAll => (Vec::new(), false),
            EgressMode::AllowAll => (EVERY.iter().filter_map(|text| Cidr::parse(text).ok()).collect(), true),
            EgressMode::Custom => (ours.cidrs().to_vec(), false),
        };
        for cidr in entries.iter().filter(|cidr| !permitted(&cidr.net())) {
            let entry = if every { "allow_all" } else { cidr.as_str() };
            let place = self.this.written.grant(&Grant::Egress { entry: entry.to_owned() }).cloned();
            let what = format!("every port of {} may be dialled by number (egress)", cidr.as_str());
            found.push(More { certain: true, what, place, example: None });
        }
    }

    fn addresses(&self, found: &mut Vec<More>) {
        for (certain, what) in self.this.policy.addresses.beyond(&self.other.policy.addresses) {
            found.push(More { certain, what, place: None, example: None });
        }
    }

    /// A GitHub binding opens hosts and judges what is asked of them; two of one host are not compared part by part.
    fn githubs(&self, found: &mut Vec<More>) {
        let of = |compiled: &'_ Compiled, host: &Authority| {
            compiled.policy.githubs().iter().find(|github| github.host() == host).cloned()
        };
        for ours in self.this.policy.githubs() {
            let host = &ours.host().host;
            let (certain, what) = match of(self.other, ours.host()) {
                Some(theirs) if theirs.is_same_as(ours) => continue,
                Some(_) => (
                    false,
                    format!(
                        "the binding to {host} is another one: compare its repos, access, options, projects, push and token"
                    ),
                ),
                None => (true, format!("a binding opens {host} for its repositories")),
            };
            found.push(More { certain, what, place: Some(ours.place().clone()), example: None });
        }
        for theirs in self.other.policy.githubs() {
            if of(self.this, theirs.host()).is_none() {
                let what =
                    format!("requests to {} are not judged by a binding, where they are permitted", theirs.host().host);
                found.push(More { certain: false, what, place: Some(theirs.place().clone()), example: None });
            }
        }
    }

    /// A secret is given where it was not, or another one.
    fn bindings(&self, found: &mut Vec<More>) {
        // The same binding whose responses were not searched let more out.
        let as_searched = |theirs: &Binding| theirs.clone().with_scrub(true);
        let known = self.other.policy.bindings();
        let is_known = |ours: &Binding| known.iter().any(|theirs| theirs == ours || as_searched(theirs) == *ours);
        for (index, binding) in self.this.policy.bindings().iter().enumerate().filter(|(_, ours)| !is_known(ours)) {
            let place = self.this.written.binding(index).cloned();
            let to = Destination { authority: binding.host().clone(), scheme: Scheme::Https, dialled: None };
            let certain = self.this.policy.destination(&to).is_ok();
            let unsearched = if binding.scrub() { "" } else { ", and responses can show it" };
            let secrets: Vec<&str> = binding.secrets().collect();
            let (noun, goes) = if secrets.len() == 1 { ("secret", "goes") } else { ("secrets", "go") };
            let what = format!(
                "the {noun} {} {goes} into {} of requests to {} (paths {}…){unsearched}",
                secrets.join(" and "),
                binding.placement(),
                binding.host(),
                binding.path_prefix()
            );
            found.push(More { certain, what, place, example: None });
        }
        for secret in &self.this.secrets {
            let used = self.this.policy.bindings().iter().any(|binding| binding.uses(&secret.name));
            let differs = |theirs: &&SecretSpec| theirs.name == secret.name && theirs.source != secret.source;
            if used && self.other.secrets.iter().any(|theirs| differs(&theirs)) {
                let what = format!("the secret {} comes from another source", secret.name);
                found.push(More { certain: true, what, place: None, example: None });
            }
        }
    }
}

/// Something for which requests are looked into.
struct Look {
    rule: Rule,
    is_binding: bool,
}

/// Every rule, and every binding as one.
fn looking(compiled: &Compiled) -> Vec<Look> {
    let by_rule = compiled.policy.rules().as_slice().iter().map(|rule| Look { rule: rule.clone(), is_binding: false });
    by_rule.chain(compiled.policy.bindings().iter().map(Look::binding)).collect()
}

impl Look {
    /// A binding as a rule for its destination. It looks at paths where it is not for all of them, whatever they are.
    fn binding(binding: &Binding) -> Self {
        let Authority { host, port } = binding.host().clone();
        let rule = Rule {
            place: Place::Option { name: "--bind", value: binding.host().to_string() },
            action: Action::Allow,
            schemes: Schemes::Only(Scheme::Https),
            ports: Ports::Of(vec![port]),
            host: HostPattern::Exact(host),
            methods: None,
            paths: binding.looks_at_path().then(Vec::new),
            reason: None,
            opens_address: false,
        };
        Self { rule, is_binding: true }
    }
}

/// Whatever is asked of what a rule is for, by these schemes.
fn open(rule: &Rule, schemes: Schemes) -> Rule {
    Rule { schemes, methods: None, paths: None, ..rule.clone() }
}

fn is_address(rule: &Rule) -> bool {
    matches!(rule.host, HostPattern::Exact(Host::Ip(_)))
}

#[cfg(test)]
mod tests;
