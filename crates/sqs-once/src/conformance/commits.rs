//! Effects that commit together with their record: [`Settling::Commit`], through
//! [`Store::settle`](crate::store::Store::settle), and through [`AtomicWrites`](crate::store::AtomicWrites) if the
//! store has it.

use crate::idempotency::{Refusal, on_committed};
use crate::store::{Claim, Fence, Item, Settling, Status};
use crate::time::Timestamp;

use super::Fixture;
use super::case::{
    Case, LEASE, MILLISECOND, NOW, RETENTION, SECOND, Suite, completion, duplicate, recording_of,
};

impl<F: Fixture> Case<'_, F> {
    async fn does_not_commit(&self, claim: &Claim) {
        self.does_not_settle(claim, commit(claim)).await;
    }

    /// Sends a commit, which must change nothing and end like this.
    async fn commit_ends(&self, claim: &Claim, expected: &Result<(), Refusal>) {
        self.does_not_commit(claim).await;
        let item = self.item().await;
        let ended = on_committed(claim.owner, claim.fingerprint.as_ref(), item.as_ref());
        self.same("the commit", &ended, expected);
    }
}

/// Creates a commit at the time of a claim, which may not have been sent.
fn commit(claim: &Claim) -> Settling {
    with_data(claim, None)
}

fn with_data(claim: &Claim, data: Option<&str>) -> Settling {
    Settling::Commit(recording_of(claim, data))
}

fn just_before(at: Timestamp) -> Timestamp {
    Timestamp::from_millis(at.as_millis() - 1)
}

pub(super) async fn all<F: Fixture>(suite: &Suite<'_, F>) {
    let case = suite.case("an effect commits for a new key");
    let claim = case.claim(NOW);
    case.settles(&claim, commit(&claim)).await;
    let first = Some(Fence::first(NOW));
    case.same("the first fence", &case.fence().await, &first);
    case.is_duplicate(&case.claim(NOW), None).await;

    let case = suite.case("a commit that is sent again after its answer was lost changes nothing");
    let claim = case.claim(NOW);
    case.settles(&claim, commit(&claim)).await;
    case.settles_again(&claim, commit(&claim)).await;
    let commitment = on_committed(claim.owner, None, case.item().await.as_ref());
    case.same("it is recorded", &commitment, &Ok(()));

    let case = suite.case("a commit leaves its own fingerprint and data, or none if it has none");
    let first = case.claim_without_fingerprint(NOW);
    case.settles(&first, with_data(&first, Some("first"))).await;
    let times = [1, 2, 3].map(|times| NOW + (RETENTION + SECOND) * times);
    let second = case.claim(times[0]);
    case.settles(&second, with_data(&second, None)).await;
    let third = case.claim(times[1]);
    let data = Some("{\"receipt\": \"ü\u{0}\\\"\"}");
    case.settles(&third, with_data(&third, data)).await;
    let last = case.claim_without_fingerprint(times[2]);
    case.settles(&last, with_data(&last, None)).await;

    let case = suite
        .case("another worker's claim refuses a commit up to the last millisecond of its lease");
    let owner = case.granted(NOW).await;
    let lease_until = Some(owner.lease_until);
    let in_progress = Err(Refusal::InProgress { lease_until });
    for now in [NOW, NOW + (LEASE - MILLISECOND), NOW + LEASE] {
        case.commit_ends(&case.claim(now), &in_progress).await;
    }
    let late = case.claim(NOW + LEASE + MILLISECOND);
    case.settles(&late, commit(&late)).await;

    let promise =
        "a commit takes over a claim that has lapsed or was released, with a larger fence";
    for (release, now) in [(false, NOW + LEASE + SECOND), (true, NOW)] {
        let case = suite.case(promise);
        let owner = case.claim(NOW);
        let earlier = case.runs(&owner).await;
        if release {
            case.settles(&owner, Settling::Release).await;
        }
        let claim = case.claim(now);
        case.settles(&claim, commit(&claim)).await;
        case.has_grown(earlier).await;
        case.does_not_settle(&owner, completion(now)).await;
    }

    let promise = "the owner of a claim commits over it, whether live, lapsed or released";
    for (release, now) in [
        (false, NOW),
        (false, NOW + LEASE + SECOND),
        (true, NOW),
        (true, NOW + LEASE + SECOND),
    ] {
        let case = suite.case(promise);
        let claim = case.claim(NOW);
        let earlier = case.runs(&claim).await;
        if release {
            case.settles(&claim, Settling::Release).await;
        }
        let later = Claim { now, ..claim };
        case.settles(&later, commit(&later)).await;
        case.has_grown(earlier).await;
    }

    let case =
        suite.case("a valid completion refuses a commit, as a duplicate or as another message");
    let owner = case.claim(NOW);
    case.settles(&owner, with_data(&owner, Some("receipt")))
        .await;
    let known = Err(duplicate(Some("receipt")));
    for now in [NOW, NOW + LEASE + SECOND, NOW + RETENTION] {
        case.commit_ends(&case.claim(now), &known).await;
    }
    let other = case.claim_of_another_message(NOW);
    let mismatch = Err(Refusal::PayloadMismatch);
    case.commit_ends(&other, &mismatch).await;

    let case =
        suite.case("its own completion refuses a commit that comes later, and counts as recorded");
    let claim = case.claim(NOW);
    case.settles(&claim, commit(&claim)).await;
    let later = Claim {
        now: NOW + SECOND,
        ..claim
    };
    case.commit_ends(&later, &Ok(())).await;

    let case = suite.case("an expired completion is replaced by a commit, with a larger fence");
    let owner = case.claim(NOW);
    case.settles(&owner, commit(&owner)).await;
    let earlier = case.fence().await.unwrap_or_default();
    let expired = owner.expiration + SECOND;
    case.does_not_commit(&case.claim(just_before(expired)))
        .await;
    let late = case.claim(expired);
    case.settles(&late, commit(&late)).await;
    case.has_grown(earlier).await;

    let case = suite.case("a claim without an owner refuses a commit for its lease, or until it expires if it has no lease");
    let bare = case.foreign_item(Status::InProgress, None, None);
    let leased = case.foreign_item(Status::InProgress, Some(NOW + LEASE), Some(NOW));
    let leaseless = case.foreign_item(Status::InProgress, None, Some(NOW + LEASE));
    for (item, free) in [
        (leased, NOW + LEASE + MILLISECOND),
        (leaseless, NOW + LEASE + SECOND),
    ] {
        case.plant(item).await;
        case.does_not_commit(&case.claim(NOW)).await;
        case.does_not_commit(&case.claim(just_before(free))).await;
        let claim = case.claim(free);
        case.settles(&claim, commit(&claim)).await;
    }
    case.plant(bare).await;
    case.does_not_commit(&case.claim(NOW + RETENTION * 100))
        .await;

    let case = suite
        .case("a completion without an owner refuses a commit, forever if it has no expiration");
    let for_ever = case.foreign_item(Status::Completed, None, None);
    let known = Err(duplicate(None));
    case.plant(for_ever).await;
    let late = case.claim(NOW + RETENTION * 100);
    case.commit_ends(&late, &known).await;
    case.plant(case.foreign_item(Status::Completed, None, Some(NOW)))
        .await;
    case.commit_ends(&case.claim(NOW), &known).await;
    let late = case.claim(NOW + SECOND);
    case.settles(&late, commit(&late)).await;

    let case = suite.case("an item of unknown status refuses any commit, even its owner's");
    let late = case.claim(NOW + RETENTION);
    for status in ["EXPIRED", "completed", ""] {
        let item = Item {
            owner: Some(late.owner),
            ..case.foreign_item(Status::Unknown(status.to_owned()), Some(NOW), Some(NOW))
        };
        case.plant(item).await;
        let unknown = Err(Refusal::UnknownStatus(status.to_owned()));
        case.commit_ends(&late, &unknown).await;
    }
}
