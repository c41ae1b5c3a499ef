//! What git and git-lfs say over HTTP, read and answered as bytes: nothing here does I/O of its own.

pub mod advertisement;
pub mod history;
pub mod lfs;
pub mod pkt;
pub mod receive;
pub mod report;
