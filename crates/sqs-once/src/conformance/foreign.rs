//! Items that another program left: Powertools for AWS Lambda, which knows neither owner nor fence,
//! and programs that know neither protocol.

use crate::idempotency::{Admission, Refusal, on_found};
use crate::store::{Claim, Fence, Item, Settling, Status};

use super::Fixture;
use super::scenario::{
    Grouping, LEASE, MILLISECOND, NOW, RETENTION, SECOND, Scenario, completion, fingerprint,
    foreign_item, recording,
};

pub(super) async fn all<F: Fixture>(fixture: &F, grouping: Grouping) {
    in_progress_with_a_lease(fixture, grouping).await;
    in_progress_without_a_lease(fixture, grouping).await;
    in_progress_for_ever(fixture, grouping).await;
    completed(fixture, grouping).await;
    completed_for_ever(fixture, grouping).await;
    recorded_over(fixture, grouping).await;
    not_settled(fixture, grouping).await;
    unknown_status(fixture, grouping).await;
}

async fn in_progress_with_a_lease<F: Fixture>(fixture: &F, grouping: Grouping) {
    let promise =
        "a claim without an owner is kept for its lease, and passes on with a first fence";
    let scenario = Scenario::new(fixture, grouping, promise);
    let item = Item {
        lease_until: Some(NOW + LEASE),
        expiration: Some(NOW + RETENTION),
        ..foreign_item(&scenario.id, Status::InProgress)
    };
    scenario.plant(item).await;
    scenario.is_in_progress(&scenario.claim(NOW + LEASE)).await;
    let claim = scenario.claim(NOW + LEASE + MILLISECOND);
    scenario.runs(&claim).await;
    scenario.same("the item", &scenario.item().await, &Some(claim.write(None)));
}

async fn in_progress_without_a_lease<F: Fixture>(fixture: &F, grouping: Grouping) {
    let promise = "a claim without an owner and a lease is kept until it expires";
    let scenario = Scenario::new(fixture, grouping, promise);
    let item = Item {
        expiration: Some(NOW),
        ..foreign_item(&scenario.id, Status::InProgress)
    };
    scenario.plant(item).await;
    scenario
        .is_in_progress(&scenario.claim(NOW + (SECOND - MILLISECOND)))
        .await;
    let fence = scenario.runs(&scenario.claim(NOW + SECOND)).await;
    scenario.same("the fence", &fence, &Fence::first(NOW + SECOND));
}

async fn in_progress_for_ever<F: Fixture>(fixture: &F, grouping: Grouping) {
    let promise = "a claim that names no end is never taken over";
    let scenario = Scenario::new(fixture, grouping, promise);
    scenario
        .plant(foreign_item(&scenario.id, Status::InProgress))
        .await;
    scenario
        .is_in_progress(&scenario.claim(NOW + RETENTION * 100))
        .await;
}

async fn completed<F: Fixture>(fixture: &F, grouping: Grouping) {
    let promise = "a completion without an owner is a duplicate's, with and without a fingerprint";
    let scenario = Scenario::new(fixture, grouping, promise);
    let bare = Item {
        expiration: Some(NOW + RETENTION),
        data: Some("{\"receipt\": 7}".into()),
        ..foreign_item(&scenario.id, Status::Completed)
    };
    scenario.plant(bare.clone()).await;
    scenario
        .is_duplicate(&scenario.claim(NOW), Some("{\"receipt\": 7}"))
        .await;
    let checked = Item {
        fingerprint: Some(fingerprint("one")),
        ..bare
    };
    scenario.plant(checked).await;
    scenario
        .is_duplicate(&scenario.claim(NOW), Some("{\"receipt\": 7}"))
        .await;
    let other = Claim {
        fingerprint: Some(fingerprint("another")),
        ..scenario.claim(NOW)
    };
    let refusal = scenario.is_refused(&other).await;
    scenario.same("another message", &refusal, &Refusal::PayloadMismatch);
    scenario
        .runs(&scenario.claim(NOW + RETENTION + SECOND))
        .await;
}

async fn completed_for_ever<F: Fixture>(fixture: &F, grouping: Grouping) {
    let promise = "a completion that names no end never expires";
    let scenario = Scenario::new(fixture, grouping, promise);
    scenario
        .plant(foreign_item(&scenario.id, Status::Completed))
        .await;
    let late = scenario.claim(NOW + RETENTION * 100);
    scenario.is_duplicate(&late, None).await;
    scenario.does_not_settle(&late, recording(&late)).await;
}

async fn recorded_over<F: Fixture>(fixture: &F, grouping: Grouping) {
    let promise = "an effect is recorded over a claim without an owner, with a first fence";
    let scenario = Scenario::new(fixture, grouping, promise);
    let item = Item {
        expiration: Some(NOW + RETENTION),
        ..foreign_item(&scenario.id, Status::InProgress)
    };
    scenario.plant(item).await;
    let claim = scenario.claim(NOW);
    scenario.settles(&claim, recording(&claim)).await;
}

async fn not_settled<F: Fixture>(fixture: &F, grouping: Grouping) {
    let promise = "nobody completes or releases a claim without an owner";
    let scenario = Scenario::new(fixture, grouping, promise);
    let item = Item {
        lease_until: Some(NOW + LEASE),
        ..foreign_item(&scenario.id, Status::InProgress)
    };
    scenario.plant(item).await;
    let claim = scenario.claim(NOW);
    scenario.does_not_settle(&claim, completion(NOW)).await;
    scenario.does_not_settle(&claim, Settling::Release).await;
}

async fn unknown_status<F: Fixture>(fixture: &F, grouping: Grouping) {
    let promise = "an item of unknown status is neither claimed nor recorded over, at any time";
    let scenario = Scenario::new(fixture, grouping, promise);
    for status in ["EXPIRED", "completed", ""] {
        let item = Item {
            lease_until: Some(NOW),
            expiration: Some(NOW),
            ..foreign_item(&scenario.id, Status::Unknown(status.to_owned()))
        };
        scenario.plant(item.clone()).await;
        let late = scenario.claim(NOW + RETENTION);
        let unknown = Refusal::UnknownStatus(status.to_owned());
        scenario.same("a claim", &scenario.is_refused(&late).await, &unknown);
        let found = on_found(&late, scenario.item().await.as_ref());
        scenario.same("a look-up", &found, &Admission::Refused(unknown));
        scenario.does_not_settle(&late, recording(&late)).await;
        scenario.does_not_settle(&late, Settling::Release).await;
    }
}
