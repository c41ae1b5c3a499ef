//! What a binding says to a request of which nothing was looked up: for `policy explain` and the cases of a policy.

use std::sync::Arc;

use super::binding::GitHubBinding;
use super::denial::OutOfScope;
use super::known::{Known, Membership, NodeOwner, Repository};
use super::name::RepoName;
use super::route::{self, Request, Route};

/// Every listed repository is taken to be what it is called; no id has been seen.
struct Assumed<'a>(&'a GitHubBinding);

impl Known for Assumed<'_> {
    fn repository(&self, name: &RepoName) -> Membership {
        match self.0.repos() {
            None => Membership::Any,
            Some(listed) if listed.contains(name) => Membership::Is(Arc::new(Repository {
                name: name.clone(),
                id: 0,
                node_id: String::new(),
                owner_id: 0,
                default_branch: String::new(),
                parent_id: None,
            })),
            Some(_) => Membership::Not,
        }
    }

    fn repository_of_id(&self, _: u64) -> Option<Arc<Repository>> {
        None
    }

    fn node(&self, _: &str) -> Option<NodeOwner> {
        None
    }

    fn issue_id(&self, _: u64) -> bool {
        false
    }
}

impl GitHubBinding {
    /// How the head of a request is judged, with what is known without asking anybody. Its body is judged by more rules.
    ///
    /// # Errors
    /// [`OutOfScope`].
    pub fn explain(&self, host: &str, method: &str, target: &str) -> Result<Route, OutOfScope> {
        let request = Request { host, method, target, content_type: None, body: false };
        route::judge(self.scope(), &Assumed(self), &request)
    }
}
