//! What `key` and `dlq` share: which AWS account and table they mean, and how moments read.

mod args;
#[cfg(feature = "aws")]
mod connect;
#[cfg(feature = "aws")]
mod words;

pub(crate) use args::{AccountArgs, TableArgs};
#[cfg(feature = "aws")]
pub(crate) use connect::{ConnectError, dead_letters, has_table, keys, namespace};
#[cfg(feature = "aws")]
pub(crate) use words::{at, distance, moment};
