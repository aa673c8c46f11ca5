//! The arguments of `dev`.

use super::outage::Outage;
use crate::cli::FunctionArgs;
use clap::Args;
use sqs_once_local::Percent;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  cargo sqs-once dev
      Poll a local queue for the function; send to it with the AWS CLI, boto3 or any SDK
  cargo sqs-once dev --send events/orders.json --until-empty
      Handle these messages and end: 0 if none is in the dead-letter queue, 1 otherwise
  cargo sqs-once dev --send events/orders.json --duplicate 20% --kill 5% --drop-response 1%
      The same on a bad day
  cargo sqs-once dev --send events/orders.json --until-empty --report run.html
      Keep what happened, as a web page of one file
  cargo sqs-once dev --queue-url https://sqs.eu-central-1.amazonaws.com/123456789012/orders
      Take messages from a real queue, with your own credentials";

/// Poll a local queue for the function, and rebuild it on every change
///
/// Builds the function and runs the unmodified binary as Lambda does. A poller takes batches from a queue and hands
/// them to execution environments. Batch size, window, concurrency and timeout come from the template. Failed messages
/// return after their visibility timeout, and move to the dead-letter queue at the maximum receive count. An embedded
/// DynamoDB, shared with `invoke`, remembers earlier runs.
///
/// The queues are SQS on 127.0.0.1, and a web page there shows what happens. A change of a source file starts a build.
/// Environments switch to the new binary after they have answered.
///
/// Ctrl-C finishes in-flight invocations; press it again to quit now.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DevArgs {
    #[command(flatten)]
    pub(crate) function: FunctionArgs,

    /// Send the messages in this file at the start, in any format that `invoke` accepts; `-` is standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) send: Vec<PathBuf>,

    /// End when the queue is empty and no invocation is in flight; fail if a message moved to the dead-letter queue
    #[arg(long)]
    pub(crate) until_empty: bool,

    /// Write every event to standard output, one JSON object a line
    #[arg(long)]
    pub(crate) json: bool,

    /// Write the lines about messages at any pace [default: a running tally if a terminal gets over 20 lines a second]
    #[arg(long)]
    pub(crate) verbose: bool,

    /// The port of the local queues [default: a free one]
    #[arg(long)]
    pub(crate) port: Option<u16>,

    /// The port of the web page that shows what happens [default: a free one]
    #[arg(long, value_name = "PORT")]
    pub(crate) page_port: Option<u16>,

    /// Write the events of the run to this file as a web page when it ends
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,

    /// Poll this queue instead of a local one, with your own AWS settings
    ///
    /// The function still writes to the embedded DynamoDB. Messages that it handles are deleted from the queue, so no
    /// other consumer gets them.
    #[arg(long, value_name = "URL", conflicts_with_all = ["send", "port", "fifo", "visibility_timeout", "max_receive_count"])]
    pub(crate) queue_url: Option<String>,

    /// The template's queue to poll, if the function has several
    #[arg(long, value_name = "NAME", conflicts_with = "queue_url")]
    pub(crate) queue: Option<String>,

    #[command(flatten, next_help_heading = "Instead of the template's settings")]
    pub(crate) settings: Settings,

    #[command(flatten, next_help_heading = "Faults; a share is, for example, 20%")]
    pub(crate) faults: FaultArgs,
}

/// Arguments that override the template.
#[derive(Args, Default)]
pub(crate) struct Settings {
    /// The most messages in a batch [default: 10]
    #[arg(long, value_name = "MESSAGES", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) batch_size: Option<u32>,

    /// How long an incomplete batch waits for more messages [default: 0s]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub(crate) window: Option<Duration>,

    /// The most execution environments [default: 2]
    #[arg(long, value_name = "ENVIRONMENTS")]
    pub(crate) concurrency: Option<NonZeroU32>,

    /// How long an invocation may take before its process is killed [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub(crate) timeout: Option<Duration>,

    /// How long a received message stays invisible [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub(crate) visibility_timeout: Option<Duration>,

    /// How many times a message is received before it moves to the dead-letter queue [default: 3]
    #[arg(long, value_name = "TIMES")]
    pub(crate) max_receive_count: Option<NonZeroU32>,

    /// Poll a FIFO queue
    #[arg(long)]
    pub(crate) fifo: bool,
}

/// Arguments that inject faults.
#[derive(Args)]
pub(crate) struct FaultArgs {
    /// The share of messages to deliver twice, at the same time or again after their success
    #[arg(long, value_name = "SHARE")]
    pub(crate) duplicate: Option<Percent>,

    /// The share of invocations whose process to kill
    #[arg(long, value_name = "SHARE")]
    pub(crate) kill: Option<Percent>,

    /// The share of invocations whose answer to lose
    #[arg(long, value_name = "SHARE")]
    pub(crate) drop_response: Option<Percent>,

    /// The share of invocations to start up to 5s late, while the visibility timeout runs
    #[arg(long, value_name = "SHARE", num_args = 0..=1, default_missing_value = "10%")]
    pub(crate) slow: Option<Percent>,

    /// The share of invocations over their timeout whose process lives on and answers late, as Lambda permits
    #[arg(long, value_name = "SHARE", num_args = 0..=1, default_missing_value = "100%")]
    pub(crate) outlive: Option<Percent>,

    /// Play an outage: `unavailable=payments:2m` opens the breaker of the dependency `payments` for 2 minutes from the start
    ///
    /// The function holds its records back, and tries one when the time is over. Its handler is not called before, so it sees
    /// no error of the service. Messages return as late as after a real outage, soonest with `--max-receive-count 20`.
    #[arg(long = "fault", value_name = "FAULT")]
    pub(crate) outages: Vec<Outage>,

    /// The seed of all faults [default: a random one]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) seed: Option<u64>,
}
