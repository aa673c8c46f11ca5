//! `cargo sqs-once dlq`: the messages of a dead-letter queue, joined with the table of their keys.

#[cfg(feature = "aws")]
mod blocks;
#[cfg(feature = "aws")]
mod connect;
#[cfg(feature = "aws")]
mod drop;
#[cfg(feature = "aws")]
mod list;
#[cfg(feature = "aws")]
mod redrive;
#[cfg(feature = "aws")]
mod replay;
#[cfg(feature = "aws")]
mod shown;

use crate::cli::Format;
#[cfg(feature = "aws")]
use crate::interrupt::Interrupt;
use crate::operate::{ConsumerArgs, TableArgs, WriteArgs};
use clap::{Args, Subcommand, ValueEnum};
#[cfg(feature = "aws")]
use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  Why messages are in the queue, in groups:
    cargo sqs-once dlq list --queue orders-dlq
  The messages of a group, and what the table knows of them:
    cargo sqs-once dlq list --queue orders-dlq --table orders-idempotency --group 5d41402a
  Messages that SQS itself has moved don't say their key; this finds it in their bodies:
    cargo sqs-once dlq list --queue orders-dlq --table orders-idempotency --namespace payments \
      --group moved-by-sqs --key-from /order_id
  Everything about one message:
    cargo sqs-once dlq show --queue orders-dlq --table orders-idempotency 0b9b8f0e-7c0d-4d5c-9f53-0a4d1c1f2d3e
  Back to the queue they came from, but for those that are completed:
    cargo sqs-once dlq redrive --queue orders-dlq --table orders-idempotency --all
  Out with those that are completed:
    cargo sqs-once dlq drop --queue orders-dlq --table orders-idempotency --state completed --save dropped.jsonl

Looking at a message receives it, which its receive count shows. Credentials, profile and region are those that the AWS CLI
finds: AWS_PROFILE, AWS_REGION, SSO, roles. Other endpoints are set by AWS_ENDPOINT_URL_SQS and AWS_ENDPOINT_URL_DYNAMODB.";

/// Show, redrive or drop the messages of a dead-letter queue
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
    Blocks(BlocksArgs),
    Unblock(UnblockArgs),
}

/// Selects the queue, and how to find its messages' keys.
#[derive(Args)]
struct QueueArgs {
    /// The dead-letter queue, by its name or URL
    #[arg(long, value_name = "QUEUE")]
    queue: String,

    /// The place of the key: /order/id in the body, or attribute:NAME; for messages that do not contain their key's id. Give
    /// it once for each part of the key, in their order. If several consumers get the same messages and share this queue,
    /// also give --source-queue
    #[arg(long, value_name = "PLACE", value_parser = part_from)]
    key_from: Vec<String>,

    #[command(flatten)]
    consumer: ConsumerArgs,

    #[command(flatten)]
    table: TableArgs,
}

/// Selects messages of the queue.
#[derive(Args)]
#[group(id = "which", required = true, multiple = true, args = ["ids", "all", "state", "group", "reason", "message_group", "source_queue"])]
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

    #[command(flatten)]
    cause: CauseArgs,
}

/// Selects messages by why they are here, and where they came from.
#[derive(Args)]
struct CauseArgs {
    /// Only messages of this group, by its name in `dlq list`; may be given more than once
    #[arg(long, value_name = "GROUP")]
    group: Vec<String>,

    /// Only messages whose reason starts with this and a colon, such as `unavailable`; may be given more than once
    #[arg(long, value_name = "WORD")]
    reason: Vec<String>,

    /// Only messages of this message group, as the producer names it; may be given more than once
    #[arg(long, value_name = "MESSAGE_GROUP")]
    message_group: Vec<String>,

    /// Only messages that came from this queue, by its name or ARN; may be given more than once
    #[arg(long, value_name = "QUEUE")]
    source_queue: Vec<String>,
}

/// The state of a message's key.
#[derive(Clone, Copy, ValueEnum)]
enum StateArg {
    /// The key of the message is not known
    UnknownKey,
    /// The table has no item for the key
    NeverStarted,
    /// A worker is processing the key
    InProgress,
    /// The last attempt failed, or its worker died
    Failed,
    /// The effect is done
    Completed,
    /// The key was completed for another payload, and the message had no effect. With --key-from also if the payloads can't
    /// be compared
    OtherPayload,
    /// The table has an item under the key that no consumer writes
    Unreadable,
}

/// List the groups of messages with one reason, or the messages
///
/// A group has the messages whose reasons differ only in numbers, ids and quoted text. Lists for each group its number of
/// messages, when the first and the last were sent, and the id and reason of one. With --all or --group, lists the
/// messages.
///
/// Receives the messages for at most 15 minutes and releases all of them at the end. On a FIFO queue, shows at most the
/// first ten messages of each message group: SQS returns no more until those are gone.
#[derive(Args)]
#[command(after_help = "\
Examples:
  Why messages are here, the most frequent reason first:
    cargo sqs-once dlq list --queue orders-dlq
  The messages of one group, with what the table knows of them:
    cargo sqs-once dlq list --queue orders-dlq --table orders-idempotency --group 5d41402a
  The ids of all messages whose effect is done:
    cargo sqs-once dlq list --queue orders-dlq --table orders-idempotency --all --state completed --format json | jq .id")]
struct ListArgs {
    /// List the messages of all groups
    #[arg(long)]
    all: bool,

    #[command(flatten)]
    cause: CauseArgs,

    /// Only messages in this state; may be given more than once
    #[arg(long, value_enum, value_name = "STATE")]
    state: Vec<StateArg>,

    /// The most messages to list, or to count in groups [default: 100, or in groups 10000]
    #[arg(long, value_name = "MESSAGES")]
    limit: Option<NonZeroUsize>,

    /// The form of the result; `json` has a line for each row
    #[arg(long, value_enum, default_value_t)]
    format: Format,

    #[command(flatten)]
    queue: QueueArgs,
}

/// Show one message in full: body, attributes, and why it is here
///
/// Receives messages until it finds this one, or the first of the group, and releases all of them.
#[derive(Args)]
#[command(after_help = "\
Examples:
  cargo sqs-once dlq show --queue orders-dlq --table orders-idempotency 0b9b8f0e-7c0d-4d5c-9f53-0a4d1c1f2d3e
  cargo sqs-once dlq show --queue orders-dlq --table orders-idempotency --group 5d41402a")]
#[group(id = "one", required = true, multiple = true, args = ["id", "group", "reason", "message_group", "source_queue"])]
struct ShowArgs {
    /// The message's id
    #[arg(value_name = "MESSAGE_ID")]
    id: Option<String>,

    #[command(flatten)]
    cause: CauseArgs,

    /// The form of the result
    #[arg(long, value_enum, default_value_t)]
    format: Format,

    #[command(flatten)]
    queue: QueueArgs,
}

/// Send messages back to the queue they came from
///
/// Sends each message with its body, attributes, message group and trace header, and then deletes it. The `sqs-once-…`
/// attributes that describe the failure are removed. Keeps the order of a FIFO queue. It can be interrupted at any time
/// and run again: no message is lost, and the consumer recognises a message sent twice as a duplicate.
///
/// With --all it asks first. With --format json, the last line is the total.
///
/// Messages whose effect is done stay, unless --even-completed is set. So do messages that SQS refuses, for example for
/// their size, later messages of their FIFO group, and messages that fail again meanwhile and come back. Failure records of
/// an event bus stay too: they are no events, and the command prints how to replay these. Fails if messages had to stay.
#[derive(Args)]
#[command(after_help = "\
Examples:
  cargo sqs-once dlq redrive --queue orders-dlq --table orders-idempotency --all
  cargo sqs-once dlq redrive --queue orders-dlq --table orders-idempotency --state failed --state never-started
  After an outage, the messages that did not outlast it, and no others:
    cargo sqs-once dlq redrive --queue orders-dlq --table orders-idempotency --reason unavailable
  One message group of a FIFO queue, in order:
    cargo sqs-once dlq redrive --queue orders-dlq.fifo --table orders-idempotency --message-group customer-7
  cargo sqs-once dlq redrive --queue orders-dlq --even-completed --to orders 0b9b8f0e-7c0d-4d5c-9f53-0a4d1c1f2d3e")]
struct RedriveArgs {
    /// The queue to send to, by name or URL [default: the queue of --source-queue, or else the queue that uses this
    /// dead-letter queue. Messages that came from another queue stay]
    #[arg(long, value_name = "QUEUE")]
    to: Option<String>,

    /// Also send messages whose effect is done; needs no table
    #[arg(long)]
    even_completed: bool,

    /// Let messages start another execution whose reason is that theirs has failed. Steps that succeeded run again
    #[arg(long)]
    restart: bool,

    #[command(flatten)]
    change: ChangeArgs,
}

/// Delete messages for good
///
/// Shows the messages and asks. With --save, they are on disk in that file before the first one is deleted. On a FIFO
/// queue, one run drops at most ten messages of each message group.
#[derive(Args)]
#[command(after_help = "\
Examples:
  cargo sqs-once dlq drop --queue orders-dlq --table orders-idempotency --state completed --save dropped.jsonl
  cargo sqs-once dlq drop --queue orders-dlq 0b9b8f0e-7c0d-4d5c-9f53-0a4d1c1f2d3e")]
struct DropArgs {
    /// Append the messages to a file, one line of JSON each
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,

    #[command(flatten)]
    change: ChangeArgs,
}

/// List the message groups that wait behind a dead letter
///
/// Reads the whole table. On a large table this costs read units and time. Only a FIFO queue whose consumer sets
/// `keep_order` has such groups.
#[derive(Args)]
#[command(after_help = "\
Examples:
  cargo sqs-once dlq blocks --table orders-idempotency")]
struct BlocksArgs {
    /// The form of the result; `json` has a line for each group
    #[arg(long, value_enum, default_value_t)]
    format: Format,

    #[command(flatten)]
    table: TableArgs,
}

/// Let a message group go on whose dead letters never come back
///
/// Shows the group and asks. Writes only if it has not changed since. Its new messages run at once, before those that
/// still wait in the dead-letter queue. To keep the order, redrive those instead.
#[derive(Args)]
#[command(after_help = "\
Examples:
  cargo sqs-once dlq unblock --table orders-idempotency customer-7")]
struct UnblockArgs {
    /// The message group, as the producer names it
    #[arg(value_name = "MESSAGE_GROUP")]
    message_group: String,

    /// The queue of the group, by name or ARN, if groups of several queues have this name
    #[arg(long, value_name = "QUEUE")]
    source_queue: Option<String>,

    #[command(flatten)]
    write: WriteArgs,

    #[command(flatten)]
    table: TableArgs,
}

/// Arguments of both changes.
#[derive(Args)]
struct ChangeArgs {
    #[command(flatten)]
    selection: SelectionArgs,

    #[command(flatten)]
    write: WriteArgs,

    #[command(flatten)]
    queue: QueueArgs,
}

fn part_from(text: &str) -> Result<String, &'static str> {
    let escapes = text.split('~').skip(1);
    let is_escaped = escapes.into_iter().all(|rest| rest.starts_with(['0', '1']));
    match (text.starts_with('/') && is_escaped) || text.starts_with(ATTRIBUTE) {
        true => Ok(text.to_owned()),
        false => Err(
            "it is neither attribute:NAME nor a JSON pointer, which starts with `/` and writes `~` as `~0`, such as /order/id",
        ),
    }
}

/// Before the name of a message attribute in `--key-from`.
const ATTRIBUTE: &str = "attribute:";

/// The error that messages were not found.
#[cfg(feature = "aws")]
fn missing(ids: &BTreeSet<String>) -> anyhow::Error {
    let ids: Vec<_> = ids.iter().map(String::as_str).collect();
    anyhow::anyhow!(
        "{}: not received from the queue; another receiver may have it, or earlier messages of its FIFO group are before it",
        ids.join(", ")
    )
}

#[cfg(feature = "aws")]
pub(crate) async fn dlq(args: DlqArgs) -> anyhow::Result<()> {
    let interrupt = Interrupt::listen(
        "stopping and releasing the messages; press Ctrl-C again to stop at once",
    );
    match args.command {
        DlqCommand::List(args) => list::list(args, &interrupt).await,
        DlqCommand::Show(args) => list::show(args, &interrupt).await,
        DlqCommand::Redrive(args) => redrive::redrive(args, &interrupt).await,
        DlqCommand::Drop(args) => drop::drop(args, &interrupt).await,
        DlqCommand::Blocks(args) => blocks::blocks(&args).await,
        DlqCommand::Unblock(args) => blocks::unblock(&args).await,
    }
}
