//! The command line: `cargo run --release -p sqs-once-bench -- --help`.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command line")]

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use sqs_once_bench::contender::{self, Contender};
use sqs_once_bench::measure::measure;
use sqs_once_bench::shape::Shape;
use sqs_once_bench::{instructions, machine, report, units};

/// Measures sqs-once, its peers, and the minimal cost of the same requests.
///
/// Each contender is a process of its own, driven through a Lambda Runtime API, with a stand-in for DynamoDB. Python's
/// and TypeScript's peers are installed into `target/bench`. The whole benchmark takes about 20 minutes on two idle
/// cores, without the build.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// Measures only these contenders, by name, separated by commas.
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    only: Vec<String>,
    /// Measures only these batches, by name, such as `--shape "100 new"`; may be repeated.
    #[arg(long, value_name = "NAME")]
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
    let load_before = machine::load();
    let progress = ProgressBar::new(0);
    progress.set_style(ProgressStyle::with_template(
        "{wide_bar} {percent:>3} %, about {eta} left  {msg}",
    )?);
    progress.enable_steady_tick(Duration::from_secs(1));
    if arguments.instructions {
        progress.set_message("counting instructions");
        let counted = if arguments.record {
            (instructions::record()?, true)
        } else {
            instructions::check()?
        };
        progress.finish_and_clear();
        let (lines, holds) = counted;
        lines.iter().for_each(|line| println!("{line}"));
        return Ok(holds);
    }
    progress.set_message("building the Rust contenders");
    contender::build()?;
    let contenders = chosen(
        "contender",
        Contender::all(),
        |contender| contender.name,
        &arguments.only,
    )?;
    let shapes = chosen("batch", Shape::all(), |shape| shape.name, &arguments.shape)?;
    let mut ready = Vec::new();
    let mut missing = Vec::new();
    for contender in contenders {
        progress.set_message(format!("preparing {}", contender.title));
        match contender.prepare() {
            Ok(program) => ready.push((contender, program)),
            Err(error) => missing.push((contender, error)),
        }
    }
    let rounds = arguments.rounds.max(1);
    let mut results = measure(&ready, &shapes, rounds, &progress)?;
    results.load_before = load_before;
    results.consumptions = units::consumptions()?;
    for (contender, error) in &missing {
        results.missing(contender, error);
    }
    progress.finish_and_clear();
    print!("{}", report::text(&results));
    if let Some(file) = &arguments.json {
        fs::write(file, report::json(&results)?)?;
    }
    Ok(results.failures.is_empty())
}

/// The named elements of `all`, or all of them without names.
fn chosen<T>(
    what: &str,
    all: Vec<T>,
    name: impl Fn(&T) -> &'static str,
    names: &[String],
) -> Result<Vec<T>> {
    let known: Vec<_> = all.iter().map(&name).collect();
    if let Some(unknown) = names.iter().find(|name| !known.contains(&name.as_str())) {
        let known = known.join("; ");
        bail!("no {what} is called {unknown:?}; there are: {known}");
    }
    let is_chosen = |one: &T| names.is_empty() || names.iter().any(|wanted| wanted == name(one));
    Ok(all.into_iter().filter(is_chosen).collect())
}
