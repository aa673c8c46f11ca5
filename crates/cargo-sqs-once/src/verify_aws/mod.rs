//! `cargo sqs-once verify-aws`: tries the library on the user's own AWS account, and leaves nothing behind.
//!
//! How it deploys: direct requests, one for each resource.
//!
//! - Deletion is certain: the name of each resource follows from the run's prefix, and its tag is part of the request
//!   that creates it. A run that was killed leaves names and tags, which `--clean` finds.
//! - DynamoDB and SQS have their SDKs in this crate. Those of Lambda, IAM and CloudWatch Logs build four times as long
//!   as DynamoDB's, for twenty operations. [`requests`] signs these requests with the SDK's own `aws-sigv4`.
//! - A CloudFormation stack would need a bucket for the function's code, and something that deletes the bucket.
//! - The AWS CLI would be one more tool to install, and each of its calls takes a second of CPU time.
//!
//! Only [`wait`] sleeps.

mod account;
mod build;
mod delete;
mod deploy;
mod effects;
mod error;
mod invocations;
mod latency;
mod leftovers;
mod messages;
mod metrics;
mod names;
mod price;
mod report;
mod requests;
mod run;
mod suite;
mod traffic;
mod wait;

use crate::confirm::ask;
use crate::interrupt::Interrupt;
use crate::operate::AccountArgs;
use crate::print;
use account::Account;
use anyhow::{Context, Result, bail};
use messages::Messages;
use price::Usage;
use report::dollars;
use std::path::PathBuf;
use std::time::Duration;
use wait::Waits;

const EXAMPLES: &str = "\
Examples:
  cargo sqs-once verify-aws --region eu-central-1
  cargo sqs-once verify-aws --region eu-central-1 --yes --messages 1000 --report report.md
  What an earlier run left, because it was killed:
    cargo sqs-once verify-aws --region eu-central-1 --clean

Credentials are those that the AWS CLI finds. Other endpoints are set by AWS_ENDPOINT_URL and its variants for services.";

/// Try the library on your AWS account, and delete everything afterwards
///
/// Creates tables, queues, a role, a log group and a function, all with a random prefix and a tag. Runs the conformance
/// suite of stores on a real table. Sends orders with duplicates and poison, waits for all retries, and checks every
/// effect. Measures latency, cold starts and cost. Deletes what it created, also after Ctrl-C and after an error.
///
/// Prints the expected cost and asks first. Writes a report that you can attach to an issue.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct VerifyAwsArgs {
    /// The number of messages to send
    #[arg(long, value_name = "MESSAGES", default_value = "10000",
        value_parser = clap::value_parser!(u32).range(i64::from(messages::FEWEST)..=1_000_000))]
    messages: u32,

    /// The report to write, in Markdown
    #[arg(long, value_name = "FILE", default_value = "verify-aws-report.md")]
    report: PathBuf,

    /// Don't ask
    #[arg(long, short)]
    yes: bool,

    /// Delete what earlier runs left, and do nothing else
    #[arg(long)]
    clean: bool,

    /// The processor of the function
    #[arg(long, value_enum, default_value_t = Architecture::Arm64)]
    architecture: Architecture,

    /// The zip of a function that is built already, from a project that `new --transactional` made
    #[arg(long, value_name = "FILE")]
    zip: Option<PathBuf>,

    /// The sqs-once to test: a checkout's folder, a git URL, or `released` [default: the checkout that this command was built from, or else the released version]
    #[arg(long, value_name = "SOURCE", conflicts_with = "zip")]
    sqs_once: Option<PathBuf>,

    /// How often to start the function cold
    #[arg(
        long,
        value_name = "TIMES",
        default_value = "5",
        hide_short_help = true
    )]
    cold_starts: u32,

    /// How long the queue may take to become empty, each of two times
    #[arg(long, value_name = "TIME", default_value = "60m", hide_short_help = true, value_parser = humantime::parse_duration)]
    timeout: Duration,

    /// How long to wait for CloudWatch's metrics of the tables
    #[arg(long, value_name = "TIME", default_value = "5m", hide_short_help = true, value_parser = humantime::parse_duration)]
    metrics_timeout: Duration,

    #[command(flatten)]
    account: AccountArgs,
}

/// A processor that Lambda has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Architecture {
    #[value(name = "arm64")]
    Arm64,
    #[value(name = "x86_64")]
    X86_64,
}

impl Architecture {
    fn name(self) -> &'static str {
        match self {
            Architecture::Arm64 => "arm64",
            Architecture::X86_64 => "x86_64",
        }
    }
}

pub(crate) async fn verify_aws(args: VerifyAwsArgs) -> Result<()> {
    let interrupt = &Interrupt::listen(
        "stopping, and deleting what this run created; press Ctrl-C again to leave it there",
    );
    let waits = &Waits { interrupt };
    let zip = args.zip.as_deref().map(build::read).transpose()?;
    let AccountArgs { profile, region } = &args.account;
    let config = sqs_once_operate::sdk_config(profile.as_deref(), region.as_deref());
    let config = waits.unless_interrupted(Box::pin(config)).await??;
    let account = &Account::new(&config)?;
    let id = waits
        .unless_interrupted(sqs_once_operate::account(&config))
        .await?;
    let place = match id {
        Some(id) => format!("{}, account {id}", account.region),
        None => account.region.clone(),
    };
    if args.clean {
        return leftovers::clean(account, waits, &place, args.yes).await;
    }
    let messages = &Messages::new(args.messages);
    let expected = Usage::expected(messages, args.cold_starts);
    print::note(&plan(&args, messages, &expected, &place));
    leftovers::note(account, waits).await?;
    ask(&format!("Create all this in {place}?"), args.yes, interrupt).await?;
    let zip = match zip {
        Some(zip) => zip,
        None => {
            print::note("building the function");
            let built = build::function(args.architecture, args.sqs_once.clone());
            waits.unless_interrupted(built).await??
        }
    };
    let report = run::run(account, waits, &args, messages, expected, &zip).await?;
    let path = args.report.display();
    // AWS's own texts may be in it.
    let text = print::lines(&report.markdown());
    std::fs::write(&args.report, &text)
        .with_context(|| format!("the report can't be written to {path}"))?;
    print::result(text)?;
    match report.is_good() {
        true => Ok(()),
        false => bail!("{} See {path}", report.verdict()),
    }
}

/// Describes what a run will create and what it will cost.
fn plan(args: &VerifyAwsArgs, messages: &Messages, expected: &Usage, place: &str) -> String {
    let cost = dollars(expected.dollars(args.architecture));
    format!(
        "In {place}, this creates 4 tables, 2 queues, a role, a log group, a function and its event source mapping, and \
         deletes them at the end.\n\
         It sends {} messages: {} orders, {} duplicates and {} poison messages. SQS delivers {} of them {} times, \
         {} s apart.\n\
         It costs at most about {cost}, at the prices of us-east-1 without a free tier.",
        messages.count(),
        messages.orders.len(),
        messages.duplicates,
        messages.poison.len(),
        messages.retried,
        deploy::DELIVERIES,
        deploy::VISIBILITY.as_secs(),
    )
}
