//! Releasing a claim.

use crate::store::{Claim, Settling};
use crate::time::Timestamp;

use super::Fixture;
use super::trial::{LEASE, NOW, Road, SECOND, Trial, completion, new_owner};

pub(super) async fn all<F: Fixture>(fixture: &F, road: Road) {
    frees_the_key(fixture, road).await;
    keeps_the_item(fixture, road).await;
    lost_answer(fixture, road).await;
    late_copy_of_the_claim(fixture, road).await;
    after_a_takeover(fixture, road).await;
    after_the_completion(fixture, road).await;
    foreign_owner(fixture, road).await;
    no_item(fixture, road).await;
}

async fn frees_the_key<F: Fixture>(fixture: &F, road: Road) {
    let promise = "a released claim is free for others at once";
    let trial = Trial::new(fixture, road, promise);
    let first = trial.claim(NOW);
    trial.runs(&first).await;
    trial.settles(&first, Settling::Release).await;
    trial.runs(&trial.claim(NOW)).await;
}

async fn keeps_the_item<F: Fixture>(fixture: &F, road: Road) {
    let promise =
        "a release lapses the lease and keeps all else, so that the fence goes on growing";
    let trial = Trial::new(fixture, road, promise);
    let claim = trial.claim(NOW);
    trial.runs(&claim).await;
    let mut expected = claim.write(None);
    expected.lease_until = Some(Timestamp::default());
    trial.settles(&claim, Settling::Release).await;
    trial.same("the item", &trial.item().await, &Some(expected));
}

async fn lost_answer<F: Fixture>(fixture: &F, road: Road) {
    let promise = "a release that is sent again, its answer lost, changes nothing";
    let trial = Trial::new(fixture, road, promise);
    let claim = trial.claim(NOW);
    trial.runs(&claim).await;
    trial.settles(&claim, Settling::Release).await;
    let item = trial.item().await;
    trial.settles(&claim, Settling::Release).await;
    trial.same("the item", &trial.item().await, &item);
}

async fn late_copy_of_the_claim<F: Fixture>(fixture: &F, road: Road) {
    let promise = "a late copy of a released claim does not bring the claim back";
    let trial = Trial::new(fixture, road, promise);
    let claim = trial.claim(NOW);
    trial.runs(&claim).await;
    trial.settles(&claim, Settling::Release).await;
    trial.is_in_progress(&claim).await;
    trial.runs(&trial.claim(NOW)).await;
}

async fn after_a_takeover<F: Fixture>(fixture: &F, road: Road) {
    let promise = "a release that comes after a new claim changes nothing";
    let trial = Trial::new(fixture, road, promise);
    let first = trial.claim(NOW);
    trial.runs(&first).await;
    let second = trial.claim(NOW + LEASE + SECOND);
    trial.runs(&second).await;
    trial.does_not_settle(&first, Settling::Release).await;
    trial.settles(&second, completion(second.now)).await;
    trial.does_not_settle(&first, Settling::Release).await;
}

async fn after_the_completion<F: Fixture>(fixture: &F, road: Road) {
    let promise = "a release that comes after the claim's own completion changes nothing";
    let trial = Trial::new(fixture, road, promise);
    let claim = trial.claim(NOW);
    trial.runs(&claim).await;
    trial.settles(&claim, completion(NOW)).await;
    trial.does_not_settle(&claim, Settling::Release).await;
    trial.is_duplicate(&trial.claim(NOW), None).await;
}

async fn foreign_owner<F: Fixture>(fixture: &F, road: Road) {
    let promise = "nobody but its owner releases a claim";
    let trial = Trial::new(fixture, road, promise);
    let claim = trial.claim(NOW);
    trial.runs(&claim).await;
    let stranger = Claim {
        owner: new_owner(),
        ..claim
    };
    trial.does_not_settle(&stranger, Settling::Release).await;
}

async fn no_item<F: Fixture>(fixture: &F, road: Road) {
    let promise = "a release of a key without an item is refused, and makes none";
    let trial = Trial::new(fixture, road, promise);
    trial
        .does_not_settle(&trial.claim(NOW), Settling::Release)
        .await;
}
