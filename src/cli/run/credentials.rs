//! The secrets of a run, read when the sandbox's pid 1 exists and has a copy of none.

use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::SystemTime;

use anyhow::{Context, Result, anyhow, bail};
use tokio::runtime::Builder;

use crate::credentials::header::basic;
use crate::credentials::{
    Calls, Fetch, Injector, Keeper, Kept, Placeholder, Records, SourceContext, Supply, issuers, read_secret,
};
use crate::policy::github::{GitHubBinding, Token};
use crate::policy::{Binding, PlaceholderSpec};
use crate::proxy::fetch::OperatorFetch;
use crate::proxy::upstream_proxy::UpstreamProxy;
use crate::tls::UpstreamTls;

use super::opened::Opened;

/// What a proxy has to do with the world outside.
pub struct Outward {
    /// What upstreams must chain to.
    pub upstream_tls: Arc<UpstreamTls>,
    /// What they are dialled through.
    pub upstream_proxy: Option<Arc<UpstreamProxy>>,
    /// The credentials.
    pub injector: Injector,
    /// What is known of each GitHub binding, in their order.
    pub records: Vec<Arc<Records>>,
}

impl Outward {
    /// Reads the roots, and every secret that is used. `nameservers` are asked for the hosts of services that give some.
    ///
    /// # Errors
    /// The file or the secret that cannot be had.
    pub fn new(opened: &Opened, nameservers: &[SocketAddr], github: &[Placeholder]) -> Result<Self> {
        let upstream_tls = Arc::new(UpstreamTls::new(&opened.upstream_ca, &|name| std::env::var_os(name))?);
        let upstream_proxy = upstream_proxy(opened)?;
        let fetch = OperatorFetch::new(nameservers.to_vec(), Arc::clone(&upstream_tls), upstream_proxy.clone());
        let fetch: Arc<dyn Fetch> = Arc::new(fetch);
        let keepers = keepers(opened, &fetch)?;
        let mut placeholders = placeholders(opened, &keepers)?;
        placeholders.extend(github.iter().cloned());
        let policy = &opened.compiled.policy;
        let injector = Injector::new(policy.bindings(), &keepers, placeholders);
        let records = policy.githubs().iter().map(|github| Arc::new(records(github, &keepers, &fetch))).collect();
        Ok(Self { upstream_tls, upstream_proxy, injector, records })
    }
}

fn records(github: &GitHubBinding, keepers: &Keepers, fetch: &Arc<dyn Fetch>) -> Records {
    let kept = |token: Token| Some(Kept { keeper: Arc::clone(keepers.get(&token.name)?), owner: token.owner });
    let tokens = github.tokens().into_iter().filter_map(kept).collect();
    let calls = Calls::new(github.site(), tokens, Arc::clone(fetch));
    Records::new(github.repos().map(<[_]>::to_vec), calls, Arc::new(SystemTime::now))
}

type Keepers = HashMap<String, Arc<Keeper>>;

/// A keeper for every secret that a binding uses, each with its first value: one that cannot be had stops the start. What these
/// secrets need in turn is got with them.
fn keepers(opened: &Opened, fetch: &Arc<dyn Fetch>) -> Result<Keepers> {
    let bindings = opened.compiled.policy.bindings();
    let used: BTreeSet<&str> = bindings.iter().flat_map(Binding::secrets).collect();
    let mut keepers = HashMap::new();
    if used.is_empty() {
        return Ok(keepers);
    }
    let runtime = Builder::new_current_thread().enable_all().build().context("the system gives no timer")?;
    for (name, issuer) in issuers(&opened.sources, used, &context(), fetch) {
        let of_secret = bindings.iter().filter(|binding| binding.uses(&name));
        let longest = of_secret.filter_map(Binding::ttl).min();
        let keeper = Keeper::new(&name, Box::new(issuer), Arc::new(SystemTime::now)).with_longest(longest);
        runtime.block_on(keeper.start()).with_context(|| format!("secret {name}"))?;
        keepers.insert(name, Arc::new(keeper));
    }
    Ok(keepers)
}

/// A stand-in for each variable that is to hold one. It has the form of the value, so that is read first.
fn placeholders(opened: &Opened, keepers: &Keepers) -> Result<Vec<Placeholder>> {
    let mut placeholders = Vec::<Placeholder>::new();
    for PlaceholderSpec { secret, variable } in &opened.compiled.placeholders {
        let keeper =
            keepers.get(secret).with_context(|| format!("secret {secret} has a placeholder and no binding"))?;
        let live = keeper.seen().into_iter().next().with_context(|| format!("secret {secret} has no value"))?;
        placeholders.push(Placeholder::of(&live.secret, variable)?);
    }
    Ok(placeholders)
}

/// What upstreams are dialled through, with its secret.
fn upstream_proxy(opened: &Opened) -> Result<Option<Arc<UpstreamProxy>>> {
    let Some(proxy) = &opened.compiled.upstream_proxy else { return Ok(None) };
    let named = opened.sources.iter().find(|(name, _)| Some(name) == proxy.auth.as_ref());
    let authorization = named.map(|(name, supply)| authorization(name, supply)).transpose()?;
    Ok(Some(Arc::new(UpstreamProxy::new(proxy.authority.clone(), authorization, proxy.looks_up))))
}

fn authorization(name: &str, supply: &Supply) -> Result<http::HeaderValue> {
    let Supply::Read(source) = supply else {
        bail!("secret {name} is got by a call, which would go through the upstream proxy itself");
    };
    let issued = read_secret(name, source, &context()).with_context(|| format!("secret {name}"))?;
    basic(&issued.secret).map_err(|error| anyhow!("secret {name}, for the upstream proxy: {error}"))
}

fn context() -> SourceContext {
    SourceContext {
        read_env: |name| std::env::var_os(name),
        uid: nix::unistd::Uid::effective().as_raw(),
        now: Arc::new(SystemTime::now),
    }
}
