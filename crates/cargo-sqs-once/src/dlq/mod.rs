//! `cargo sqs-once dlq`: a dead-letter queue's messages, joined with the table that keeps their keys.

#[cfg(feature = "aws")]
mod connect;
#[cfg(feature = "aws")]
mod drop;
#[cfg(feature = "aws")]
mod interrupt;
#[cfg(feature = "aws")]
mod look;
#[cfg(feature = "aws")]
mod redrive;
#[cfg(feature = "aws")]
mod shown;

use crate::operate::{AccountArgs, TableArgs};
use clap::{Args, Subcommand, ValueEnum};
use std::num::NonZeroUsize;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  What is in the queue, why, and what the table knows of it:
    cargo sqs-once dlq list --queue orders-dlq --table orders-idempotency
  Messages that SQS itself has moved don't say their key; this finds it in their bodies:
    cargo sqs-once dlq list --queue orders-dlq --table orders-idempotency --namespace payments --key-from /order_id
  Everything about one message:
    cargo sqs-once dlq show --queue orders-dlq --table orders-idempotency 0b9b8f0e-7c0d-4d5c-9f53-0a4d1c1f2d3e
  Back to the queue they came from, but for those that are completed:
    cargo sqs-once dlq redrive --queue orders-dlq --table orders-idempotency --all
  Out with those that are completed:
    cargo sqs-once dlq drop --queue orders-dlq --table orders-idempotency --state completed --save dropped.jsonl

Looking at a message receives it, which its receive count shows. Credentials are those that the AWS CLI finds. Other
endpoints are set by AWS_ENDPOINT_URL_SQS and AWS_ENDPOINT_URL_DYNAMODB.";

/// Show what is in a dead-letter queue, send it back, or drop it
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DlqArgs {
    #[command(subcommand)]
    command: DlqCommand,
}

#[derive(Subcommand)]
enum DlqCommand {
    List(ListArgs),
    Show(ShowArgs),
    Redrive(RedriveArgs),
    Drop(DropArgs),
}

/// Which queue, and how its messages' keys are found.
#[derive(Args)]
struct QueueArgs {
    /// The dead-letter queue, by its name
    #[arg(
        long,
        value_name = "NAME",
        required_unless_present = "queue_url",
        conflicts_with = "queue_url"
    )]
    queue: Option<String>,

    /// The dead-letter queue, by its URL
    #[arg(long, value_name = "URL")]
    queue_url: Option<String>,

    /// Where a message's body has its key, if the message does not say it itself, such as /order/id; once for each part
    #[arg(long, value_name = "JSON_POINTER", value_parser = pointer)]
    key_from: Vec<String>,

    #[command(flatten)]
    table: TableArgs,

    #[command(flatten)]
    account: AccountArgs,
}

/// Which of its messages.
#[derive(Args)]
#[group(id = "which", required = true, multiple = true, args = ["ids", "all", "state"])]
struct SelectionArgs {
    /// Messages, by their ids
    #[arg(value_name = "MESSAGE_ID")]
    ids: Vec<String>,

    /// All messages
    #[arg(long, conflicts_with = "ids")]
    all: bool,

    /// Only messages in this state; may be given more than once
    #[arg(long, value_enum, value_name = "STATE")]
    state: Vec<StateArg>,
}

/// Where the work for a message stands.
#[derive(Clone, Copy, ValueEnum)]
enum StateArg {
    /// Its key is not known
    UnknownKey,
    /// Nothing is known of its key
    NeverStarted,
    /// Somebody is working on its key
    InProgress,
    /// Its last attempt failed or died
    Failed,
    /// Its effect is done
    Completed,
    /// The table has something else under its key
    Unreadable,
}

/// List the messages
///
/// Receives them, at most 15 minutes long, and puts them all back in the end. Of a FIFO queue, each message group
/// shows its first ten messages at most: SQS gives no more before those are gone.
#[derive(Args)]
#[command(after_help = "\
Examples:
  cargo sqs-once dlq list --queue orders-dlq --table orders-idempotency
  cargo sqs-once dlq list --queue orders-dlq --table orders-idempotency --state completed --json | jq .id")]
struct ListArgs {
    /// Only messages in this state; may be given more than once
    #[arg(long, value_enum, value_name = "STATE")]
    state: Vec<StateArg>,

    /// How many messages to list
    #[arg(long, value_name = "MESSAGES", default_value = "100")]
    limit: NonZeroUsize,

    /// Write JSON lines
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    queue: QueueArgs,
}

/// Show all of one message: body, attributes, why it is here
///
/// Receives messages until it comes, and puts them all back.
#[derive(Args)]
#[command(after_help = "\
Examples:
  cargo sqs-once dlq show --queue orders-dlq --table orders-idempotency 0b9b8f0e-7c0d-4d5c-9f53-0a4d1c1f2d3e")]
struct ShowArgs {
    /// The message's id
    #[arg(value_name = "MESSAGE_ID")]
    id: String,

    /// Write JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    queue: QueueArgs,
}

/// Send messages back to the queue they came from
///
/// Each is sent first and deleted then, with its body, attributes, message group and trace header; the `sqs-once-…`
/// attributes that say why it failed stay behind. A FIFO queue's messages go in their order. It may be interrupted at
/// any time and run again: nothing is lost, and what was sent twice is a duplicate for the consumer.
///
/// With --all it asks first.
///
/// Messages whose effect is done stay where they are, unless told otherwise; so do those behind them in a FIFO group,
/// and those that fail again meanwhile and come back. Fails if messages had to stay.
#[derive(Args)]
#[command(after_help = "\
Examples:
  cargo sqs-once dlq redrive --queue orders-dlq --table orders-idempotency --all
  cargo sqs-once dlq redrive --queue orders-dlq --table orders-idempotency --state failed --state never-started
  cargo sqs-once dlq redrive --queue orders-dlq --even-completed --to orders 0b9b8f0e-7c0d-4d5c-9f53-0a4d1c1f2d3e")]
struct RedriveArgs {
    #[command(flatten)]
    selection: SelectionArgs,

    /// The queue to send to, by name or URL [default: the one whose dead-letter queue this is]
    #[arg(long, value_name = "QUEUE")]
    to: Option<String>,

    /// Send messages whose effect is done, too; then no table is needed
    #[arg(long)]
    even_completed: bool,

    /// Don't ask before all messages are sent
    #[arg(long, short)]
    yes: bool,

    /// Write a line of JSON for every message, and one for all
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    queue: QueueArgs,
}

/// Delete messages for good
///
/// Shows them and asks. With --save they are in that file, on the disk, before the first of them is deleted. Of a FIFO
/// queue, one run drops ten messages of each message group at most.
#[derive(Args)]
#[command(after_help = "\
Examples:
  cargo sqs-once dlq drop --queue orders-dlq --table orders-idempotency --state completed --save dropped.jsonl
  cargo sqs-once dlq drop --queue orders-dlq 0b9b8f0e-7c0d-4d5c-9f53-0a4d1c1f2d3e")]
struct DropArgs {
    #[command(flatten)]
    selection: SelectionArgs,

    /// Append the messages to a file, a line of JSON each
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,

    /// Don't ask
    #[arg(long, short)]
    yes: bool,

    /// Write a line of JSON for every message that is gone
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    queue: QueueArgs,
}

/// A JSON pointer that `JsonPointer` takes.
fn pointer(text: &str) -> Result<String, &'static str> {
    let escapes = text.split('~').skip(1);
    let is_escaped = escapes.into_iter().all(|rest| rest.starts_with(['0', '1']));
    match text.starts_with('/') && is_escaped {
        true => Ok(text.to_owned()),
        false => Err("a JSON pointer starts with `/` and writes `~` as `~0`, such as /order/id"),
    }
}

/// Why it can't be told, or was not done.
#[cfg(feature = "aws")]
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Connect(#[from] crate::operate::ConnectError),
    #[error(transparent)]
    Operate(#[from] sqs_once_operate::Error),
    #[error(
        "which table? Give --table, or set SQS_ONCE_TABLE: without it, nobody knows what is completed (--even-completed sends it all the same)"
    )]
    NoTable,
    #[error("--state needs the table: give --table, or set SQS_ONCE_TABLE")]
    NoTableForState,
    #[error(
        "{}: not received from the queue; somebody else may have received it just now, or it stands behind others of its FIFO group",
        .0.join(", ")
    )]
    Missing(Vec<String>),
    #[error("{0}")]
    Stay(String),
    #[error(transparent)]
    NotConfirmed(#[from] crate::confirm::NotConfirmed),
    #[error(
        "the answer took so long that the messages may be elsewhere by now: nothing was dropped"
    )]
    TooLate,
    #[error("the messages can't be saved to {path}: nothing was dropped", path = path.display())]
    Save {
        path: PathBuf,
        source: std::io::Error,
    },
}

#[cfg(not(feature = "aws"))]
pub(crate) async fn dlq(_: DlqArgs) -> Result<(), crate::error::Error> {
    Err(crate::error::Error::NoAws)
}

#[cfg(feature = "aws")]
pub(crate) async fn dlq(args: DlqArgs) -> Result<(), crate::error::Error> {
    let interrupt = interrupt::Interrupt::listen();
    match args.command {
        DlqCommand::List(args) => look::list(args, &interrupt).await,
        DlqCommand::Show(args) => look::show(args, &interrupt).await,
        DlqCommand::Redrive(args) => redrive::redrive(args, &interrupt).await,
        DlqCommand::Drop(args) => drop::drop(args, &interrupt).await,
    }
}
