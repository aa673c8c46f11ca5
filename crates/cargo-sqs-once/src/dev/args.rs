//! The arguments of `dev`.

use super::fault::Fault;
use crate::cli::{Format, FunctionArgs};
use clap::Args;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  cargo sqs-once dev
      Poll a local queue for the function; send to it with the AWS CLI, boto3 or any SDK
  cargo sqs-once dev --send events/orders.json --until-empty
      Handle these messages and end: 0 if none is in the dead-letter queue, 1 otherwise
  cargo sqs-once dev --send events/orders.json --fault duplicate=20% --fault kill=5%
      The same on a bad day
  cargo sqs-once dev --send events/orders.json --until-empty --report run.html
      Keep what happened, as a web page of one file
  cargo sqs-once dev --queue https://sqs.eu-central-1.amazonaws.com/123456789012/orders
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

    /// The form of standard output: a line for each message, or `json`, which has a line for each event
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,

    /// The port of the local queues; the next ones are those of the web page, DynamoDB and S3 [default: free ones]
    #[arg(long, value_parser = clap::value_parser!(u16).range(..65533))]
    pub(crate) port: Option<u16>,

    /// Write the events of the run to this file as a web page when it ends
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,

    /// The template's queue to poll, if the function has several, or the URL of a real queue
    ///
    /// A real queue is polled with your own AWS settings. The function still writes to the embedded DynamoDB. Messages that
    /// it handles are deleted from the queue, so no other consumer gets them.
    #[arg(long, value_name = "QUEUE")]
    pub(crate) queue: Option<String>,

    /// The region of the real queue, if its URL does not name one
    #[arg(long, value_name = "NAME", requires = "queue")]
    pub(crate) region: Option<String>,

    #[command(flatten, next_help_heading = "Instead of the template's settings")]
    pub(crate) settings: Settings,

    #[command(flatten, next_help_heading = "Faults")]
    pub(crate) faults: FaultArgs,
}

impl DevArgs {
    /// The URL of the real queue to poll.
    pub(crate) fn queue_url(&self) -> Option<&str> {
        self.queue.as_deref().filter(|queue| queue.contains("://"))
    }

    /// The port of the server at this place after the queues. 0 is a free one.
    pub(crate) fn port(&self, place: u16) -> u16 {
        let given = self.port.filter(|port| *port > 0);
        given.map_or(0, |port| port + place)
    }
}

/// Arguments that override the template.
#[derive(Args, Default)]
pub(crate) struct Settings {
    /// The most execution environments [default: 2]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) environments: Option<NonZeroU32>,

    /// How long an invocation may take before its process is killed [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub(crate) timeout: Option<Duration>,

    /// How long a received message stays invisible [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub(crate) visibility_timeout: Option<Duration>,

    /// Poll a FIFO queue
    #[arg(long)]
    pub(crate) fifo: bool,
}

/// Arguments that inject faults.
#[derive(Args)]
pub(crate) struct FaultArgs {
    /// Inject a fault, such as duplicate=20%, kill=5%, drop-response=1%, slow=10%, outlive=100% or
    /// unavailable=payments:2m; may be repeated
    ///
    /// duplicate: the share of messages to deliver twice, at the same time or again after their success.
    ///
    /// kill: the share of invocations whose process to kill.
    ///
    /// drop-response: the share of invocations whose answer to lose.
    ///
    /// slow: the share of invocations to start up to 5s late, while the visibility timeout runs.
    ///
    /// outlive: the share of invocations over their timeout whose process lives on and answers late, as Lambda permits.
    ///
    /// unavailable: a dependency and a time. Its breaker is open for that time from the start. The function holds its
    /// messages back, and tries one when the time is over. Its handler is not called before, so it sees no error of the
    /// service. Messages return as late as after a real outage, and each return counts as a delivery.
    #[arg(long = "fault", value_name = "KIND=SHARE", value_parser = Fault::parse)]
    pub(super) faults: Vec<Fault>,

    /// The seed of all faults [default: a random one]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) seed: Option<u64>,
}
