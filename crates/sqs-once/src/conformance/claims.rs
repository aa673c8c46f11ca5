//! Claims: when they are granted, and the items that they leave.

use futures_util::future::join_all;

use crate::idempotency::{Admission, Refusal, on_claimed};
use crate::key::Fingerprint;
use crate::store::{Claim, Fence, Owner, Settling, Status};

use super::Fixture;
use super::case::{LEASE, MILLISECOND, NOW, RETENTION, SECOND, Suite, completion};

pub(super) async fn all<F: Fixture>(suite: &Suite<'_, F>) {
    let case = suite.case("a new key is claimed with the item of the reference");
    let claim = case.claim(NOW);
    let fence = case.runs(&claim).await;
    case.same("the first fence", &fence, &Fence::first(NOW));
    case.same("the item", &case.item().await, &Some(claim.write(None)));

    let case = suite.case("a claim refuses others up to the last millisecond of its lease");
    case.granted(NOW).await;
    for now in [NOW, NOW + (LEASE - MILLISECOND), NOW + LEASE] {
        case.is_in_progress(&case.claim(now)).await;
    }
    case.runs(&case.claim(NOW + LEASE + MILLISECOND)).await;

    let case = suite.case("a claim whose lease has lapsed passes to the next owner");
    let first = case.claim(NOW);
    let earlier = case.runs(&first).await;
    let second = case.claim(NOW + LEASE + SECOND);
    case.takes_over(&second, earlier).await;

    let case = suite
        .case("a worker whose clock is behind takes over late, never early, with a larger fence");
    let first = case.claim(NOW + RETENTION);
    let earlier = case.runs(&first).await;
    case.is_in_progress(&case.claim(NOW)).await;
    case.settles(&first, Settling::Release).await;
    let later = case.runs(&case.claim(NOW)).await;
    case.grows(earlier, later);

    let case =
        suite.case("a completion refuses every claim up to the last second of its expiration");
    let first = case.granted(NOW).await;
    let receipt = "receipt 7 — “paid”";
    let end = NOW + RETENTION;
    let completes = Settling::complete(end, Some(receipt.into()));
    case.settles(&first, completes).await;
    for at in [NOW, NOW + LEASE + SECOND, end, end + (SECOND - MILLISECOND)] {
        case.is_duplicate(&case.claim(at), Some(receipt)).await;
    }
    case.runs(&case.claim(end + SECOND)).await;

    let case =
        suite.case("a completion that expires within a second is recognised to the second's end");
    let first = case.granted(NOW).await;
    case.settles(&first, completion(NOW + MILLISECOND)).await;
    let last = NOW + RETENTION + (SECOND + SECOND - MILLISECOND);
    case.is_duplicate(&case.claim(last), None).await;
    case.runs(&case.claim(last + MILLISECOND)).await;

    let case = suite.case(
        "a claim of an expired key that was not deleted starts afresh, with a larger fence that tells its time",
    );
    let later = NOW + SECOND * 2;
    for fence in [Some(Fence::first(NOW)), Some(Fence::first(later)), None] {
        let mut outdated = case.foreign_item(Status::Completed, None, Some(NOW));
        outdated.fence = fence;
        outdated.owner = Some(Owner::from_bits(7));
        outdated.data = Some("old".into());
        case.plant(outdated.clone()).await;
        let claim = case.over(&case.claim(later)).await;
        let larger = fence.map_or(Fence::default(), Fence::next);
        let expected = larger.max(Fence::first(later));
        case.same("the fence", &case.runs(&claim).await, &expected);
        let expected = Some(claim.write(Some(&outdated)));
        case.same("the item", &case.item().await, &expected);
    }

    let case = suite.case(
        "a claim that is sent again after its answer was lost is recognised and changes nothing",
    );
    let claim = case.claim(NOW);
    let fence = case.runs(&claim).await;
    let item = case.item().await;
    for _ in 0..2 {
        case.same("the fence", &case.runs(&claim).await, &fence);
        case.same("the item", &case.item().await, &item);
    }

    let case = suite.case("a late copy of a claim changes nothing once another owns the key");
    let first = case.granted(NOW).await;
    case.runs(&case.claim(NOW + LEASE + SECOND)).await;
    case.is_in_progress(&first).await;

    let case = suite.case("a late copy of a claim changes nothing once its effect is completed");
    let first = case.granted(NOW).await;
    case.settles(&first, completion(NOW)).await;
    case.is_duplicate(&first, None).await;

    let case = suite
        .case("a completed key distinguishes a duplicate from another message by the fingerprint");
    let first = case.granted(NOW).await;
    case.settles(&first, completion(NOW)).await;
    case.is_duplicate(&case.claim(NOW), None).await;
    let unchecked = case.claim_without_fingerprint(NOW);
    case.is_duplicate(&unchecked, None).await;
    let other = case.claim_of_another_message(NOW);
    let refusal = case.is_refused(&other).await;
    case.same("another message", &refusal, &Refusal::PayloadMismatch);
    let mut other = case.claim(NOW);
    other.fingerprint = Some(Fingerprint::from_body(r#"{"another": "scheme"}"#));
    let unknown = Refusal::Duplicate {
        data: None,
        is_compared: false,
    };
    case.same("another scheme", &case.is_refused(&other).await, &unknown);

    let case = suite.case("a claim leaves its own fingerprint, or none if it has none");
    let first = case.claim_without_fingerprint(NOW);
    case.runs(&first).await;
    case.same("a new key", &case.item().await, &Some(first.write(None)));
    let times = [1, 2, 3].map(|times| NOW + (LEASE + SECOND) * times);
    for claim in [
        case.claim(times[0]),
        case.claim_without_fingerprint(times[1]),
        case.claim(times[2]),
    ] {
        case.runs(&claim).await;
        let kept = case.item().await.and_then(|item| item.fingerprint);
        case.same("a takeover", &kept, &claim.fingerprint);
    }

    let case =
        suite.case("the fence grows with every claim of a key, however the previous claim ended");

    let first = case.claim(NOW);
    let mut last = case.runs(&first).await;
    case.settles(&first, Settling::Release).await;

    let mut grown = async |claim: &Claim| {
        let fence = case.runs(claim).await;
        case.grows(std::mem::replace(&mut last, fence), fence);
    };
    let after_release = case.claim(NOW);
    grown(&after_release).await;

    let after_lapse = case.claim(NOW + LEASE + SECOND);
    grown(&after_lapse).await;
    let completes = Settling::complete(after_lapse.now, None);
    case.settles(&after_lapse, completes).await;

    let after_expiry = case.claim(after_lapse.now + SECOND);
    grown(&after_expiry).await;
    let completes = Settling::complete(after_expiry.now, None);
    case.settles(&after_expiry, completes).await;

    case.delete().await;
    grown(&case.claim(after_expiry.now + SECOND)).await;

    let case = suite.case("if many workers claim a key at the same time, exactly one is granted");
    let contest = async |now| {
        let claims: Vec<_> = (0..16).map(|_| case.claim(now)).collect();
        let sent = claims.iter().map(async |claim| case.send(claim).await);
        let answers = join_all(sent).await;
        let owner = case.item().await.and_then(|item| item.owner);
        let is_owner = |claim: &&Claim| owner == Some(claim.owner);
        for (claim, answer) in claims.iter().zip(&answers) {
            let granted = matches!(on_claimed(claim, answer), Admission::Run { .. });
            case.same("only the owner runs", &granted, &is_owner(&claim));
        }
        let winners = claims.iter().filter(is_owner).count();
        case.same("one worker owns the key", &winners, &1);
    };
    contest(NOW).await;
    contest(NOW + LEASE + SECOND).await;
}
