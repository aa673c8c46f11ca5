//! Every guard that is switched off is missed.

#![allow(clippy::print_stdout, reason = "each mutant's seed is on record")]

use sqs_once_sim::simulation::{Campaign, Depth, Mutant, Options};

/// Enough for each of them to be killed, with room to spare.
const SEEDS: u64 = 25_000;

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
        let property = told.violation.as_ref().map(|violation| violation.property);
        assert_eq!(property, Some(mutant.breaks()), "{told}");
        println!("{mutant}: seed {}", told.seed);
    }
}
