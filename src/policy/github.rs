//! GitHub, as the user, for named repositories only: what a request to it may ask for. Pure, like all of `policy`: what has to
//! be looked up is said by a check, and answered through [`Known`].

pub mod denial;
pub mod known;
pub mod name;
pub mod push;

pub use denial::{Code, OutOfScope};
pub use known::{Known, Membership, NodeOwner, Repository};
pub use name::{NameError, RepoName};
pub use push::{Change, Forced, RefChange, RefTarget};
