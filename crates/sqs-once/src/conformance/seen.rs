//! A claim takes the place of what its sender saw, and of nothing else.

use crate::store::{Claim, Fence, Item, Seen, Settling, Status};

use super::Fixture;
use super::scenario::{
    Grouping, LEASE, NOW, RETENTION, SECOND, Scenario, completion, foreign_item,
};

pub(super) async fn all<F: Fixture>(fixture: &F, grouping: Grouping) {
    free_item_unseen(fixture, grouping).await;
    late_copy_after_another_release(fixture, grouping).await;
    late_copy_after_another_lapse(fixture, grouping).await;
    late_copy_of_a_first_claim(fixture, grouping).await;
    completed_meanwhile(fixture, grouping).await;
    released_meanwhile(fixture, grouping).await;
    foreign_items(fixture, grouping).await;
    gone(fixture, grouping).await;
}

/// The same claim over the existing item.
async fn over<F: Fixture>(scenario: &Scenario<'_, F>, claim: &Claim) -> Claim {
    Claim {
        seen: scenario.seen().await,
        ..claim.clone()
    }
}

async fn free_item_unseen<F: Fixture>(fixture: &F, grouping: Grouping) {
    let promise = "a claim that has seen no item is refused by one, be it free, and shown it";
    let scenario = Scenario::new(fixture, grouping, promise);
    let first = scenario.claim(NOW);
    scenario.runs(&first).await;
    scenario.settles(&first, Settling::Release).await;
    scenario.is_not_written(&scenario.claim(NOW)).await;
}

async fn late_copy_after_another_release<F: Fixture>(fixture: &F, grouping: Grouping) {
    let promise =
        "a late copy of a released claim changes nothing once another has released the key as well";
    let scenario = Scenario::new(fixture, grouping, promise);
    let planted = scenario.claim(NOW);
    scenario.runs(&planted).await;
    scenario.settles(&planted, Settling::Release).await;
    let first = over(&scenario, &scenario.claim(NOW)).await;
    for claim in [first.clone(), scenario.claim(NOW)] {
        scenario.runs(&claim).await;
        scenario.settles(&claim, Settling::Release).await;
    }
    scenario.is_not_written(&first).await;
}

async fn late_copy_after_another_lapse<F: Fixture>(fixture: &F, grouping: Grouping) {
    let promise = "a late copy of a released claim changes nothing once another's lease has lapsed";
    let scenario = Scenario::new(fixture, grouping, promise);
    let planted = scenario.claim(NOW);
    scenario.runs(&planted).await;
    // Its clock is ahead.
    let first = over(&scenario, &scenario.claim(NOW + LEASE * 3)).await;
    scenario.runs(&first).await;
    scenario.settles(&first, Settling::Release).await;
    scenario.runs(&scenario.claim(NOW)).await;
    scenario.is_not_written(&first).await;
}

async fn late_copy_of_a_first_claim<F: Fixture>(fixture: &F, grouping: Grouping) {
    let promise =
        "a late copy of a key's first claim changes nothing once others have released the key";
    let scenario = Scenario::new(fixture, grouping, promise);
    let first = scenario.claim(NOW);
    for claim in [first.clone(), scenario.claim(NOW)] {
        scenario.runs(&claim).await;
        scenario.settles(&claim, Settling::Release).await;
    }
    scenario.is_not_written(&first).await;
}

async fn completed_meanwhile<F: Fixture>(fixture: &F, grouping: Grouping) {
    let promise = "a claim over a lapsed claim changes nothing once that one is completed, which leaves the fence";
    let scenario = Scenario::new(fixture, grouping, promise);
    let slow = scenario.claim(NOW);
    scenario.runs(&slow).await;
    let later = over(&scenario, &scenario.claim(NOW + LEASE + SECOND)).await;
    scenario.settles(&slow, completion(NOW + LEASE)).await;
    scenario.is_not_written(&later).await;
    scenario.is_duplicate(&later, None).await;
}

async fn released_meanwhile<F: Fixture>(fixture: &F, grouping: Grouping) {
    let promise =
        "a claim over a lapsed claim is written after that one's release, which leaves it free";
    let scenario = Scenario::new(fixture, grouping, promise);
    let slow = scenario.claim(NOW);
    let earlier = scenario.runs(&slow).await;
    let later = over(&scenario, &scenario.claim(NOW + LEASE + SECOND)).await;
    scenario.settles(&slow, Settling::Release).await;
    scenario.takes_over(&later, earlier).await;
}

async fn foreign_items<F: Fixture>(fixture: &F, grouping: Grouping) {
    let promise = "a claim tells an item without a fence from one with a fence";
    let scenario = Scenario::new(fixture, grouping, promise);
    let lapsed = Item {
        lease_until: Some(NOW),
        expiration: Some(NOW + RETENTION),
        ..foreign_item(&scenario.id, Status::InProgress)
    };
    let fenced = Item {
        fence: Some(Fence::first(NOW)),
        ..lapsed.clone()
    };
    let claim = scenario.claim(NOW + SECOND);
    let seen = |seen| Claim {
        seen,
        ..claim.clone()
    };
    scenario.plant(lapsed).await;
    scenario
        .is_not_written(&seen(Seen::Item(Some(Fence::first(NOW)))))
        .await;
    scenario.plant(fenced).await;
    scenario.is_not_written(&seen(Seen::Item(None))).await;
    scenario.runs(&claim).await;
}

async fn gone<F: Fixture>(fixture: &F, grouping: Grouping) {
    let promise = "a claim over an item that was deleted meanwhile is written as that of a new key";
    let scenario = Scenario::new(fixture, grouping, promise);
    let first = scenario.claim(NOW);
    scenario.runs(&first).await;
    scenario.settles(&first, Settling::Release).await;
    let second = over(&scenario, &scenario.claim(NOW + SECOND)).await;
    scenario.delete().await;
    scenario.runs(&second).await;
    scenario.same(
        "the item",
        &scenario.item().await,
        &Some(second.write(None)),
    );
}
