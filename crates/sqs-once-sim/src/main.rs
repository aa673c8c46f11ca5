//! `cargo run --release -p sqs-once-sim -- model`

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "a command line")]

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use sqs_once_sim::model::{Config, check};

/// Checks the protocol of sqs-once.
#[derive(Parser)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Searches every state of the protocol's model.
    Model {
        /// One configuration; all of them by default.
        #[arg(long)]
        config: Option<String>,
        /// How many threads search.
        #[arg(long, default_value_t = 1)]
        threads: usize,
    },
}

fn main() -> ExitCode {
    let Command::Model { config, threads } = Args::parse().command;
    let mut all = Config::all();
    if let Some(name) = config {
        let names: Vec<_> = all.iter().map(|one| one.name).collect();
        all.retain(|one| one.name == name);
        if all.is_empty() {
            println!("no configuration {name}; there are {}", names.join(", "));
            return ExitCode::FAILURE;
        }
    }
    let mut is_as_expected = true;
    for config in all {
        let verdict = check(&config, threads);
        println!("{verdict}");
        is_as_expected &= verdict.is_as_expected();
    }
    match is_as_expected {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}
