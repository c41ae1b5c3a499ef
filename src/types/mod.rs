//! The words everything else is written in.

pub mod bounded;
pub mod endpoint;
pub mod facts;
pub mod host;
pub mod sandbox;
pub mod secret;
pub mod token;

pub use bounded::read_bounded;
pub use endpoint::{Endpoint, EndpointError};
pub use facts::{Destination, RequestFacts, Scheme};
pub use host::{Authority, Host, HostError, HostName};
pub use sandbox::SandboxId;
pub use secret::{Secret, SecretError};
pub use token::{Claims, PROXY_USER, ProviderScope, RepoScope, SigningSecret, Subject, TokenError, TokenId};
