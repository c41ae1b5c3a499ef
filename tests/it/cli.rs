//! Placeholder.
use crate::cases;
cases![];
