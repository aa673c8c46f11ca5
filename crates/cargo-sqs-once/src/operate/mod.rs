//! What `key`, `breaker` and `dlq` share: arguments, connections, changes, and the formatting of times.

mod args;
#[cfg(feature = "aws")]
mod audit;
#[cfg(feature = "aws")]
mod connect;
#[cfg(feature = "aws")]
mod words;
#[cfg(feature = "aws")]
mod write;

#[cfg(feature = "aws")]
pub(crate) use args::AccountArgs;
pub(crate) use args::{AuditArgs, ConsumerArgs, TableArgs};
#[cfg(feature = "aws")]
pub(crate) use audit::Audit;
#[cfg(feature = "aws")]
pub(crate) use connect::{config, keys, keys_in, namespace, table};
#[cfg(feature = "aws")]
pub(crate) use words::{at, distance, moment};
#[cfg(feature = "aws")]
pub(crate) use write::ItemChange;
