//! `cargo sqs-once key`: what the table knows of a business key, and putting it right.

#[cfg(feature = "aws")]
mod change;
#[cfg(feature = "aws")]
mod list;
#[cfg(feature = "aws")]
mod show;
#[cfg(feature = "aws")]
mod shown;

use crate::operate::{AccountArgs, TableArgs};
use clap::{Args, Subcommand, ValueEnum};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  What became of an order, by its key, by its id, or by what a log line shows of it:
    cargo sqs-once key show --table orders-idempotency --namespace payments order-42
    cargo sqs-once key show --table orders-idempotency 'payments#3f9ab1c20d45'
  A key of two parts, the second of them an integer:
    cargo sqs-once key show --table orders-idempotency --namespace payments tenant-7 i:42
  Whose worker died:
    cargo sqs-once key list --table orders-idempotency --status lapsed
  Let its next message run again, or take it for done:
    cargo sqs-once key forget --table orders-idempotency --namespace payments order-42
    cargo sqs-once key complete --table orders-idempotency --namespace payments order-42

Credentials are those that the AWS CLI finds: environment, profiles, SSO, roles. Another endpoint is set by
AWS_ENDPOINT_URL_DYNAMODB.";

/// Show what the DynamoDB table knows of a business key, or put it right
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
    Forget(ForgetArgs),
    Complete(CompleteArgs),
}

/// Which key.
#[derive(Args)]
struct KeyNameArgs {
    /// The key's parts, or its id
    ///
    /// One word a part. A part is text; `42` may be the integer as well, and `true` the boolean. A kind in
    /// front says which it is: `s:42` is text, `i:42` an integer, `b:true` a boolean, `x:00ff` bytes.
    ///
    /// One word such as `payments#3f9ab1c20d45` is the id of the key's item, or the start of one as log
    /// lines show it; looking for a start reads the whole table.
    #[arg(required = true, value_name = "KEY")]
    words: Vec<String>,
}

/// Show what the table knows of a key
///
/// Its state, its owner and lease, fence and expiry, and whether a result is recorded. Fails if nothing is
/// known of the key.
#[derive(Args)]
#[command(after_help = "\
Examples:
  cargo sqs-once key show --table orders-idempotency --namespace payments order-42
  cargo sqs-once key show --table orders-idempotency --json 'payments#3f9ab1c20d45' | jq .state")]
struct ShowArgs {
    #[command(flatten)]
    name: KeyNameArgs,

    /// Show the result that is recorded, too
    #[arg(long)]
    data: bool,

    /// Write JSON: one line for every item found
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    table: TableArgs,

    #[command(flatten)]
    account: AccountArgs,
}

/// List the keys that the table holds
///
/// Reads the table from its beginning, whatever it finds, until the limit is reached: on a large table that
/// costs read units and time. With --namespace, only keys of that namespace are listed.
#[derive(Args)]
#[command(after_help = "\
Examples:
  Keys whose worker died or was cancelled:
    cargo sqs-once key list --table orders-idempotency --status lapsed
  Everything of one consumer, as JSON lines:
    cargo sqs-once key list --table orders-idempotency --namespace payments --limit 1000000 --json")]
struct ListArgs {
    /// Only keys in this state; may be given more than once
    #[arg(long, value_enum, value_name = "STATE")]
    status: Vec<StateArg>,

    /// How many keys to list
    #[arg(long, value_name = "KEYS", default_value = "100")]
    limit: NonZeroUsize,

    /// Write JSON lines
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    table: TableArgs,

    #[command(flatten)]
    account: AccountArgs,
}

/// How far the work for a key has come.
#[derive(Clone, Copy, ValueEnum)]
enum StateArg {
    /// Somebody is working on it
    InProgress,
    /// Its last attempt ended without a word: it died, or was cancelled
    Lapsed,
    /// Its last attempt failed and gave it back, or somebody forgot it
    Released,
    /// Done and recorded
    Completed,
    /// Done, but the record is past its expiry
    Expired,
    /// A status that no consumer writes
    Unknown,
}

/// What both changes need.
#[derive(Args)]
struct ChangeArgs {
    #[command(flatten)]
    name: KeyNameArgs,

    /// Do it though somebody is working on the key
    #[arg(long)]
    even_in_progress: bool,

    /// Don't ask
    #[arg(long, short)]
    yes: bool,

    /// Write what was done as a line of JSON: what the key was, and what it is now
    #[arg(long)]
    json: bool,

    /// Append that line to a file
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,

    #[command(flatten)]
    table: TableArgs,

    #[command(flatten)]
    account: AccountArgs,
}

/// Forget a key: its next message runs
///
/// Shows what is known of the key, asks, and writes only if that has not changed since. The item stays, as
/// released and under an owner that nobody has: the fence goes on growing, and a worker from before can no
/// longer complete the key.
#[derive(Args)]
#[command(after_help = "\
Examples:
  cargo sqs-once key forget --table orders-idempotency --namespace payments order-42
  cargo sqs-once key forget --yes --log changes.jsonl --table orders-idempotency 'payments#3f9ab1c20d45'")]
struct ForgetArgs {
    #[command(flatten)]
    change: ChangeArgs,
}

/// Complete a key: its messages are duplicates from now on
///
/// Shows what is known of the key, asks, and writes only if that has not changed since. A key that nothing is
/// known of is written anew: a message that has yet to come will be a duplicate.
#[derive(Args)]
#[command(after_help = "\
Examples:
  cargo sqs-once key complete --table orders-idempotency --namespace payments order-42
  cargo sqs-once key complete --retention 90d --table orders-idempotency --namespace payments order-42")]
struct CompleteArgs {
    #[command(flatten)]
    change: ChangeArgs,

    /// For how long its messages are duplicates, such as 12h or 90d; longer, if it is completed for longer already
    #[arg(long, value_name = "TIME", default_value = "28d", value_parser = humantime::parse_duration)]
    retention: Duration,

    /// The consumer has `readable_keys`: a key that nothing is known of is written in that form
    #[arg(long)]
    readable_keys: bool,
}

/// Why it can't be told, or was not done.
#[cfg(feature = "aws")]
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Connect(#[from] crate::operate::ConnectError),
    #[error(transparent)]
    Name(#[from] sqs_once_operate::NameError),
    #[error(transparent)]
    Operate(#[from] sqs_once_operate::Error),
    #[error(
        "nothing is known of this key: no message with it was ever claimed, or its record has \
         expired and is gone"
    )]
    NotFound,
    #[error(
        "this may be {} keys: name one by its id, or by the kinds of its parts (s:42 is text, i:42 an integer)",
        .0
    )]
    Ambiguous(usize),
    #[error(
        "somebody is working on this key until {until}: wait for that, or say --even-in-progress \
         if the effect may happen beside theirs"
    )]
    InProgress { until: String },
    #[error("the key has changed since it was shown: nothing was written")]
    Changed,
    #[error(transparent)]
    NotConfirmed(#[from] crate::confirm::NotConfirmed),
    #[error("the log {path} can't be written: nothing was changed", path = path.display())]
    OpenLog {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("the log {path} can't be written; its line is on standard error", path = path.display())]
    WriteLog {
        path: PathBuf,
        source: std::io::Error,
    },
}

#[cfg(not(feature = "aws"))]
pub(crate) async fn key(_: KeyArgs) -> Result<(), crate::error::Error> {
    Err(crate::error::Error::NoAws)
}

#[cfg(feature = "aws")]
pub(crate) async fn key(args: KeyArgs) -> Result<(), crate::error::Error> {
    use sqs_once::time::Clock;
    let now = || sqs_once::time::SystemClock.now();
    match args.command {
        KeyCommand::Show(args) => show::show(args, now()).await,
        KeyCommand::List(args) => list::list(args, now()).await,
        KeyCommand::Forget(args) => change::forget(args, now).await,
        KeyCommand::Complete(args) => change::complete(args, now).await,
    }
}
