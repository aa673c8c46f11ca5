//! `cargo sqs-once key`: shows and corrects what the table stores for a business key.

#[cfg(feature = "aws")]
mod run;
#[cfg(feature = "aws")]
mod shown;

use crate::cli::Format;
use crate::operate::{ConsumerArgs, TableArgs, WriteArgs};
use clap::{Args, Subcommand, ValueEnum};
#[cfg(feature = "aws")]
pub(crate) use run::key;
use std::num::NonZeroUsize;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  What became of an order, by its key, by its id, or by what a log line shows of it:
    cargo sqs-once key show --table orders-idempotency --namespace payments order-42
    cargo sqs-once key show --table orders-idempotency 'payments#3f9ab1c20d45'
  A key of two parts, the second of them an integer:
    cargo sqs-once key show --table orders-idempotency --namespace payments tenant-7 i:42
  Claims whose outcome is unknown, because the worker died:
    cargo sqs-once key list --table orders-idempotency --state lapsed
  Let its next message run again, or take it for done:
    cargo sqs-once key forget --table orders-idempotency --namespace payments order-42
    cargo sqs-once key complete --table orders-idempotency --namespace payments order-42
  The effect of a message that has yet to come is done:
    cargo sqs-once key complete --ids hashed --table orders-idempotency --namespace payments order-42

Credentials, profile and region are those that the AWS CLI finds: AWS_PROFILE, AWS_REGION, SSO, roles. Another endpoint
is set by AWS_ENDPOINT_URL_DYNAMODB.";

/// Show or correct what the DynamoDB table stores for a business key
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct KeyArgs {
    #[command(subcommand)]
    command: KeyCommand,
}

#[derive(Subcommand)]
enum KeyCommand {
    Show(ShowArgs),
    List(ListArgs),
    /// Forget a key, so that its next message runs
    ///
    /// Shows what the table stores for the key and asks. Writes only if that has not changed since. The item stays,
    /// released and with an owner that no worker has. Its fence keeps growing, and an earlier worker can no longer complete
    /// the key.
    #[command(after_help = "\
Examples:
  cargo sqs-once key forget --table orders-idempotency --namespace payments order-42
  cargo sqs-once key forget --yes --log changes.jsonl --table orders-idempotency 'payments#3f9ab1c20d45'")]
    Forget(ChangeArgs),
    Complete(CompleteArgs),
}

/// Selects a key.
#[derive(Args)]
struct KeyNameArgs {
    /// The key's parts, or its id
    ///
    /// Each part is one word. A part is text, but `42` also matches the integer and `true` the boolean. A prefix selects the
    /// kind: `s:42` is text, `i:42` an integer, `b:true` a boolean, `x:00ff` bytes.
    ///
    /// One word such as `payments#3f9ab1c20d45` is the id of the key's item, or its start as log lines show it. A
    /// search by the start of an id reads the whole table.
    #[arg(required = true, value_name = "KEY")]
    words: Vec<String>,
}

/// Show what the table stores for a key
///
/// Shows its state, owner, lease, fence and expiry, and whether a result is stored. Fails if the table does not have
/// the key.
#[derive(Args)]
#[command(after_help = "\
Examples:
  cargo sqs-once key show --table orders-idempotency --namespace payments order-42
  cargo sqs-once key show --table orders-idempotency --format json 'payments#3f9ab1c20d45' | jq .state")]
struct ShowArgs {
    #[command(flatten)]
    name: KeyNameArgs,

    /// Also show the stored result
    #[arg(long)]
    data: bool,

    /// The form of the result; `json` has a line for each item
    #[arg(long, value_enum, default_value_t)]
    format: Format,

    #[command(flatten)]
    consumer: ConsumerArgs,

    #[command(flatten)]
    table: TableArgs,
}

/// List the keys in the table
///
/// Reads the table from its beginning until the limit is reached. On a large table this costs read units and time. With
/// --namespace, lists only keys of that namespace.
#[derive(Args)]
#[command(after_help = "\
Examples:
  Claims whose outcome is unknown, because the worker died or was cancelled:
    cargo sqs-once key list --table orders-idempotency --state lapsed
  Everything of one consumer, as JSON lines:
    cargo sqs-once key list --table orders-idempotency --namespace payments --limit 1000000 --format json")]
struct ListArgs {
    /// Only keys in this state; may be given more than once
    #[arg(long, value_enum, value_name = "STATE")]
    state: Vec<StateArg>,

    /// The most keys to list
    #[arg(long, value_name = "KEYS", default_value = "100")]
    limit: NonZeroUsize,

    /// The form of the result; `json` has a line for each row
    #[arg(long, value_enum, default_value_t)]
    format: Format,

    #[command(flatten)]
    consumer: ConsumerArgs,

    #[command(flatten)]
    table: TableArgs,
}

/// The state of a key.
#[derive(Clone, Copy, ValueEnum)]
enum StateArg {
    /// A worker is processing it
    InProgress,
    /// A claim whose outcome is unknown: the worker died or was cancelled, perhaps after the effect
    Lapsed,
    /// Its last attempt failed and released it, or `key forget` released it
    Released,
    /// Done and completed
    Completed,
    /// Done, but the completion is past its expiry
    Expired,
    /// A status that no consumer writes
    Unknown,
}

/// Arguments of both changes.
#[derive(Args)]
struct ChangeArgs {
    #[command(flatten)]
    name: KeyNameArgs,

    /// Change the key even if a worker is processing it
    #[arg(long)]
    even_in_progress: bool,

    #[command(flatten)]
    write: WriteArgs,

    #[command(flatten)]
    consumer: ConsumerArgs,

    #[command(flatten)]
    table: TableArgs,
}

/// Complete a key, so that its messages are duplicates from now on
///
/// Shows what the table stores for the key and asks. Writes only if that has not changed since. If the table does not
/// have the key, creates it, so that a message that has yet to come is a duplicate. This needs the form of the consumer's
/// ids, or the whole id: a consumer does not read a key in another form.
#[derive(Args)]
#[command(after_help = "\
Examples:
  cargo sqs-once key complete --table orders-idempotency --namespace payments order-42
  cargo sqs-once key complete --for 90d --table orders-idempotency --namespace payments order-42
  A key that has yet to come, for a consumer with the default ids, and with readable ids:
    cargo sqs-once key complete --ids hashed --table orders-idempotency --namespace payments order-42
    cargo sqs-once key complete --ids readable --table orders-idempotency --namespace payments order-42")]
struct CompleteArgs {
    /// How long its messages are duplicates, such as 12h or 90d; never shortens an existing expiry
    #[arg(long = "for", value_name = "TIME", default_value = "28d", value_parser = humantime::parse_duration)]
    duration: Duration,

    /// The form of the consumer's ids; required if the table does not have the key. An item in the other form is left alone
    #[arg(long, value_enum, value_name = "FORM")]
    ids: Option<IdsArg>,

    #[command(flatten)]
    change: ChangeArgs,
}

/// The form of a consumer's ids.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum IdsArg {
    /// The default, also with a secret: give that with --key-secret-file
    Hashed,
    /// As `Ids::readable` sets it
    Readable,
}
