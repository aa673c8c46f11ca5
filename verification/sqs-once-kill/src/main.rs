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
    /// How the consumer works. May be repeated. The first three ways keep their promise; the last does not, which tests
    /// that the checks find violations.
    #[arg(long = "way", value_enum, default_values_t = [Way::ClaimFirst, Way::Fifo, Way::Transactional])]
    ways: Vec<Way>,
    #[command(flatten)]
    plan: Plan,
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
            messages: args.plan.messages.div_ceil(ways),
            kills: args.plan.kills.div_ceil(ways),
            freezes: args.plan.freezes.div_ceil(ways),
            ..args.plan
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
