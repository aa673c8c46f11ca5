//! Whole consumers under simulated trouble, with the real store and the real client of DynamoDB's SDK.

use clap::ValueEnum;
use sqs_once_sim::simulation::{Depth, Fault, Mutant, Options, Way, replay, run};

use crate::{counted, holds};

pub(crate) fn beneath_the_sdk() -> Options {
    Options {
        depth: Depth::Sdk,
        ..Options::default()
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
        assert_eq!(
            Some(violation.property),
            mutant.breaks(),
            "{mutant}: {violation}"
        );
    }
}

#[test]
fn writes_happen_exactly_once_whichever_of_their_requests_meets_a_fault() {
    const REQUESTS: u64 = 6;
    for way in [Way::Writes, Way::ClaimedWrites] {
        let with_fault = |request, fault| Options {
            way: Some(way),
            fault: Some((request, fault)),
            ..beneath_the_sdk()
        };
        // A schedule that sends enough requests if none fails, and not many more.
        let calm = with_fault(u64::MAX, Fault::Fail);
        let sends_enough = |seed: &u64| {
            let requests = counted(&run(*seed, &calm).counts, "requests");
            (REQUESTS..2 * REQUESTS).contains(&requests)
        };
        let seed = (0..1000).find(sends_enough).expect("such a schedule");
        for &fault in Fault::value_variants() {
            for request in 0..REQUESTS {
                let options = with_fault(request, fault);
                let told = run(seed, &options);
                assert!(told.violation.is_none(), "{}", replay(seed, &options));
                assert_eq!(counted(&told.counts, "fault: "), 1, "{options:?}");
            }
        }
    }
}

#[test]
fn writes_happen_exactly_once_in_any_storm_and_effects_apart_from_their_completion_repeat() {
    let repeats = |way| {
        let options = Options {
            way: Some(way),
            ..beneath_the_sdk()
        };
        let campaign = holds(0..100, options);
        assert!(counted(&campaign.counts, "fault: ") > 20, "{campaign}");
        counted(&campaign.counts, "effects repeated: ")
    };
    assert_eq!(repeats(Way::Writes), 0);
    assert_eq!(repeats(Way::ClaimedWrites), 0);
    assert!(repeats(Way::ClaimFirst) > 5);
}
