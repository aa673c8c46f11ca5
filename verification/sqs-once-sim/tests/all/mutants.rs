//! The simulation notices each missing guard at the seed in `docs/reliability.md`.

#![allow(clippy::print_stdout, reason = "each mutant's seed is on record")]

use sqs_once_sim::simulation::{Campaign, Depth, Mutant, Options};

/// The number of seeds before a published one that run as well. `sqs-once-sim -- mutants` runs all of them.
const WINDOW: u64 = 100;
/// The page with a row for each mutant.
const PAGE: &str = include_str!("../../../../docs/reliability.md");
const SEARCH: &str = "`.ci/long sim-mutants`, then `.ci/long --write`, publishes the seeds anew";

/// The table row of a mutant, and its seed.
fn published(mutant: Mutant) -> (&'static str, u64) {
    let start = format!("| {mutant} | ");
    let rows: Vec<_> = PAGE
        .lines()
        .filter(|line| line.starts_with(&start))
        .collect();
    let [row] = rows[..] else {
        panic!("docs/reliability.md has one row for {mutant}, not {rows:?}: {SEARCH}");
    };
    let seed = row.split(" | ").nth(1).and_then(|seed| seed.parse().ok());
    (
        row,
        seed.unwrap_or_else(|| panic!("no seed in {row}: {SEARCH}")),
    )
}

#[test]
fn every_mutant_breaks_what_its_guard_keeps() {
    for mutant in Mutant::ALL {
        let (row, seed) = published(mutant);
        let window = seed.saturating_sub(WINDOW)..seed + 1;
        let options = Options::without(mutant, Depth::Trait);
        let campaign = Campaign::run(window.clone(), options, 2, |_, _| {});
        let Some(told) = campaign.failure else {
            panic!("{mutant} survives the seeds {window:?}: {SEARCH}");
        };
        let Some(violation) = &told.violation else {
            panic!("{mutant}: what is shown is no failure");
        };
        assert_eq!(violation.property, mutant.breaks(), "{told}");
        let found = format!("| {mutant} | {} | {violation} |", told.seed);
        println!("{found}");
        assert_eq!(found, row, "{SEARCH}");
    }
}
