//! What `key` and `dlq` share: arguments, connections, and the formatting of times.

mod args;
#[cfg(feature = "aws")]
mod connect;
#[cfg(feature = "aws")]
mod words;

#[cfg(feature = "aws")]
pub(crate) use args::AccountArgs;
pub(crate) use args::TableArgs;
#[cfg(feature = "aws")]
pub(crate) use connect::{config, keys, keys_in, namespace, table};
#[cfg(feature = "aws")]
pub(crate) use words::{at, distance, moment};
