//! Every guard that is switched off is missed, as `docs/reliability.md` says.

#![allow(clippy::print_stdout, reason = "each mutant's seed is on record")]

use sqs_once_sim::simulation::{Campaign, Depth, Mutant, Options};

/// Enough for each of them to be killed, with room to spare.
const SEEDS: u64 = 25_000;
/// What is published, row by row.
const PAGE: &str = include_str!("../../../docs/reliability.md");

#[test]
fn every_mutant_breaks_what_its_guard_keeps() {
    for mutant in Mutant::ALL {
        let campaign = Campaign::run(
            0..SEEDS,
            Options::without(mutant, Depth::Trait),
            2,
            |_, _| {},
        );
        let Some(told) = campaign.failure else {
            panic!("{mutant} survives {SEEDS} seeds: the simulation is too tame");
        };
        let Some(violation) = &told.violation else {
            panic!("{mutant}: what is shown is no failure");
        };
        assert_eq!(violation.property, mutant.breaks(), "{told}");
        let row = format!("| {mutant} | {} | {violation} |", told.seed);
        println!("{row}");
        assert!(
            PAGE.contains(&row),
            "docs/reliability.md does not say {row}"
        );
    }
}
