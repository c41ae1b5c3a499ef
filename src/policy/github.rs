//! GitHub, as the user, for named repositories only: what a request to it may ask for. Pure, like all of `policy`: what has to
//! be looked up is said by a check, and answered through [`Known`].

pub mod answers;
mod binding;
pub mod body;
pub mod credential;
pub mod denial;
pub mod forms;
pub mod git;
pub mod graphql;
pub mod hosts;
pub mod json;
pub mod known;
pub mod local;
pub mod name;
pub mod permission;
pub mod push;
mod rest;
pub mod route;
pub mod scope;
pub mod search;
pub mod site;
mod target;
pub mod token;
mod web;

pub use answers::{Api, Learned};
pub use binding::{GitHubBinding, GitHubBindingError};
pub use body::{BodyCheck, lfs_batch};
pub use credential::{App, AppError, AppGrant, Credential, Token};
pub use denial::{Code, OutOfScope};
pub use hosts::{BoundHost, CredentialForm, HostClass, class_of, hosts};
pub use known::{Known, Listed, Membership, NodeOwner, Repository};
pub use local::LocalAnswer;
pub use name::{NameError, RepoName};
pub use permission::permissions;
pub use push::{Change, Forced, Judged, PushRuleError, PushRules, RefChange, RefTarget, WrittenPushRules};
pub use route::{Action, Answer, Git, Request, Route, Subject, judge};
pub use scope::{GitHubHost, GitHubOption, Options, Scope};
pub use site::{GitHubSite, SiteError};
pub use token::{AppInstallation, ClientId, ClientIdError, Repositories, RepositoriesError, ScopedUserToken};

#[cfg(test)]
mod rows;
