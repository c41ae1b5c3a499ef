//! One file per command.

pub mod policy;
pub mod policy_options;
