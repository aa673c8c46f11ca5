//! Tests of the protocol's model, and of whole consumers under simulated trouble.

#![allow(clippy::unwrap_used, reason = "a test")]

mod model;
mod mutants;
mod sdk;
mod simulation;

use std::ops::Range;

use sqs_once_sim::simulation::{Campaign, Counts, Options};

/// Runs these schedules, and asserts that every property holds.
fn holds(seeds: Range<u64>, options: Options) -> Campaign {
    let campaign = Campaign::run(seeds, options, 2);
    assert!(campaign.failure.is_none(), "{campaign}");
    campaign
}

/// The sum of the counts whose names start like this.
fn counted(counts: &Counts, start: &str) -> u64 {
    let named = counts.named().filter(|(name, _)| name.starts_with(start));
    named.map(|(_, count)| count).sum()
}
