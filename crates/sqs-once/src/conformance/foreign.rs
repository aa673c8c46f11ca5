//! Items of other programs: Powertools for AWS Lambda, which writes neither owner nor fence, and programs with other
//! formats.

use crate::idempotency::{Admission, Refusal, on_claimed, on_found};
use crate::store::{Fence, Item, Settling, Status};

use super::Fixture;
use super::case::{
    LEASE, MILLISECOND, NOW, RETENTION, SECOND, Suite, completion, fingerprint, recording,
};

const FENCE_1: Fence = Fence::from_stored(1);

pub(super) async fn all<F: Fixture>(suite: &Suite<'_, F>) {
    let case = suite.case(
        "a claim without an owner is kept for its lease, and is then replaced with the fence 1",
    );
    let item = case.foreign_item(Status::InProgress, Some(NOW + LEASE), Some(NOW + RETENTION));
    case.plant(item.clone()).await;
    case.is_in_progress(&case.claim(NOW + LEASE)).await;
    let claim = case.granted(NOW + LEASE + MILLISECOND).await;
    let written = claim.write(Some(&item));
    case.same("the item", &case.item().await, &Some(written));
    case.same("the fence", &case.fence().await, &Some(FENCE_1));

    let case =
        suite.case("two claims in a row over a claim without a fence: the age stays unknown");
    let lapsed = case.foreign_item(Status::InProgress, Some(NOW), Some(NOW + RETENTION));
    case.plant(lapsed).await;
    let mut last = FENCE_1;
    for times in 1..3 {
        let claim = case.over(&case.claim(NOW + (LEASE + SECOND) * times)).await;
        let claimed = case.send(&claim).await;
        let Admission::Run {
            fence,
            first_attempt,
        } = on_claimed(&claim, &claimed)
        else {
            case.broken("a claim is refused", &claimed)
        };
        case.same("the age", &first_attempt, &None);
        case.same("the fence in the item", &case.fence().await, &Some(last));
        last = last.next();
        // As large as the fence of a new key, which handlers may have received before the item lost it.
        case.grows(Fence::first(claim.now), fence);
    }

    let case = suite.case("a claim without an owner and a lease is kept until it expires");
    let item = case.foreign_item(Status::InProgress, None, Some(NOW));
    case.plant(item).await;
    case.is_in_progress(&case.claim(NOW + (SECOND - MILLISECOND)))
        .await;
    let fence = case.runs(&case.claim(NOW + SECOND)).await;
    case.same("the fence", &fence, &FENCE_1);

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
