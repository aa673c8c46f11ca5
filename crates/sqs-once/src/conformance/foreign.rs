//! Items of other programs: Powertools for AWS Lambda, which writes neither owner nor fence, and programs with other
//! formats.

use crate::idempotency::{Admission, Refusal, on_found};
use crate::store::{Fence, Item, Settling, Status};

use super::Fixture;
use super::case::{
    LEASE, MILLISECOND, NOW, RETENTION, SECOND, Suite, completion, fingerprint, recording,
};

pub(super) async fn all<F: Fixture>(suite: &Suite<'_, F>) {
    let case = suite.case(
        "a claim without an owner is kept for its lease, and is then replaced with a first fence",
    );
    let item = case.foreign_item(Status::InProgress, Some(NOW + LEASE), Some(NOW + RETENTION));
    case.plant(item).await;
    case.is_in_progress(&case.claim(NOW + LEASE)).await;
    let claim = case.granted(NOW + LEASE + MILLISECOND).await;
    case.same("the item", &case.item().await, &Some(claim.write(None)));

    let case = suite.case("a claim without an owner and a lease is kept until it expires");
    let item = case.foreign_item(Status::InProgress, None, Some(NOW));
    case.plant(item).await;
    case.is_in_progress(&case.claim(NOW + (SECOND - MILLISECOND)))
        .await;
    let fence = case.runs(&case.claim(NOW + SECOND)).await;
    case.same("the fence", &fence, &Fence::first(NOW + SECOND));

    let case = suite.case("a claim without lease and expiration is never taken over");
    case.plant(case.foreign_item(Status::InProgress, None, None))
        .await;
    case.is_in_progress(&case.claim(NOW + RETENTION * 100))
        .await;

    let case =
        suite.case("a completion without an owner is recognised, with and without a fingerprint");
    let bare = Item {
        data: Some("{\"receipt\": 7}".into()),
        ..case.foreign_item(Status::Completed, None, Some(NOW + RETENTION))
    };
    case.plant(bare.clone()).await;
    case.is_duplicate(&case.claim(NOW), Some("{\"receipt\": 7}"))
        .await;
    let checked = Item {
        fingerprint: Some(fingerprint("one")),
        ..bare
    };
    case.plant(checked).await;
    case.is_duplicate(&case.claim(NOW), Some("{\"receipt\": 7}"))
        .await;
    let other = case.claim_of_another_message(NOW);
    let refusal = case.is_refused(&other).await;
    case.same("another message", &refusal, &Refusal::PayloadMismatch);
    case.runs(&case.claim(NOW + RETENTION + SECOND)).await;

    let case = suite.case("a completion without an expiration never expires");
    case.plant(case.foreign_item(Status::Completed, None, None))
        .await;
    let late = case.claim(NOW + RETENTION * 100);
    case.is_duplicate(&late, None).await;
    case.does_not_settle(&late, recording(&late)).await;

    let case =
        suite.case("an effect is recorded over a claim without an owner, with a first fence");
    let item = case.foreign_item(Status::InProgress, None, Some(NOW + RETENTION));
    case.plant(item).await;
    let claim = case.claim(NOW);
    case.settles(&claim, recording(&claim)).await;

    let case = suite.case("a claim without an owner can't be completed or released");
    let item = case.foreign_item(Status::InProgress, Some(NOW + LEASE), None);
    case.plant(item).await;
    let claim = case.claim(NOW);
    case.does_not_settle(&claim, completion(NOW)).await;
    case.does_not_settle(&claim, Settling::Release).await;

    let case = suite.case("an item of unknown status is never claimed or recorded over");
    for status in ["EXPIRED", "completed", ""] {
        let item = case.foreign_item(Status::Unknown(status.to_owned()), Some(NOW), Some(NOW));
        case.plant(item.clone()).await;
        let late = case.claim(NOW + RETENTION);
        let unknown = Refusal::UnknownStatus(status.to_owned());
        case.same("a claim", &case.is_refused(&late).await, &unknown);
        let found = on_found(&late, case.item().await.as_ref());
        case.same("a look-up", &found, &Admission::Refused(unknown));
        case.does_not_settle(&late, recording(&late)).await;
        case.does_not_settle(&late, Settling::Release).await;
    }
}
