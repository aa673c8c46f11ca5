//! Whole consumers under simulated trouble, with the real store and the real client of DynamoDB's SDK.

use std::thread;

use sqs_once_sim::simulation::{Depth, Mutant, Options, replay, run};

fn beneath_the_sdk() -> Options {
    Options {
        depth: Depth::Sdk,
        ..Options::default()
    }
}

#[test]
fn a_seed_is_one_run_beneath_the_sdk() {
    let options = beneath_the_sdk();
    let told = move |seeds: Vec<u64>| -> Vec<Vec<String>> {
        let alone = thread::spawn(move || {
            let all = seeds.into_iter();
            all.map(|seed| replay(seed, &options).timeline).collect()
        });
        alone.join().expect("it ends")
    };
    // Seed 5682 sends dead letters and retries them, so it depends on the random numbers and state of the SDK's
    // clients.
    let seeds: Vec<u64> = (100..200).chain([5682]).collect();
    let each_alone: Vec<_> = seeds.iter().flat_map(|seed| told(vec![*seed])).collect();
    let one_after_another = told(seeds.clone());
    let mut backwards = told(seeds.into_iter().rev().collect());
    backwards.reverse();
    assert_eq!(each_alone, one_after_another);
    assert_eq!(each_alone, backwards);
    assert!(each_alone.iter().all(|timeline| timeline.len() > 3));
}

#[test]
fn every_property_holds_beneath_the_sdk() {
    let options = beneath_the_sdk();
    for seed in 0..100 {
        let told = run(seed, &options);
        assert!(told.violation.is_none(), "{}", replay(seed, &options));
    }
}

#[test]
fn a_condition_that_is_taken_out_of_its_request_is_missed() {
    // The other mutants of `Depth::Sdk` need hundreds or thousands of seeds.
    for mutant in [
        Mutant::ClaimCompleted,
        Mutant::ClaimLeased,
        Mutant::FenceStays,
        Mutant::CommitTwice,
        Mutant::CommitOverAll,
    ] {
        let options = Options::without(mutant, Depth::Sdk);
        let violation = (0..500).find_map(|seed| run(seed, &options).violation);
        let violation = violation.unwrap_or_else(|| panic!("{mutant} survives"));
        assert_eq!(violation.property, mutant.breaks(), "{mutant}: {violation}");
    }
}
