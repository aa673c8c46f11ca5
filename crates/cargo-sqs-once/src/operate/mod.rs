//! What `key`, `breaker` and `dlq` share: arguments, connections, changes, and what they print.

mod args;
#[cfg(feature = "aws")]
mod connect;
#[cfg(feature = "aws")]
mod show;
#[cfg(feature = "aws")]
mod write;

pub(crate) use args::{ConsumerArgs, TableArgs, WriteArgs};
#[cfg(feature = "aws")]
pub(crate) use connect::{Place, keys, keys_in, namespace, table};
#[cfg(feature = "aws")]
pub(crate) use show::{List, at, distance, fields, moment, row};
#[cfg(feature = "aws")]
pub(crate) use write::{Audit, ItemChange};
