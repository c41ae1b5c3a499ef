//! An egress proxy for code that is not trusted, and the launcher that leaves a command no other way out.
//!
//! In reading order, each layer using only what stands above it (`tests/architecture.rs` holds the tree to that):
//!
//! - [`types`]: hosts, secrets, the facts a decision may look at; [`telemetry`]: the program's own log
//! - [`policy`]: document → compile → decide; pure, so that `policy explain` runs what enforces
//! - [`dns`], [`tls`], [`trust`], [`credentials`], [`audit`]: what a permitted request needs
//! - [`sandboxes`]: one isolated client and everything that is its alone
//! - [`proxy`]: the path of a request; [`launcher`]: the namespace whose only way out it is
//! - [`app`]: puts them together; [`cli`]: one file per command

pub mod telemetry;
pub mod types;

pub mod config;
pub mod policy;

pub mod audit;
pub mod credentials;
pub mod dns;
pub mod tls;
pub mod trust;

pub mod sandboxes;

pub mod launcher;
pub mod proxy;

pub mod admin;

pub mod app;

pub mod cli;
