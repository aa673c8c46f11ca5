//! Compares these tables with dynoxide, or with a DynamoDB behind an endpoint, for as many operations as asked for.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test on the command line"
)]

#[path = "../tests/all/agreement/compared.rs"]
mod compared;
#[path = "../tests/all/agreement/deviations.rs"]
mod deviations;
#[path = "../tests/all/agreement/engines.rs"]
mod engines;
#[path = "../tests/all/agreement/expressions.rs"]
mod expressions;
#[path = "../tests/all/agreement/histories.rs"]
mod histories;
mod remote;
#[path = "../tests/all/agreement/requests.rs"]
mod requests;
#[path = "../tests/all/agreement/store.rs"]
mod store;

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use compared::Compared;
use deviations::Deviations;
use engines::{Dynoxide, Engine, Ours};
use remote::{Remote, UNASKED, asked};

/// Compares the tables in memory with another implementation of DynamoDB, by random histories of requests.
#[derive(Parser)]
struct Arguments {
    /// How many operations to compare: writes, reads, statements.
    #[arg(long, default_value_t = 100_000)]
    operations: usize,
    /// What brings a history back; random by default.
    #[arg(long)]
    seed: Option<u64>,
    /// Compares with the DynamoDB at this address, such as http://127.0.0.1:4566, and not with dynoxide.
    #[arg(long)]
    endpoint: Option<String>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let seed = arguments
        .seed
        .unwrap_or_else(|| RandomState::new().hash_one(0));
    let (other, asked): (Box<dyn Engine>, histories::Asked) = match &arguments.endpoint {
        Some(endpoint) => (Box::new(Remote::new(endpoint)), asked),
        None => (Box::new(Dynoxide::new()), Some),
    };
    let name = other.name();
    let engines: Vec<Box<dyn Engine>> = vec![Box::new(Ours::new()), other];
    let compared = Compared::new(engines, Deviations::default());
    let begun = Instant::now();
    let outcome = histories::compare(&compared, asked, seed, arguments.operations, || {
        let operations = compared.counts().operations;
        let rate = operations as f64 / begun.elapsed().as_secs_f64();
        eprintln!("{operations} operations, {rate:.0} a second");
    });
    let counts = compared.counts();
    println!("Seed {seed}, compared with {name}");
    println!(
        "{} operations in {} requests, {} of them refused, in {:.0?}",
        counts.operations,
        counts.requests,
        counts.refused,
        begun.elapsed()
    );
    for one in UNASKED.iter().filter(|_| arguments.endpoint.is_some()) {
        println!("Not asked: {}", one.what);
    }
    let mut is_good = true;
    for (deviation, met) in compared.deviations(name) {
        println!("Known deviation, met {met} times: {deviation}");
        if met == 0 && outcome.is_ok() {
            println!("… which is no longer so: take it off the list");
            is_good = false;
        }
    }
    match outcome {
        Ok(()) => println!("No other difference."),
        Err(difference) => {
            println!("DIFFERENT: {difference}");
            is_good = false;
        }
    }
    match is_good {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}
