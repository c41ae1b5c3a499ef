//! What administrators and agent SDKs ask of the service.

pub mod setup;
