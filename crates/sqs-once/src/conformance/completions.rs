//! Completing a claim.

use crate::idempotency::Completion;
use crate::store::{Claim, Settling};

use super::Fixture;
use super::scenario::{Grouping, LEASE, NOW, RETENTION, SECOND, Scenario, completion, new_owner};

pub(super) async fn all<F: Fixture>(fixture: &F, grouping: Grouping) {
    own_claim(fixture, grouping).await;
    lapsed_claim(fixture, grouping).await;
    lost_answer(fixture, grouping).await;
    after_a_takeover(fixture, grouping).await;
    after_anothers_completion(fixture, grouping).await;
    foreign_owner(fixture, grouping).await;
    no_item(fixture, grouping).await;
}

async fn own_claim<F: Fixture>(fixture: &F, grouping: Grouping) {
    let promise = "the owner of a claim completes it, and what it records stays";
    let scenario = Scenario::new(fixture, grouping, promise);
    let claim = scenario.claim(NOW);
    let fence = scenario.runs(&claim).await;
    let data = Some("{\"receipt\": \"ü\u{0}\\\"\"}".into());
    let expiration = NOW + RETENTION;
    scenario
        .settles(&claim, Settling::Complete { expiration, data })
        .await;
    let kept = scenario.item().await.and_then(|item| item.fence);
    scenario.same("the fence", &kept, &Some(fence));
}

async fn lapsed_claim<F: Fixture>(fixture: &F, grouping: Grouping) {
    let promise = "a completion past the lease counts as long as nobody else took the key over";
    let scenario = Scenario::new(fixture, grouping, promise);
    let claim = scenario.claim(NOW);
    scenario.runs(&claim).await;
    scenario
        .settles(&claim, completion(NOW + LEASE + SECOND))
        .await;
    scenario
        .is_duplicate(&scenario.claim(NOW + LEASE + SECOND), None)
        .await;
}

async fn lost_answer<F: Fixture>(fixture: &F, grouping: Grouping) {
    let promise = "a completion that is sent again, its answer lost, changes nothing";
    let scenario = Scenario::new(fixture, grouping, promise);
    let claim = scenario.claim(NOW);
    scenario.runs(&claim).await;
    scenario.settles(&claim, completion(NOW)).await;
    scenario.settles_again(&claim, completion(NOW)).await;
}

async fn after_a_takeover<F: Fixture>(fixture: &F, grouping: Grouping) {
    let promise = "a completion that comes after a new claim is refused by the new owner's item";
    let scenario = Scenario::new(fixture, grouping, promise);
    let first = scenario.claim(NOW);
    scenario.runs(&first).await;
    let second = scenario.claim(NOW + LEASE + SECOND);
    scenario.runs(&second).await;
    let completed = scenario
        .does_not_settle(&first, completion(second.now))
        .await;
    scenario.same("the claim is lost", &completed, &Completion::LeaseLost);
    scenario.settles(&second, Settling::Release).await;
    let completed = scenario
        .does_not_settle(&first, completion(second.now))
        .await;
    scenario.same(
        "a release does not bring it back",
        &completed,
        &Completion::LeaseLost,
    );
}

async fn after_anothers_completion<F: Fixture>(fixture: &F, grouping: Grouping) {
    let promise = "a completion that comes after another's is refused by it, and the effect counts";
    let scenario = Scenario::new(fixture, grouping, promise);
    let first = scenario.claim(NOW);
    scenario.runs(&first).await;
    let second = scenario.claim(NOW + LEASE + SECOND);
    scenario.runs(&second).await;
    scenario.settles(&second, completion(second.now)).await;
    let completed = scenario
        .does_not_settle(&first, completion(second.now + SECOND))
        .await;
    scenario.same("it is on record", &completed, &Completion::Recorded);
}

async fn foreign_owner<F: Fixture>(fixture: &F, grouping: Grouping) {
    let promise = "nobody but its owner completes a claim";
    let scenario = Scenario::new(fixture, grouping, promise);
    let claim = scenario.claim(NOW);
    scenario.runs(&claim).await;
    let stranger = Claim {
        owner: new_owner(),
        ..claim
    };
    let completed = scenario.does_not_settle(&stranger, completion(NOW)).await;
    scenario.same(
        "the claim is not the stranger's",
        &completed,
        &Completion::LeaseLost,
    );
}

async fn no_item<F: Fixture>(fixture: &F, grouping: Grouping) {
    let promise = "a completion of a key without an item is refused, and makes none";
    let scenario = Scenario::new(fixture, grouping, promise);
    let never_sent = scenario.claim(NOW);
    let completed = scenario.does_not_settle(&never_sent, completion(NOW)).await;
    scenario.same("nothing is on record", &completed, &Completion::LeaseLost);
}
