//! `cargo sqs-once breaker`: shows, opens and closes the breakers of dependencies.

#[cfg(feature = "aws")]
mod run;
#[cfg(feature = "aws")]
mod shown;

use crate::cli::Format;
use crate::operate::{TableArgs, WriteArgs};
use clap::{Args, Subcommand};
#[cfg(feature = "aws")]
pub(crate) use run::breaker;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  Which dependencies are unavailable, and when a worker tries them again:
    cargo sqs-once breaker show --table orders-idempotency
  Before a maintenance of two hours (wait 30 s, until all environments have read it), and after it:
    cargo sqs-once breaker open --table orders-idempotency payments --for 2h
    cargo sqs-once breaker close --table orders-idempotency payments

Credentials, profile and region are those that the AWS CLI finds: AWS_PROFILE, AWS_REGION, SSO, roles. Another endpoint
is set by AWS_ENDPOINT_URL_DYNAMODB.";

/// Show, open or close the breakers of dependencies
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct BreakerArgs {
    #[command(subcommand)]
    command: BreakerCommand,
}

#[derive(Subcommand)]
enum BreakerCommand {
    Show(ShowArgs),
    Open(OpenArgs),
    /// Close a breaker
    ///
    /// Shows the breaker and asks. Writes only if it has not changed since. It can open again at once.
    ///
    /// Environments that know it as open read it again after 30 s, or after the pause that `probe_every` sets.
    #[command(after_help = "\
Examples:
  cargo sqs-once breaker close --table orders-idempotency payments")]
    Close(ChangeArgs),
}

/// Show a breaker, or all breakers in the table
///
/// Without a name, reads the whole table. On a large table this costs read units and time. A breaker without an item is
/// closed, and is not listed.
#[derive(Args)]
#[command(after_help = "\
Examples:
  cargo sqs-once breaker show --table orders-idempotency
  cargo sqs-once breaker show --table orders-idempotency --format json payments | jq .state")]
struct ShowArgs {
    /// The dependency
    #[arg(value_name = "NAME")]
    name: Option<String>,

    /// The form of the result; `json` has a line for each breaker
    #[arg(long, value_enum, default_value_t)]
    format: Format,

    #[command(flatten)]
    table: TableArgs,
}

/// Arguments of both changes.
#[derive(Args)]
struct ChangeArgs {
    /// The dependency
    #[arg(value_name = "NAME")]
    name: String,

    #[command(flatten)]
    write: WriteArgs,

    #[command(flatten)]
    table: TableArgs,
}

/// Open a breaker for some time, or change when an open one ends
///
/// Shows the breaker and asks. Writes only if it has not changed since. After that time, a worker sends a probe.
///
/// Running environments read it with their first batch after 30 s.
#[derive(Args)]
#[command(after_help = "\
Examples:
  cargo sqs-once breaker open --table orders-idempotency payments --for 2h")]
struct OpenArgs {
    /// How long from now, such as 30m or 2h
    #[arg(long = "for", value_name = "TIME", value_parser = some_time)]
    duration: Duration,

    #[command(flatten)]
    change: ChangeArgs,
}

fn some_time(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(Duration::ZERO) => Err("no time; `breaker close` closes it".to_owned()),
        parsed => parsed.map_err(|error| error.to_string()),
    }
}
