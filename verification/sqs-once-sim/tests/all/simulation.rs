//! Whole consumers under simulated trouble.

use sqs_once_sim::simulation::{Campaign, Depth, Mutant, Options, Versions, replay};

#[test]
fn a_seed_is_one_run() {
    let options = Options::default();
    let timelines: Vec<_> = (0..50)
        .map(|seed| replay(seed, &options).timeline)
        .collect();
    let elsewhere = std::thread::spawn(move || {
        // In another order, after other schedules.
        let seeds = (0..50).rev();
        seeds
            .map(|seed| replay(seed, &options).timeline)
            .collect::<Vec<_>>()
    });
    let mut elsewhere = elsewhere.join().unwrap();
    elsewhere.reverse();
    assert_eq!(timelines, elsewhere);
    assert!(timelines.iter().all(|timeline| timeline.len() > 3));
}

#[test]
fn every_property_holds() {
    let campaign = Campaign::run(0..1500, Options::default(), 2, |_, _| {});
    assert!(campaign.failure.is_none(), "{campaign}");
    assert_nothing_is_tame(&campaign);
}

#[test]
fn beyond_the_margins_nothing_is_lost_or_committed_twice() {
    let options = Options {
        is_hostile: true,
        ..Options::default()
    };
    // Two owners are rare, but some of these seeds have them.
    let campaign = Campaign::run(700..1200, options, 2, |_, _| {});
    assert!(campaign.failure.is_none(), "{campaign}");
    let owners = counted(&campaign, "beyond the margins: two live owners");
    assert!(owners > 0, "{campaign}");
}

#[test]
fn every_property_holds_beside_the_version_before_and_after_it_and_after_a_rollback() {
    for versions in [Versions::Mixed, Versions::Upgrade, Versions::Rollback] {
        let options = Options {
            versions,
            ..Options::default()
        };
        let campaign = Campaign::run(0..300, options, 2, |_, _| {});
        assert!(campaign.failure.is_none(), "{campaign}");
        let old = counted(&campaign, "beside the old version: claims that it wrote");
        let all = counted(&campaign, "claims written");
        assert!(old > 0 && old < all, "{campaign}");
    }
}

#[test]
fn every_property_holds_while_two_versions_read_each_others_ids() {
    let options = Options {
        versions: Versions::OtherIds,
        ..Options::default()
    };
    let campaign = Campaign::run(0..400, options, 2, |_, _| {});
    assert!(campaign.failure.is_none(), "{campaign}");
}

#[test]
fn two_versions_that_read_each_others_ids_before_their_claims_handle_a_key_at_once() {
    let mutant = Mutant::OtherIdReadFirst;
    let options = Options::without(mutant, Depth::Trait);
    let violation = Campaign::run(0..100, options, 2, |_, _| {}).failure;
    let violation = violation.and_then(|told| told.violation);
    let property = violation.map(|violation| violation.property);
    assert_eq!(property, Some(mutant.breaks()));
}

/// Asserts that every event and fault happened: a property that is never tested proves nothing.
fn assert_nothing_is_tame(campaign: &Campaign) {
    let is_rare = |name: &str| name.starts_with("beyond") || name.starts_with("beside");
    let mut named = campaign.counts.named();
    let missing = named.find(|(name, count)| *count == 0 && !is_rare(name));
    assert!(missing.is_none(), "{missing:?}\n{campaign}");
}

fn counted(campaign: &Campaign, name: &str) -> u64 {
    let mut named = campaign.counts.named();
    named.find(|(one, _)| one == name).unwrap().1
}
