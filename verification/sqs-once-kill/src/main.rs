//! `cargo run --release -p sqs-once-kill -- --messages 100000 --kills 1000 --seed 1`

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command line")]

use std::process::ExitCode;

use clap::Parser;
use sqs_once::Error;
use sqs_once_kill::{Plan, Way, run, worker};

/// Kills processes of a consumer at random, and checks every order.
///
/// If `AWS_LAMBDA_RUNTIME_API` is set, this program runs as such a process.
#[derive(Parser)]
struct Args {
    /// How the consumer works. May be repeated. The first three ways keep their promise; the others do not, which tests
    /// that the checks find violations.
    #[arg(long = "way", value_enum, default_values_t = [Way::ClaimFirst, Way::Fifo, Way::Transactional])]
    ways: Vec<Way>,
    /// The total number of messages; every sixth is a copy.
    #[arg(long, default_value_t = 100_000)]
    messages: usize,
    /// The total number of kills.
    #[arg(long, default_value_t = 1000)]
    kills: usize,
    /// The number of execution environments.
    #[arg(long, default_value_t = 6)]
    environments: usize,
    /// Of 1,000 requests to DynamoDB and SQS, how many fail.
    #[arg(long, default_value_t = 20)]
    faults: usize,
    /// The seed that determines the messages, the faults and the kills.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[tokio::main]
async fn main() -> Result<ExitCode, Error> {
    if std::env::var_os("AWS_LAMBDA_RUNTIME_API").is_some() {
        worker::run().await?;
        return Ok(ExitCode::SUCCESS);
    }
    let args = Args::parse();
    let ways = args.ways.len().max(1);
    let mut adds_up = true;
    for way in args.ways {
        let plan = Plan {
            way,
            function: std::env::current_exe()?,
            messages: args.messages.div_ceil(ways),
            kills: args.kills.div_ceil(ways),
            environments: args.environments,
            faults_in_thousand: args.faults,
            seed: args.seed,
        };
        let accounts = run(plan, |far| eprintln!("{far}")).await?;
        println!("{accounts}");
        adds_up &= accounts.add_up();
    }
    Ok(match adds_up {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}
