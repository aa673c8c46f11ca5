//! Whole consumers under simulated trouble.

use std::thread;

use sqs_once_sim::simulation::{Options, Versions, replay};

use crate::sdk::beneath_the_sdk;
use crate::{counted, holds};

/// A batch handler's writes for one payload come after those for another one, which had succeeded behind a failed message.
#[test]
fn a_commit_is_that_of_the_attempt_which_sends_it() {
    holds(295_530..295_540, Options::default());
}

/// A batch handler panics after code of an earlier record of the call that could not be cancelled, or while it runs.
#[test]
fn a_record_whose_blocking_code_has_ended_fails_with_its_batch() {
    holds(718_000..718_010, Options::default());
    holds(2_218_200..2_218_205, Options::default());
}

#[test]
fn a_seed_is_one_run() {
    for options in [Options::default(), beneath_the_sdk()] {
        let told = move |seeds: Vec<u64>| -> Vec<Vec<String>> {
            let alone = thread::spawn(move || {
                let all = seeds.into_iter();
                all.map(|seed| replay(seed, &options).timeline).collect()
            });
            alone.join().expect("it ends")
        };
        // Seed 5682 sends dead letters and retries them, so it depends on the random numbers and state of the SDK's
        // clients.
        let seeds: Vec<u64> = (0..50).chain([5682]).collect();
        let each_alone: Vec<_> = seeds.iter().flat_map(|seed| told(vec![*seed])).collect();
        let one_after_another = told(seeds.clone());
        let mut backwards = told(seeds.into_iter().rev().collect());
        backwards.reverse();
        assert_eq!(each_alone, one_after_another, "{options:?}");
        assert_eq!(each_alone, backwards, "{options:?}");
        assert!(each_alone.iter().all(|timeline| timeline.len() > 3));
    }
}

#[test]
fn every_property_holds() {
    let campaign = holds(0..1500, Options::default());
    // Every event and fault happened: a property that is never tested proves nothing.
    let is_rare = |name: &str| name.starts_with("beyond") || name.starts_with("beside");
    let mut named = campaign.counts.named();
    let missing = named.find(|(name, count)| *count == 0 && !is_rare(name));
    assert!(missing.is_none(), "{missing:?}\n{campaign}");
}

#[test]
fn a_process_that_must_end_answers_its_other_batches_first() {
    let campaign = holds(1710..1720, Options::default());
    let draining = counted(
        &campaign.counts,
        "beside other batches: processes that must end",
    );
    assert!(draining > 0, "{campaign}");
}

#[test]
fn every_property_holds_beneath_the_sdk() {
    holds(0..100, beneath_the_sdk());
}

#[test]
fn beyond_the_margins_nothing_is_lost_or_committed_twice() {
    let options = Options {
        is_hostile: true,
        ..Options::default()
    };
    // Two owners are rare, but some of these seeds have them.
    let campaign = holds(700..1200, options);
    let owners = counted(&campaign.counts, "beyond the margins: two live owners");
    assert!(owners > 0, "{campaign}");
    // A commit over a claim that has lapsed only by the clock of its process.
    holds(6371..6372, options);
}

#[test]
fn every_property_holds_beside_the_version_before_and_after_it_and_after_a_rollback() {
    let mut renewed = 0;
    for versions in [Versions::Mixed, Versions::Upgrade, Versions::Rollback] {
        let options = Options {
            versions,
            ..Options::default()
        };
        let campaign = holds(0..300, options);
        let counts = &campaign.counts;
        let old = counted(counts, "beside the old version: claims that it wrote");
        let all = counted(counts, "claims written");
        assert!(old > 0 && old < all, "{campaign}");
        renewed += counted(counts, "leases renewed");
    }
    assert!(renewed > 0);
}

#[test]
fn every_property_holds_while_two_versions_read_each_others_ids() {
    let options = Options {
        versions: Versions::OtherIds,
        ..Options::default()
    };
    holds(0..400, options);
}
