//! Settlements: completions and releases of claims, recordings without a claim, and look-ups.

use crate::idempotency::{Admission, Completion, Refusal, on_found, takes_over};
use crate::store::{Claim, Fence, Settling};
use crate::time::Timestamp;

use super::Fixture;
use super::case::{
    LEASE, MILLISECOND, NOW, RETENTION, SECOND, Suite, claim_by_another, completion, duplicate,
    recording, recording_of,
};

pub(super) async fn completions<F: Fixture>(suite: &Suite<'_, F>) {
    let case = suite.case("the owner of a claim completes it, and the recorded data stays");
    let claim = case.claim(NOW);
    let fence = case.runs(&claim).await;
    let data = Some("{\"receipt\": \"ü\u{0}\\\"\"}".into());
    let completes = Settling::complete(NOW + RETENTION, data);
    case.settles(&claim, completes).await;
    let kept = case.fence().await;
    case.same("the fence", &kept, &Some(fence));

    let case =
        suite.case("a completion after the lease counts unless another worker took the key over");
    let claim = case.granted(NOW).await;
    case.settles(&claim, completion(NOW + LEASE + SECOND)).await;
    case.is_duplicate(&case.claim(NOW + LEASE + SECOND), None)
        .await;

    let case =
        suite.case("a completion that is sent again after its answer was lost changes nothing");
    let claim = case.granted(NOW).await;
    case.settles(&claim, completion(NOW)).await;
    case.settles_again(&claim, completion(NOW)).await;

    let case =
        suite.case("a completion that comes after a new claim is refused by the new owner's item");
    let first = case.granted(NOW).await;
    let second = case.granted(NOW + LEASE + SECOND).await;
    let completed = case.does_not_settle(&first, completion(second.now)).await;
    case.same("the claim is lost", &completed, &Completion::LeaseLost);
    case.settles(&second, Settling::Release).await;
    let completed = case.does_not_settle(&first, completion(second.now)).await;
    let lost = Completion::LeaseLost;
    case.same("a release does not bring it back", &completed, &lost);

    let case = suite.case("a claim that is released from the start takes a lapsed claim from its owner and leaves it free");
    let slow = case.claim(NOW);
    let earlier = case.runs(&slow).await;
    let key = case.claim(NOW + LEASE + SECOND);
    let taken = takes_over(&key, claim_by_another(key.clone()).owner, &slow.write(None));
    let taken = taken.unwrap_or_else(|| unreachable!("the claim has lapsed"));
    case.takes_over(&taken, earlier).await;
    let completed = case.does_not_settle(&slow, completion(key.now)).await;
    case.same("the claim is lost", &completed, &Completion::LeaseLost);
    case.runs(&key).await;

    let case = suite
        .case("a completion that comes after another worker's is refused, and the effect counts");
    let first = case.granted(NOW).await;
    let second = case.granted(NOW + LEASE + SECOND).await;
    case.settles(&second, completion(second.now)).await;
    let completed = case
        .does_not_settle(&first, completion(second.now + SECOND))
        .await;
    let by_another = Completion::RecordedByAnother;
    case.same("it is recorded by another", &completed, &by_another);

    let case = suite.case("only its owner completes a claim");
    let claim = case.granted(NOW).await;
    let stranger = claim_by_another(claim);
    let completed = case.does_not_settle(&stranger, completion(NOW)).await;
    case.same("not its owner", &completed, &Completion::LeaseLost);

    let case = suite.case("a completion of a key without an item is refused and creates no item");
    let never_sent = case.claim(NOW);
    let completed = case.does_not_settle(&never_sent, completion(NOW)).await;
    case.same("nothing is recorded", &completed, &Completion::LeaseLost);
}

pub(super) async fn releases<F: Fixture>(suite: &Suite<'_, F>) {
    let case = suite.case("a released claim is free for others immediately");
    let first = case.granted(NOW).await;
    case.settles(&first, Settling::Release).await;
    case.runs(&case.claim(NOW)).await;

    let case =
        suite.case("a release ends the lease and keeps the rest, so that the fence keeps growing");
    let claim = case.granted(NOW).await;
    let mut expected = claim.write(None);
    expected.lease_until = Some(Timestamp::default());
    case.settles(&claim, Settling::Release).await;
    case.same("the item", &case.item().await, &Some(expected));

    let case = suite.case("a release that is sent again after its answer was lost changes nothing");
    let claim = case.granted(NOW).await;
    case.settles(&claim, Settling::Release).await;
    let item = case.item().await;
    case.settles(&claim, Settling::Release).await;
    case.same("the item", &case.item().await, &item);

    let case = suite.case("a late copy of a released claim does not bring the claim back");
    let claim = case.granted(NOW).await;
    case.settles(&claim, Settling::Release).await;
    case.is_in_progress(&claim).await;
    case.runs(&case.claim(NOW)).await;

    let case = suite.case("a release that comes after a new claim changes nothing");
    let first = case.granted(NOW).await;
    let second = case.granted(NOW + LEASE + SECOND).await;
    case.does_not_settle(&first, Settling::Release).await;
    case.settles(&second, completion(second.now)).await;
    case.does_not_settle(&first, Settling::Release).await;

    let case = suite.case("a release that comes after the claim's own completion changes nothing");
    let claim = case.granted(NOW).await;
    case.settles(&claim, completion(NOW)).await;
    case.does_not_settle(&claim, Settling::Release).await;
    case.is_duplicate(&case.claim(NOW), None).await;

    let case = suite.case("only its owner releases a claim");
    let claim = case.granted(NOW).await;
    let stranger = claim_by_another(claim);
    case.does_not_settle(&stranger, Settling::Release).await;

    let case = suite.case("a release of a key without an item is refused and creates no item");
    case.does_not_settle(&case.claim(NOW), Settling::Release)
        .await;
}

pub(super) async fn renewals<F: Fixture>(suite: &Suite<'_, F>) {
    let renewed = NOW + LEASE * 2;

    let case = suite.case("a renewed claim refuses others up to the end of its longer lease");
    let claim = case.granted(NOW).await;
    case.settles(&claim, Settling::renew(renewed)).await;
    case.is_in_progress(&case.claim(renewed)).await;
    case.runs(&case.claim(renewed + MILLISECOND)).await;

    let case = suite.case("a renewed claim is completed and released by its owner");
    for settling in [completion(NOW), Settling::Release] {
        case.delete().await;
        let claim = case.granted(NOW).await;
        case.settles(&claim, Settling::renew(renewed)).await;
        case.settles(&claim, settling).await;
    }

    let case = suite.case("a late copy of a renewal does not shorten the lease");
    let claim = case.granted(NOW).await;
    case.settles(&claim, Settling::renew(renewed)).await;
    case.settles(&claim, Settling::renew(renewed)).await;
    let earlier = Settling::renew(renewed + SECOND);
    case.settles(&claim, earlier).await;
    case.does_not_settle(&claim, Settling::renew(renewed)).await;

    let case = suite.case("a late copy of a renewal does not bring a released claim back");
    let claim = case.granted(NOW).await;
    case.settles(&claim, Settling::Release).await;
    case.does_not_settle(&claim, Settling::renew(renewed)).await;
    case.runs(&case.claim(NOW)).await;

    let case = suite.case("a renewal after the claim's completion changes nothing");
    let claim = case.granted(NOW).await;
    case.settles(&claim, completion(NOW)).await;
    case.does_not_settle(&claim, Settling::renew(renewed)).await;

    let case = suite.case("only its owner renews a claim");
    let first = case.granted(NOW).await;
    let stranger = claim_by_another(first.clone());
    case.does_not_settle(&stranger, Settling::renew(renewed))
        .await;
    let second = case.granted(NOW + LEASE + SECOND).await;
    case.does_not_settle(&first, Settling::renew(second.lease_until + SECOND))
        .await;

    let case = suite.case(
        "a claim that carries another fence over keeps it, and the next claim has a larger one",
    );
    for carried in [
        Fence::from_stored(NOW.as_millis() - 1000),
        Fence::first(NOW + SECOND),
    ] {
        case.delete().await;
        let claim = case.claim(NOW);
        let claimed = case.runs(&claim).await;
        let carry = || Settling::carry_over(claim.lease_until, claimed, carried);
        case.settles(&claim, carry()).await;
        case.settles(&claim, carry()).await;
        case.same("the fence", &case.fence().await, &Some(carried));
        case.settles(&claim, Settling::Release).await;
        case.does_not_settle(&claim, carry()).await;
        case.grows(carried, case.runs(&case.claim(NOW)).await);
    }

    let case = suite.case("a late copy of a carried-over fence does not lower a later one");
    for (earlier, is_written) in [
        (NOW.as_millis() - 1000, true),
        (NOW.as_millis() - 1000, false),
        (NOW.as_millis() + 1000, true),
        (NOW.as_millis() + 1000, false),
    ] {
        case.delete().await;
        let claim = case.claim(NOW);
        let claimed = case.runs(&claim).await;
        let earlier = Fence::from_stored(earlier);
        let carry = |fence| Settling::carry_over(claim.lease_until, claimed, fence);
        if is_written {
            case.settles(&claim, carry(earlier)).await;
        }
        case.settles(&claim, carry(earlier.next())).await;
        case.does_not_settle(&claim, carry(earlier)).await;
    }

    let case = suite.case("a claim is released with the fence of the key's other id");
    let claim = case.claim(NOW);
    let claimed = case.runs(&claim).await;
    let carried = Fence::from_stored(NOW.as_millis() - 1000);
    let ends = || Settling::carry_over(Timestamp::default(), claimed, carried);
    case.settles(&claim, ends()).await;
    case.does_not_settle(&claim, ends()).await;
    let next = case.runs(&case.claim(NOW)).await;
    case.same("the next fence", &next, &carried.next());

    let case = suite.case("a renewal of a key without an item is refused and creates no item");
    let claim = case.claim(NOW);
    case.does_not_settle(&claim, Settling::renew(renewed)).await;
}

pub(super) async fn recordings<F: Fixture>(suite: &Suite<'_, F>) {
    let case = suite.case("an effect is recorded for a new key");
    let claim = case.claim(NOW);
    case.settles(&claim, recording(&claim)).await;
    let fence = case.fence().await;
    case.same("the first fence", &fence, &Some(Fence::first(NOW)));
    case.is_duplicate(&case.claim(NOW), None).await;

    let case =
        suite.case("a recording that is sent again after its answer was lost changes nothing");
    let claim = case.claim(NOW);
    case.settles(&claim, recording(&claim)).await;
    case.settles_again(&claim, recording(&claim)).await;

    let case = suite.case("a recording leaves its own fingerprint, or none if it has none");
    let first = case.claim_without_fingerprint(NOW);
    case.settles(&first, recording(&first)).await;
    for second in [case.claim(NOW), case.claim_without_fingerprint(NOW)] {
        case.delete().await;
        case.runs(&case.claim(NOW)).await;
        case.settles(&second, recording(&second)).await;
    }

    let case = suite.case("a recording leaves its own data, or none if it has none");
    let with = |claim, data| Settling::Record(recording_of(claim, data));
    let first = case.claim(NOW);
    case.settles(&first, with(&first, Some("first"))).await;
    case.is_duplicate(&case.claim(NOW), Some("first")).await;
    let second = case.claim(NOW + RETENTION + SECOND);
    case.settles(&second, with(&second, Some("second"))).await;
    let third = case.claim(NOW + (RETENTION + SECOND) * 2);
    case.settles(&third, with(&third, None)).await;
    case.is_duplicate(&case.claim(third.now), None).await;

    let case =
        suite.case("an effect is recorded over a claim, live or lapsed, with a larger fence");
    for now in [NOW, NOW + LEASE + SECOND] {
        case.delete().await;
        let owner = case.claim(NOW);
        let earlier = case.runs(&owner).await;
        let claim = case.claim(now);
        case.settles(&claim, recording(&claim)).await;
        case.has_grown(earlier).await;
        let completed = case.does_not_settle(&owner, completion(now)).await;
        let recorded = Completion::RecordedByAnother;
        case.same("the owner finds it recorded", &completed, &recorded);
    }

    let case = suite.case("a valid completion refuses another's recording, and the effect counts");
    let claim = case.granted(NOW).await;
    case.settles(&claim, completion(NOW)).await;
    let other = case.claim(NOW);
    let completed = case.does_not_settle(&other, recording(&other)).await;
    case.same("it is recorded", &completed, &Completion::Recorded);

    let case = suite.case("an expired completion is replaced by a recording, with a larger fence");
    let claim = case.claim(NOW);
    let earlier = case.runs(&claim).await;
    let completes = Settling::complete(NOW, Some("old".into()));
    case.settles(&claim, completes).await;
    let early = case.claim(NOW);
    case.does_not_settle(&early, recording(&early)).await;
    let late = case.claim(NOW + SECOND);
    case.settles(&late, recording(&late)).await;
    case.has_grown(earlier).await;

    let case = suite.case("a look-up is refused only by a valid completion");
    let looked_up = async |what, claim: &Claim, expected: Option<Refusal>| {
        let refusal = match on_found(claim, case.item().await.as_ref()) {
            Admission::Run { .. } => None,
            Admission::Refused(refusal) => Some(refusal),
        };
        case.same(what, &refusal, &expected);
    };
    let claim = case.claim(NOW);
    looked_up("a new key", &claim, None).await;
    case.runs(&claim).await;
    looked_up("a live claim", &case.claim(NOW), None).await;
    case.settles(&claim, completion(NOW)).await;
    looked_up("a completion", &case.claim(NOW), Some(duplicate(None))).await;
    let other = case.claim_of_another_message(NOW);
    looked_up("another message", &other, Some(Refusal::PayloadMismatch)).await;
    let late = case.claim(claim.expiration + SECOND);
    looked_up("an expired completion", &late, None).await;
}
