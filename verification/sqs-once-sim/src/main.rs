//! The command line: `cargo run --release -p sqs-once-sim -- model`, `simulate` or `mutants`.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "a command line")]

use std::process::ExitCode;

use clap::builder::PossibleValuesParser;
use clap::{Args, Parser, Subcommand};
use serde_json::json;
use sqs_once_sim::model::{Config, check};
use sqs_once_sim::simulation::{Campaign, Depth, Mutant, Options, Versions, Way, replay};

/// Checks the protocol of sqs-once, and simulates consumers that use it.
#[derive(Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    simulate: Simulate,
}

#[derive(Subcommand)]
enum Command {
    /// Searches every state of the protocol's model.
    Model {
        /// Searches only this configuration; by default all of them.
        #[arg(long, value_parser = configs())]
        config: Option<String>,
        /// Prints only the names of the configurations.
        #[arg(long)]
        list: bool,
        #[command(flatten)]
        output: Output,
    },
    /// Runs whole consumers in simulated time with faults; the default.
    Simulate(Simulate),
    /// Switches off each guard in turn, and searches for the first seed that shows its absence.
    Mutants {
        /// The number of seeds per guard.
        #[arg(long, default_value_t = 100_000)]
        seeds: u64,
        /// Where the simulation replaces the real store.
        #[arg(long, default_value = "trait")]
        depth: Depth,
        #[command(flatten)]
        output: Output,
    },
}

#[derive(Args)]
struct Simulate {
    /// The number of schedules.
    #[arg(long, default_value_t = 10_000)]
    seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    first: u64,
    /// Runs only this seed, and prints its timeline.
    #[arg(long, conflicts_with_all = ["seeds", "first"])]
    seed: Option<u64>,
    /// Where the simulation replaces the real store.
    #[arg(long, default_value = "trait")]
    depth: Depth,
    /// How effects are recorded; by default each seed decides.
    #[arg(long)]
    mode: Option<Way>,
    /// Switches off this guard.
    #[arg(long)]
    mutant: Option<Mutant>,
    /// Lets clocks and kills be off by more than leases allow for.
    #[arg(long)]
    hostile: bool,
    /// Which versions share the table, at the `Store` trait; by default the one that the mutant needs, or `new`.
    #[arg(long)]
    versions: Option<Versions>,
    #[command(flatten)]
    output: Output,
}

#[derive(Args, Clone, Copy)]
struct Output {
    /// The number of threads.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Prints each result as one line of JSON, unless it is a violation that should not be.
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    let Cli { command, simulate } = Cli::parse();
    let is_as_expected = match command {
        Some(Command::Model { list: true, .. }) => {
            Config::all()
                .iter()
                .for_each(|one| println!("{}", one.name));
            true
        }
        Some(Command::Model { config, output, .. }) => model(config.as_deref(), output),
        Some(Command::Mutants {
            seeds,
            depth,
            output,
        }) => mutants(seeds, depth, output),
        Some(Command::Simulate(simulate)) => simulate.run(),
        None => simulate.run(),
    };
    match is_as_expected {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

fn configs() -> PossibleValuesParser {
    PossibleValuesParser::new(Config::all().iter().map(|one| one.name))
}

fn model(config: Option<&str>, Output { threads, json }: Output) -> bool {
    let mut all = Config::all();
    all.retain(|one| config.is_none_or(|name| one.name == name));
    let mut is_as_expected = true;
    for config in all {
        let verdict = check(&config, threads);
        let is_good = verdict.is_as_expected();
        match json && is_good {
            true => println!(
                "{}",
                json!({
                    "name": config.name,
                    "states": verdict.states,
                    "steps": verdict.steps,
                    "depth": verdict.depth,
                    "seconds": verdict.time.as_secs_f64(),
                })
            ),
            false => println!("{verdict}"),
        }
        is_as_expected &= is_good;
    }
    is_as_expected
}

impl Simulate {
    fn run(&self) -> bool {
        let options = Options {
            depth: self.depth,
            way: self.mode.or(self.mutant.map(Mutant::way)),
            mutant: self.mutant,
            is_hostile: self.hostile || self.mutant.is_some_and(Mutant::is_hostile),
            versions: self
                .versions
                .unwrap_or(self.mutant.map_or(Versions::New, Mutant::versions)),
            fault: None,
        };
        let ways = options.ways();
        if let Some(way) = options.way.filter(|way| !ways.contains(way)) {
            let ways: Vec<_> = ways.iter().map(Way::to_string).collect();
            println!("{way} is not one of {}", ways.join(", "));
            return false;
        }
        if self.depth == Depth::Sdk && options.versions != Versions::New {
            println!("there is one version alone at the depth {}", self.depth);
            return false;
        }
        let mutants = self.depth.mutants();
        if let Some(mutant) = self.mutant.filter(|one| !mutants.contains(one)) {
            println!("there is no {mutant} at the depth {}", self.depth);
            return false;
        }
        if let Some(seed) = self.seed {
            let told = replay(seed, &options);
            print!("{told}");
            return told.violation.is_none();
        }
        let seeds = self.first..self.first.saturating_add(self.seeds);
        let campaign = Campaign::run(seeds, options, self.output.threads);
        let is_good = campaign.failure.is_none();
        match self.output.json && is_good {
            true => println!(
                "{}",
                json!({
                    // A list, because a map would lose the order of the report.
                    "counts": campaign.counts.named().collect::<Vec<_>>(),
                    "seconds": campaign.took.as_secs_f64(),
                })
            ),
            false => print!("{campaign}"),
        }
        is_good
    }
}

/// Runs every mutant, and returns whether each one breaks its property.
fn mutants(seeds: u64, depth: Depth, Output { threads, json }: Output) -> bool {
    if !json {
        println!("| guard that is missing | first seed | what breaks |\n|---|---:|---|");
    }
    let mut all_killed = true;
    for mutant in depth.mutants() {
        let options = Options::without(*mutant, depth);
        let campaign = Campaign::run(0..seeds, options, threads);
        let failure = campaign.failure.as_ref();
        match failure.map(|told| (told.seed, &told.violation)) {
            Some((seed, Some(violation))) if json => println!(
                "{}",
                json!({"guard": mutant.to_string(), "seed": seed, "breaks": violation.to_string()})
            ),
            Some((seed, Some(violation))) => println!("| {mutant} | {seed} | {violation} |"),
            _ => {
                println!("| {mutant} | none of {seeds} | **survives** |");
                all_killed = false;
            }
        }
    }
    all_killed
}
