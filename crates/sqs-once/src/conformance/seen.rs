//! A claim takes the place of what its sender saw, and of nothing else.

use crate::store::{Claim, Fence, Item, Seen, Settling, Status};

use super::Fixture;
use super::trial::{LEASE, NOW, RETENTION, Road, SECOND, Trial, completion, foreign_item};

pub(super) async fn all<F: Fixture>(fixture: &F, road: Road) {
    free_item_unseen(fixture, road).await;
    late_copy_after_another_release(fixture, road).await;
    late_copy_after_another_lapse(fixture, road).await;
    late_copy_of_a_first_claim(fixture, road).await;
    completed_meanwhile(fixture, road).await;
    released_meanwhile(fixture, road).await;
    foreign_items(fixture, road).await;
    gone(fixture, road).await;
}

/// The same claim over the item that stands there.
async fn over<F: Fixture>(trial: &Trial<'_, F>, claim: &Claim) -> Claim {
    Claim {
        seen: trial.seen().await,
        ..claim.clone()
    }
}

async fn free_item_unseen<F: Fixture>(fixture: &F, road: Road) {
    let promise = "a claim that has seen no item is refused by one, be it free, and shown it";
    let trial = Trial::new(fixture, road, promise);
    let first = trial.claim(NOW);
    trial.runs(&first).await;
    trial.settles(&first, Settling::Release).await;
    trial.is_not_written(&trial.claim(NOW)).await;
}

async fn late_copy_after_another_release<F: Fixture>(fixture: &F, road: Road) {
    let promise =
        "a late copy of a released claim changes nothing once another has released the key as well";
    let trial = Trial::new(fixture, road, promise);
    let planted = trial.claim(NOW);
    trial.runs(&planted).await;
    trial.settles(&planted, Settling::Release).await;
    let first = over(&trial, &trial.claim(NOW)).await;
    for claim in [first.clone(), trial.claim(NOW)] {
        trial.runs(&claim).await;
        trial.settles(&claim, Settling::Release).await;
    }
    trial.is_not_written(&first).await;
}

async fn late_copy_after_another_lapse<F: Fixture>(fixture: &F, road: Road) {
    let promise = "a late copy of a released claim changes nothing once another's lease has lapsed";
    let trial = Trial::new(fixture, road, promise);
    let planted = trial.claim(NOW);
    trial.runs(&planted).await;
    // Its clock is ahead.
    let first = over(&trial, &trial.claim(NOW + LEASE * 3)).await;
    trial.runs(&first).await;
    trial.settles(&first, Settling::Release).await;
    trial.runs(&trial.claim(NOW)).await;
    trial.is_not_written(&first).await;
}

async fn late_copy_of_a_first_claim<F: Fixture>(fixture: &F, road: Road) {
    let promise =
        "a late copy of a key's first claim changes nothing once others have released the key";
    let trial = Trial::new(fixture, road, promise);
    let first = trial.claim(NOW);
    for claim in [first.clone(), trial.claim(NOW)] {
        trial.runs(&claim).await;
        trial.settles(&claim, Settling::Release).await;
    }
    trial.is_not_written(&first).await;
}

async fn completed_meanwhile<F: Fixture>(fixture: &F, road: Road) {
    let promise = "a claim over a lapsed claim changes nothing once that one is completed, which leaves the fence";
    let trial = Trial::new(fixture, road, promise);
    let slow = trial.claim(NOW);
    trial.runs(&slow).await;
    let later = over(&trial, &trial.claim(NOW + LEASE + SECOND)).await;
    trial.settles(&slow, completion(NOW + LEASE)).await;
    trial.is_not_written(&later).await;
    trial.is_duplicate(&later, None).await;
}

async fn released_meanwhile<F: Fixture>(fixture: &F, road: Road) {
    let promise =
        "a claim over a lapsed claim is written after that one's release, which leaves it free";
    let trial = Trial::new(fixture, road, promise);
    let slow = trial.claim(NOW);
    let earlier = trial.runs(&slow).await;
    let later = over(&trial, &trial.claim(NOW + LEASE + SECOND)).await;
    trial.settles(&slow, Settling::Release).await;
    trial.takes_over(&later, earlier).await;
}

async fn foreign_items<F: Fixture>(fixture: &F, road: Road) {
    let promise = "a claim tells an item without a fence from one with a fence";
    let trial = Trial::new(fixture, road, promise);
    let lapsed = Item {
        lease_until: Some(NOW),
        expiration: Some(NOW + RETENTION),
        ..foreign_item(&trial.id, Status::InProgress)
    };
    let fenced = Item {
        fence: Some(Fence::first(NOW)),
        ..lapsed.clone()
    };
    let claim = trial.claim(NOW + SECOND);
    let seen = |seen| Claim {
        seen,
        ..claim.clone()
    };
    trial.plant(lapsed).await;
    trial
        .is_not_written(&seen(Seen::Item(Some(Fence::first(NOW)))))
        .await;
    trial.plant(fenced).await;
    trial.is_not_written(&seen(Seen::Item(None))).await;
    trial.runs(&claim).await;
}

async fn gone<F: Fixture>(fixture: &F, road: Road) {
    let promise = "a claim over an item that was deleted meanwhile is written as that of a new key";
    let trial = Trial::new(fixture, road, promise);
    let first = trial.claim(NOW);
    trial.runs(&first).await;
    trial.settles(&first, Settling::Release).await;
    let second = over(&trial, &trial.claim(NOW + SECOND)).await;
    trial.delete().await;
    trial.runs(&second).await;
    trial.same("the item", &trial.item().await, &Some(second.write(None)));
}
