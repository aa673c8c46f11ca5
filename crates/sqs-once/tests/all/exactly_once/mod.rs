//! Effects on DynamoDB that commit with the record of their key happen exactly once, for every fault at every step. A
//! control writes the same effects outside the transaction and must fail, which proves that these tests detect errors.
//!
//! `SQS_ONCE_SEEDS` sets the number of random scenarios in each test, `SQS_ONCE_FIRST_SEED` the first seed.
//! `.ci/long storms` runs the thousands of scenarios in the documentation.

pub(crate) mod chance;
mod network;
mod queue;
mod world;

use std::future::Future;

use dynoxide::Database;
use serde_json::json;
use sqs_once::policy::Mode;
use tokio::runtime::Builder;

use network::{EFFECTS, Fault, TABLE, Weather};
use world::{Told, Way, tell};

const SEEDS: u64 = 100;
/// Every fault occurs at each of these requests, if the scenario sends that many.
const STEPS: usize = 10;

/// Runs on one thread in simulated time.
fn simulated<T>(story: impl Future<Output = T>) -> T {
    let mut builder = Builder::new_current_thread();
    let runtime = builder.enable_all().start_paused(true).build().unwrap();
    runtime.block_on(story)
}

fn database() -> Database {
    let database = Database::memory().unwrap();
    for table in [TABLE, EFFECTS] {
        let description = json!({
            "TableName": table,
            "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
            "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
            "BillingMode": "PAY_PER_REQUEST",
        });
        let description = serde_json::from_value(description).unwrap();
        database.create_table(description).unwrap();
    }
    database
}

fn number(variable: &str, default: u64) -> u64 {
    let text = std::env::var(variable).ok();
    text.map_or(default, |text| text.parse().unwrap())
}

fn seeds() -> u64 {
    number("SQS_ONCE_SEEDS", SEEDS)
}

/// Every fault at every step, each in its own scenario.
fn one_fault_each(way: Way) -> Vec<(String, Told)> {
    let database = database();
    let mut all = Vec::new();
    for fault in Fault::ALL {
        for step in 0..STEPS {
            let name = format!("{fault:?} at request {step}");
            let weather = Weather::Once(step, fault);
            let names = format!("{fault:?}");
            let story = tell(&database, way, weather, step as u64, &names);
            all.push((name, simulated(story)));
        }
    }
    all
}

fn storms(way: Way, count: u64) -> Vec<(String, Told)> {
    let first = number("SQS_ONCE_FIRST_SEED", 0);
    let seeds = first..first + count;
    let database = database();
    seeds
        .map(|seed| {
            let weather = Weather::Storm {
                once_in: 3,
                requests: 40,
            };
            let told = simulated(tell(&database, way, weather, seed, "storm"));
            (format!("seed {seed}"), told)
        })
        .collect()
}

fn all_are_exactly_once(stories: &[(String, Told)]) {
    assert!(stories.iter().any(|(_, told)| told.faults > 0));
    for (name, told) in stories {
        assert!(
            told.is_exactly_once(),
            "{name}: effects {:?}, acknowledged without an effect: {:?}\n{}",
            told.effects,
            told.lost,
            told.story
        );
    }
}

#[test]
fn writes_happen_exactly_once_whatever_befalls_any_of_their_requests() {
    for mode in [Mode::Transactional, Mode::ClaimFirst] {
        let stories = one_fault_each(Way::Together(mode));
        all_are_exactly_once(&stories);
        let met = stories.iter().filter(|(_, told)| told.faults > 0).count();
        assert!(
            met > 4 * Fault::ALL.len(),
            "{mode:?}: {met} faults met a request"
        );
    }
}

#[test]
fn writes_happen_exactly_once_in_any_storm() {
    all_are_exactly_once(&storms(Way::Together(Mode::Transactional), seeds()));
}

#[test]
fn writes_whose_key_is_claimed_first_happen_exactly_once_in_any_storm() {
    all_are_exactly_once(&storms(Way::Together(Mode::ClaimFirst), seeds()));
}

#[test]
fn effects_apart_from_their_record_are_never_lost_but_happen_twice() {
    for stories in [one_fault_each(Way::Apart), storms(Way::Apart, 100)] {
        let lost = stories.iter().filter(|(_, told)| !told.lost.is_empty());
        assert_eq!(lost.count(), 0);
        let twice = |told: &Told| told.effects.iter().any(|times| *times > 1);
        let count = stories.iter().filter(|(_, told)| twice(told)).count();
        let told = stories.len();
        assert!(
            count * 20 > told,
            "{count} of {told} stories noticed a second effect"
        );
    }
}
