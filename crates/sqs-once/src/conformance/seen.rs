//! Claims over existing items. A claim replaces only the item that its sender saw.

use crate::store::{Claim, Fence, Item, Seen, Settling, Status};

use super::Fixture;
use super::case::{LEASE, NOW, RETENTION, SECOND, Suite, completion};

pub(super) async fn all<F: Fixture>(suite: &Suite<'_, F>) {
    let case = suite.case("a claim that has seen no item is refused by any item, even a free one");
    let first = case.granted(NOW).await;
    case.settles(&first, Settling::Release).await;
    case.is_not_written(&case.claim(NOW)).await;

    let case = suite.case(
        "a late copy of a released claim changes nothing once another has released the key too",
    );
    let planted = case.granted(NOW).await;
    case.settles(&planted, Settling::Release).await;
    let first = case.over(&case.claim(NOW)).await;
    for claim in [first.clone(), case.claim(NOW)] {
        case.runs(&claim).await;
        case.settles(&claim, Settling::Release).await;
    }
    case.is_not_written(&first).await;

    let case = suite
        .case("a late copy of a released claim changes nothing once another's lease has lapsed");
    case.granted(NOW).await;
    // The clock of this worker is ahead.
    let first = case.over(&case.claim(NOW + LEASE * 3)).await;
    case.runs(&first).await;
    case.settles(&first, Settling::Release).await;
    case.runs(&case.claim(NOW)).await;
    case.is_not_written(&first).await;

    let case = suite.case(
        "a late copy of a key's first claim changes nothing once others have released the key",
    );
    let first = case.claim(NOW);
    for claim in [first.clone(), case.claim(NOW)] {
        case.runs(&claim).await;
        case.settles(&claim, Settling::Release).await;
    }
    case.is_not_written(&first).await;

    let case = suite.case(
        "a claim over a lapsed claim changes nothing after that completed without a new fence",
    );
    let slow = case.granted(NOW).await;
    let later = case.over(&case.claim(NOW + LEASE + SECOND)).await;
    case.settles(&slow, completion(NOW + LEASE)).await;
    case.is_not_written(&later).await;
    case.is_duplicate(&later, None).await;

    let case = suite
        .case("a claim over a lapsed claim is written after that was released, because it is free");
    let slow = case.claim(NOW);
    let earlier = case.runs(&slow).await;
    let later = case.over(&case.claim(NOW + LEASE + SECOND)).await;
    case.settles(&slow, Settling::Release).await;
    case.takes_over(&later, earlier).await;

    let case = suite.case("a claim distinguishes an item without a fence from one with a fence");
    let lapsed = case.foreign_item(Status::InProgress, Some(NOW), Some(NOW + RETENTION));
    let fenced = Item {
        fence: Some(Fence::first(NOW)),
        ..lapsed.clone()
    };
    let claim = case.claim(NOW + SECOND);
    let seen = |seen| Claim {
        seen,
        ..claim.clone()
    };
    case.plant(lapsed).await;
    case.is_not_written(&seen(Seen::Item(Some(Fence::first(NOW)))))
        .await;
    case.plant(fenced).await;
    case.is_not_written(&seen(Seen::Item(None))).await;
    case.runs(&claim).await;

    let case = suite.case("a claim over an item that has been deleted is written as for a new key");
    let first = case.granted(NOW).await;
    case.settles(&first, Settling::Release).await;
    let second = case.over(&case.claim(NOW + SECOND)).await;
    case.delete().await;
    case.runs(&second).await;
    case.same("the item", &case.item().await, &Some(second.write(None)));
}
