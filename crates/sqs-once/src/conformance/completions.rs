//! Completing a claim.

use crate::idempotency::Completion;
use crate::store::{Claim, Settling};

use super::Fixture;
use super::trial::{LEASE, NOW, RETENTION, Road, SECOND, Trial, completion, new_owner};

pub(super) async fn all<F: Fixture>(fixture: &F, road: Road) {
    own_claim(fixture, road).await;
    lapsed_claim(fixture, road).await;
    lost_answer(fixture, road).await;
    after_a_takeover(fixture, road).await;
    after_anothers_completion(fixture, road).await;
    foreign_owner(fixture, road).await;
    no_item(fixture, road).await;
}

async fn own_claim<F: Fixture>(fixture: &F, road: Road) {
    let promise = "the owner of a claim completes it, and what it records stays";
    let trial = Trial::new(fixture, road, promise);
    let claim = trial.claim(NOW);
    let fence = trial.runs(&claim).await;
    let data = Some("{\"receipt\": \"ü\u{0}\\\"\"}".into());
    let expiration = NOW + RETENTION;
    trial
        .settles(&claim, Settling::Complete { expiration, data })
        .await;
    let kept = trial.item().await.and_then(|item| item.fence);
    trial.same("the fence", &kept, &Some(fence));
}

async fn lapsed_claim<F: Fixture>(fixture: &F, road: Road) {
    let promise = "a completion past the lease counts as long as nobody else took the key over";
    let trial = Trial::new(fixture, road, promise);
    let claim = trial.claim(NOW);
    trial.runs(&claim).await;
    trial
        .settles(&claim, completion(NOW + LEASE + SECOND))
        .await;
    trial
        .is_duplicate(&trial.claim(NOW + LEASE + SECOND), None)
        .await;
}

async fn lost_answer<F: Fixture>(fixture: &F, road: Road) {
    let promise = "a completion that is sent again, its answer lost, changes nothing";
    let trial = Trial::new(fixture, road, promise);
    let claim = trial.claim(NOW);
    trial.runs(&claim).await;
    trial.settles(&claim, completion(NOW)).await;
    trial.settles_again(&claim, completion(NOW)).await;
}

async fn after_a_takeover<F: Fixture>(fixture: &F, road: Road) {
    let promise = "a completion that comes after a new claim is refused by the new owner's item";
    let trial = Trial::new(fixture, road, promise);
    let first = trial.claim(NOW);
    trial.runs(&first).await;
    let second = trial.claim(NOW + LEASE + SECOND);
    trial.runs(&second).await;
    let completed = trial.does_not_settle(&first, completion(second.now)).await;
    trial.same("the claim is lost", &completed, &Completion::LeaseLost);
    trial.settles(&second, Settling::Release).await;
    let completed = trial.does_not_settle(&first, completion(second.now)).await;
    trial.same(
        "a release does not bring it back",
        &completed,
        &Completion::LeaseLost,
    );
}

async fn after_anothers_completion<F: Fixture>(fixture: &F, road: Road) {
    let promise = "a completion that comes after another's is refused by it, and the effect counts";
    let trial = Trial::new(fixture, road, promise);
    let first = trial.claim(NOW);
    trial.runs(&first).await;
    let second = trial.claim(NOW + LEASE + SECOND);
    trial.runs(&second).await;
    trial.settles(&second, completion(second.now)).await;
    let completed = trial
        .does_not_settle(&first, completion(second.now + SECOND))
        .await;
    trial.same("it is on record", &completed, &Completion::Recorded);
}

async fn foreign_owner<F: Fixture>(fixture: &F, road: Road) {
    let promise = "nobody but its owner completes a claim";
    let trial = Trial::new(fixture, road, promise);
    let claim = trial.claim(NOW);
    trial.runs(&claim).await;
    let stranger = Claim {
        owner: new_owner(),
        ..claim
    };
    let completed = trial.does_not_settle(&stranger, completion(NOW)).await;
    trial.same(
        "the claim is not the stranger's",
        &completed,
        &Completion::LeaseLost,
    );
}

async fn no_item<F: Fixture>(fixture: &F, road: Road) {
    let promise = "a completion of a key without an item is refused, and makes none";
    let trial = Trial::new(fixture, road, promise);
    let never_sent = trial.claim(NOW);
    let completed = trial.does_not_settle(&never_sent, completion(NOW)).await;
    trial.same("nothing is on record", &completed, &Completion::LeaseLost);
}
