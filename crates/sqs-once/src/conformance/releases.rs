//! Releasing a claim.

use crate::store::{Claim, Settling};
use crate::time::Timestamp;

use super::Fixture;
use super::scenario::{Grouping, LEASE, NOW, SECOND, Scenario, completion, new_owner};

pub(super) async fn all<F: Fixture>(fixture: &F, grouping: Grouping) {
    frees_the_key(fixture, grouping).await;
    keeps_the_item(fixture, grouping).await;
    lost_answer(fixture, grouping).await;
    late_copy_of_the_claim(fixture, grouping).await;
    after_a_takeover(fixture, grouping).await;
    after_the_completion(fixture, grouping).await;
    foreign_owner(fixture, grouping).await;
    no_item(fixture, grouping).await;
}

async fn frees_the_key<F: Fixture>(fixture: &F, grouping: Grouping) {
    let promise = "a released claim is free for others at once";
    let scenario = Scenario::new(fixture, grouping, promise);
    let first = scenario.claim(NOW);
    scenario.runs(&first).await;
    scenario.settles(&first, Settling::Release).await;
    scenario.runs(&scenario.claim(NOW)).await;
}

async fn keeps_the_item<F: Fixture>(fixture: &F, grouping: Grouping) {
    let promise =
        "a release lapses the lease and keeps all else, so that the fence goes on growing";
    let scenario = Scenario::new(fixture, grouping, promise);
    let claim = scenario.claim(NOW);
    scenario.runs(&claim).await;
    let mut expected = claim.write(None);
    expected.lease_until = Some(Timestamp::default());
    scenario.settles(&claim, Settling::Release).await;
    scenario.same("the item", &scenario.item().await, &Some(expected));
}

async fn lost_answer<F: Fixture>(fixture: &F, grouping: Grouping) {
    let promise = "a release that is sent again, its answer lost, changes nothing";
    let scenario = Scenario::new(fixture, grouping, promise);
    let claim = scenario.claim(NOW);
    scenario.runs(&claim).await;
    scenario.settles(&claim, Settling::Release).await;
    let item = scenario.item().await;
    scenario.settles(&claim, Settling::Release).await;
    scenario.same("the item", &scenario.item().await, &item);
}

async fn late_copy_of_the_claim<F: Fixture>(fixture: &F, grouping: Grouping) {
    let promise = "a late copy of a released claim does not bring the claim back";
    let scenario = Scenario::new(fixture, grouping, promise);
    let claim = scenario.claim(NOW);
    scenario.runs(&claim).await;
    scenario.settles(&claim, Settling::Release).await;
    scenario.is_in_progress(&claim).await;
    scenario.runs(&scenario.claim(NOW)).await;
}

async fn after_a_takeover<F: Fixture>(fixture: &F, grouping: Grouping) {
    let promise = "a release that comes after a new claim changes nothing";
    let scenario = Scenario::new(fixture, grouping, promise);
    let first = scenario.claim(NOW);
    scenario.runs(&first).await;
    let second = scenario.claim(NOW + LEASE + SECOND);
    scenario.runs(&second).await;
    scenario.does_not_settle(&first, Settling::Release).await;
    scenario.settles(&second, completion(second.now)).await;
    scenario.does_not_settle(&first, Settling::Release).await;
}

async fn after_the_completion<F: Fixture>(fixture: &F, grouping: Grouping) {
    let promise = "a release that comes after the claim's own completion changes nothing";
    let scenario = Scenario::new(fixture, grouping, promise);
    let claim = scenario.claim(NOW);
    scenario.runs(&claim).await;
    scenario.settles(&claim, completion(NOW)).await;
    scenario.does_not_settle(&claim, Settling::Release).await;
    scenario.is_duplicate(&scenario.claim(NOW), None).await;
}

async fn foreign_owner<F: Fixture>(fixture: &F, grouping: Grouping) {
    let promise = "nobody but its owner releases a claim";
    let scenario = Scenario::new(fixture, grouping, promise);
    let claim = scenario.claim(NOW);
    scenario.runs(&claim).await;
    let stranger = Claim {
        owner: new_owner(),
        ..claim
    };
    scenario.does_not_settle(&stranger, Settling::Release).await;
}

async fn no_item<F: Fixture>(fixture: &F, grouping: Grouping) {
    let promise = "a release of a key without an item is refused, and makes none";
    let scenario = Scenario::new(fixture, grouping, promise);
    scenario
        .does_not_settle(&scenario.claim(NOW), Settling::Release)
        .await;
}
