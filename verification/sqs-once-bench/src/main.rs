//! The command line: `cargo run --release -p sqs-once-bench -- --help`.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command line")]

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, ensure};
use clap::Parser;
use clap::builder::PossibleValuesParser;
use sqs_once_bench::contender::{self, Contender};
use sqs_once_bench::measure::measure;
use sqs_once_bench::shape::Shape;
use sqs_once_bench::{instructions, machine, units};

/// Measures sqs-once, its peers, and the minimal cost of the same requests.
///
/// Each contender is a process of its own, driven through a Lambda Runtime API, with a stand-in for DynamoDB. Python's
/// and TypeScript's peers are installed into `target/bench`. The whole benchmark takes about 20 minutes on two idle
/// cores, without the build.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// Measures only these contenders, by name, separated by commas.
    #[arg(long, value_delimiter = ',', value_parser = contenders())]
    only: Vec<String>,
    /// Measures only these batches, by name, such as `--shape "100 new"`; may be repeated.
    #[arg(long, value_parser = shapes())]
    shape: Vec<String>,
    /// How many turns each contender has for each batch.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Writes the results to a JSON file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Counts instructions with callgrind, and compares them with the recorded counts. Needs cargo-lambda.
    #[arg(long, conflicts_with_all = ["only", "shape"])]
    instructions: bool,
    /// Records the counted instructions in `instructions.json` instead.
    #[arg(long, requires = "instructions")]
    record: bool,
}

fn main() -> Result<ExitCode> {
    Ok(match run(&Arguments::parse())? {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// Returns whether every requested measurement succeeded, or every check holds.
fn run(arguments: &Arguments) -> Result<bool> {
    ensure!(
        machine::IS_SUPPORTED,
        "the benchmark reads CPU time as only Linux tells it"
    );
    if arguments.instructions {
        let (lines, holds) = match arguments.record {
            true => (instructions::record()?, true),
            false => instructions::check()?,
        };
        lines.iter().for_each(|line| println!("{line}"));
        return Ok(holds);
    }
    contender::build()?;
    let is_chosen =
        |name: &str, names: &[String]| names.is_empty() || names.iter().any(|one| one == name);
    let mut contenders = Contender::all();
    contenders.retain(|contender| is_chosen(contender.name, &arguments.only));
    let mut shapes = Shape::all();
    shapes.retain(|shape| is_chosen(shape.name, &arguments.shape));
    let mut ready = Vec::new();
    let mut missing = Vec::new();
    for contender in contenders {
        match contender.prepare() {
            Ok(program) => ready.push((contender, program)),
            Err(error) => missing.push(format!("MISSING: {}: {error:#}", contender.title)),
        }
    }
    let rounds = arguments.rounds.max(1);
    let load_before = machine::settled_load();
    let mut results = measure(&ready, &shapes, rounds, |next| eprintln!("{next}"))?;
    results.load_before = load_before;
    results.consumptions = units::consumptions()?;
    results.failures.extend(missing);
    print!("{results}");
    if let Some(file) = &arguments.json {
        fs::write(file, serde_json::to_string_pretty(&results)?)?;
    }
    Ok(results.failures.is_empty())
}

fn contenders() -> PossibleValuesParser {
    PossibleValuesParser::new(
        Contender::all()
            .iter()
            .map(|one| one.name)
            .collect::<Vec<_>>(),
    )
}

fn shapes() -> PossibleValuesParser {
    PossibleValuesParser::new(Shape::all().iter().map(|one| one.name).collect::<Vec<_>>())
}
