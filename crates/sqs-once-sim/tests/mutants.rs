//! Every guard that is switched off is missed.

use sqs_once_sim::simulation::{Campaign, Mutant, Options};

/// Enough for each of them to be killed, with room to spare.
const SEEDS: u64 = 10_000;

#[test]
fn every_mutant_breaks_what_its_guard_keeps() {
    for mutant in Mutant::ALL {
        let campaign = Campaign::run(0..SEEDS, Options::without(mutant), 2, |_, _| {});
        let Some(told) = campaign.failure else {
            panic!("{mutant} survives {SEEDS} seeds: the simulation is too tame");
        };
        let property = told.violation.as_ref().map(|violation| violation.property);
        assert_eq!(property, Some(mutant.breaks()), "{told}");
        println!("{mutant}: seed {}", told.seed);
    }
}

#[test]
fn what_peers_ship_lets_two_workers_run_one_key() {
    let options = Options::without(Mutant::Peers);
    let campaign = Campaign::run(0..SEEDS, options, 2, |_, _| {});
    let told = campaign.failure.expect("no owner is asked for");
    assert!(
        told.timeline
            .iter()
            .any(|line| line.contains("released by")),
        "{told}"
    );
}
