//! Items that another program left: Powertools for AWS Lambda, which knows neither owner nor fence,
//! and programs that know neither protocol.

use crate::idempotency::{Admission, Refusal, on_found};
use crate::store::{Claim, Fence, Item, Settling, Status};

use super::Fixture;
use super::trial::{
    LEASE, MILLISECOND, NOW, RETENTION, Road, SECOND, Trial, completion, fingerprint, foreign_item,
    recording,
};

pub(super) async fn all<F: Fixture>(fixture: &F, road: Road) {
    in_progress_with_a_lease(fixture, road).await;
    in_progress_without_a_lease(fixture, road).await;
    in_progress_for_ever(fixture, road).await;
    completed(fixture, road).await;
    completed_for_ever(fixture, road).await;
    recorded_over(fixture, road).await;
    not_settled(fixture, road).await;
    unknown_status(fixture, road).await;
}

async fn in_progress_with_a_lease<F: Fixture>(fixture: &F, road: Road) {
    let promise =
        "a claim without an owner is kept for its lease, and passes on with a first fence";
    let trial = Trial::new(fixture, road, promise);
    let item = Item {
        lease_until: Some(NOW + LEASE),
        expiration: Some(NOW + RETENTION),
        ..foreign_item(&trial.id, Status::InProgress)
    };
    trial.plant(item).await;
    trial.is_in_progress(&trial.claim(NOW + LEASE)).await;
    let claim = trial.claim(NOW + LEASE + MILLISECOND);
    trial.runs(&claim).await;
    trial.same("the item", &trial.item().await, &Some(claim.write(None)));
}

async fn in_progress_without_a_lease<F: Fixture>(fixture: &F, road: Road) {
    let promise = "a claim without an owner and a lease is kept until it expires";
    let trial = Trial::new(fixture, road, promise);
    let item = Item {
        expiration: Some(NOW),
        ..foreign_item(&trial.id, Status::InProgress)
    };
    trial.plant(item).await;
    trial
        .is_in_progress(&trial.claim(NOW + (SECOND - MILLISECOND)))
        .await;
    let fence = trial.runs(&trial.claim(NOW + SECOND)).await;
    trial.same("the fence", &fence, &Fence::first(NOW + SECOND));
}

async fn in_progress_for_ever<F: Fixture>(fixture: &F, road: Road) {
    let promise = "a claim that names no end is never taken over";
    let trial = Trial::new(fixture, road, promise);
    trial
        .plant(foreign_item(&trial.id, Status::InProgress))
        .await;
    trial
        .is_in_progress(&trial.claim(NOW + RETENTION * 100))
        .await;
}

async fn completed<F: Fixture>(fixture: &F, road: Road) {
    let promise = "a completion without an owner is a duplicate's, with and without a fingerprint";
    let trial = Trial::new(fixture, road, promise);
    let bare = Item {
        expiration: Some(NOW + RETENTION),
        data: Some("{\"receipt\": 7}".into()),
        ..foreign_item(&trial.id, Status::Completed)
    };
    trial.plant(bare.clone()).await;
    trial
        .is_duplicate(&trial.claim(NOW), Some("{\"receipt\": 7}"))
        .await;
    let checked = Item {
        fingerprint: Some(fingerprint("one")),
        ..bare
    };
    trial.plant(checked).await;
    trial
        .is_duplicate(&trial.claim(NOW), Some("{\"receipt\": 7}"))
        .await;
    let other = Claim {
        fingerprint: Some(fingerprint("another")),
        ..trial.claim(NOW)
    };
    let refusal = trial.is_refused(&other).await;
    trial.same("another message", &refusal, &Refusal::PayloadMismatch);
    trial.runs(&trial.claim(NOW + RETENTION + SECOND)).await;
}

async fn completed_for_ever<F: Fixture>(fixture: &F, road: Road) {
    let promise = "a completion that names no end never expires";
    let trial = Trial::new(fixture, road, promise);
    trial
        .plant(foreign_item(&trial.id, Status::Completed))
        .await;
    let late = trial.claim(NOW + RETENTION * 100);
    trial.is_duplicate(&late, None).await;
    trial.does_not_settle(&late, recording(&late)).await;
}

async fn recorded_over<F: Fixture>(fixture: &F, road: Road) {
    let promise = "an effect is recorded over a claim without an owner, with a first fence";
    let trial = Trial::new(fixture, road, promise);
    let item = Item {
        expiration: Some(NOW + RETENTION),
        ..foreign_item(&trial.id, Status::InProgress)
    };
    trial.plant(item).await;
    let claim = trial.claim(NOW);
    trial.settles(&claim, recording(&claim)).await;
}

async fn not_settled<F: Fixture>(fixture: &F, road: Road) {
    let promise = "nobody completes or releases a claim without an owner";
    let trial = Trial::new(fixture, road, promise);
    let item = Item {
        lease_until: Some(NOW + LEASE),
        ..foreign_item(&trial.id, Status::InProgress)
    };
    trial.plant(item).await;
    let claim = trial.claim(NOW);
    trial.does_not_settle(&claim, completion(NOW)).await;
    trial.does_not_settle(&claim, Settling::Release).await;
}

async fn unknown_status<F: Fixture>(fixture: &F, road: Road) {
    let promise = "an item of unknown status is neither claimed nor recorded over, at any time";
    let trial = Trial::new(fixture, road, promise);
    for status in ["EXPIRED", "completed", ""] {
        let item = Item {
            lease_until: Some(NOW),
            expiration: Some(NOW),
            ..foreign_item(&trial.id, Status::Unknown(status.to_owned()))
        };
        trial.plant(item.clone()).await;
        let late = trial.claim(NOW + RETENTION);
        let unknown = Refusal::UnknownStatus(status.to_owned());
        trial.same("a claim", &trial.is_refused(&late).await, &unknown);
        let found = on_found(&late, trial.item().await.as_ref());
        trial.same("a look-up", &found, &Admission::Refused(unknown));
        trial.does_not_settle(&late, recording(&late)).await;
        trial.does_not_settle(&late, Settling::Release).await;
    }
}
