//! Recording an effect that commits together with its record: [`Settling::Commit`], through
//! [`Store::settle`](crate::store::Store::settle), and where the store has one through
//! [`AtomicWrites`](crate::store::AtomicWrites).

use crate::idempotency::{Commitment, Refusal, on_committed};
use crate::store::{Claim, Fence, Item, Recording, Settling, Status};
use crate::time::Timestamp;

use super::Fixture;
use super::trial::{
    LEASE, MILLISECOND, NOW, RETENTION, Road, SECOND, Trial, completion, fingerprint, foreign_item,
};

pub(super) async fn all<F: Fixture>(fixture: &F, road: Road) {
    new_key(fixture, road).await;
    sent_again(fixture, road).await;
    what_it_leaves(fixture, road).await;
    live_claim(fixture, road).await;
    lapsed_claim(fixture, road).await;
    own_claim(fixture, road).await;
    valid_completion(fixture, road).await;
    own_completion(fixture, road).await;
    expired_completion(fixture, road).await;
    foreign_claim(fixture, road).await;
    foreign_completion(fixture, road).await;
    unknown_status(fixture, road).await;
}

impl<F: Fixture> Trial<'_, F> {
    /// The commit must be refused and change nothing.
    async fn does_not_commit(&self, claim: &Claim) -> Commitment {
        self.does_not_settle(claim, commit(claim)).await;
        let item = self.item().await;
        on_committed(claim.owner, claim.fingerprint.as_ref(), item.as_ref())
    }

    async fn fence(&self) -> Fence {
        let fence = self.item().await.and_then(|item| item.fence);
        fence.unwrap_or_default()
    }
}

/// A commit at the time of a claim, sent or not.
fn commit(claim: &Claim) -> Settling {
    with_data(claim, None)
}

fn with_data(claim: &Claim, data: Option<&str>) -> Settling {
    Settling::Commit(Recording {
        now: claim.now,
        expiration: claim.expiration,
        fingerprint: claim.fingerprint.clone(),
        data: data.map(Into::into),
    })
}

async fn new_key<F: Fixture>(fixture: &F, road: Road) {
    let promise = "an effect commits for a new key";
    let trial = Trial::new(fixture, road, promise);
    let claim = trial.claim(NOW);
    trial.settles(&claim, commit(&claim)).await;
    trial.same("the first fence", &trial.fence().await, &Fence::first(NOW));
    trial.is_duplicate(&trial.claim(NOW), None).await;
}

async fn sent_again<F: Fixture>(fixture: &F, road: Road) {
    let promise = "a commit that is sent again, its answer lost, changes nothing";
    let trial = Trial::new(fixture, road, promise);
    let claim = trial.claim(NOW);
    trial.settles(&claim, commit(&claim)).await;
    trial.settles_again(&claim, commit(&claim)).await;
    let commitment = on_committed(claim.owner, None, trial.item().await.as_ref());
    trial.same("it is recorded", &commitment, &Commitment::Recorded);
}

async fn what_it_leaves<F: Fixture>(fixture: &F, road: Road) {
    let promise = "a commit leaves its own fingerprint and data, and none where it has none";
    let trial = Trial::new(fixture, road, promise);
    let bare = |now| Claim {
        fingerprint: None,
        ..trial.claim(now)
    };
    let first = bare(NOW);
    trial
        .settles(&first, with_data(&first, Some("first")))
        .await;
    let times = [1, 2, 3].map(|times| NOW + (RETENTION + SECOND) * times);
    let second = trial.claim(times[0]);
    trial.settles(&second, with_data(&second, None)).await;
    let third = trial.claim(times[1]);
    let data = Some("{\"receipt\": \"ü\u{0}\\\"\"}");
    trial.settles(&third, with_data(&third, data)).await;
    let last = bare(times[2]);
    trial.settles(&last, with_data(&last, None)).await;
}

async fn live_claim<F: Fixture>(fixture: &F, road: Road) {
    let promise = "another's claim refuses a commit up to the last millisecond of its lease";
    let trial = Trial::new(fixture, road, promise);
    let owner = trial.claim(NOW);
    trial.runs(&owner).await;
    let lease_until = Some(owner.lease_until);
    let in_progress = Commitment::Refused(Refusal::InProgress { lease_until });
    for now in [NOW, NOW + (LEASE - MILLISECOND), NOW + LEASE] {
        let commitment = trial.does_not_commit(&trial.claim(now)).await;
        trial.same("in progress", &commitment, &in_progress);
    }
    let late = trial.claim(NOW + LEASE + MILLISECOND);
    trial.settles(&late, commit(&late)).await;
}

async fn lapsed_claim<F: Fixture>(fixture: &F, road: Road) {
    let promise =
        "a commit takes over a claim that has lapsed or was released, with a larger fence";
    for (release, now) in [(false, NOW + LEASE + SECOND), (true, NOW)] {
        let trial = Trial::new(fixture, road, promise);
        let owner = trial.claim(NOW);
        let earlier = trial.runs(&owner).await;
        if release {
            trial.settles(&owner, Settling::Release).await;
        }
        let claim = trial.claim(now);
        trial.settles(&claim, commit(&claim)).await;
        trial.grows(earlier, trial.fence().await);
        trial.does_not_settle(&owner, completion(now)).await;
    }
}

async fn own_claim<F: Fixture>(fixture: &F, road: Road) {
    let promise = "the owner of a claim commits over it, be it live, lapsed or released";
    for (release, now) in [
        (false, NOW),
        (false, NOW + LEASE + SECOND),
        (true, NOW),
        (true, NOW + LEASE + SECOND),
    ] {
        let trial = Trial::new(fixture, road, promise);
        let claim = trial.claim(NOW);
        let earlier = trial.runs(&claim).await;
        if release {
            trial.settles(&claim, Settling::Release).await;
        }
        let later = Claim { now, ..claim };
        trial.settles(&later, commit(&later)).await;
        trial.grows(earlier, trial.fence().await);
    }
}

async fn valid_completion<F: Fixture>(fixture: &F, road: Road) {
    let promise = "a valid completion refuses a commit, as a duplicate or another message";
    let trial = Trial::new(fixture, road, promise);
    let owner = trial.claim(NOW);
    trial
        .settles(&owner, with_data(&owner, Some("receipt")))
        .await;
    let data = Some("receipt".into());
    let duplicate = Commitment::Refused(Refusal::Duplicate { data });
    for now in [NOW, NOW + LEASE + SECOND, NOW + RETENTION] {
        let commitment = trial.does_not_commit(&trial.claim(now)).await;
        trial.same("a duplicate", &commitment, &duplicate);
    }
    let other = Claim {
        fingerprint: Some(fingerprint("another")),
        ..trial.claim(NOW)
    };
    let commitment = trial.does_not_commit(&other).await;
    let mismatch = Commitment::Refused(Refusal::PayloadMismatch);
    trial.same("another message", &commitment, &mismatch);
}

async fn own_completion<F: Fixture>(fixture: &F, road: Road) {
    let promise = "its own completion refuses a commit that comes later, and counts as recorded";
    let trial = Trial::new(fixture, road, promise);
    let claim = trial.claim(NOW);
    trial.settles(&claim, commit(&claim)).await;
    let later = Claim {
        now: NOW + SECOND,
        ..claim
    };
    let commitment = trial.does_not_commit(&later).await;
    trial.same("it is on record", &commitment, &Commitment::Recorded);
}

async fn expired_completion<F: Fixture>(fixture: &F, road: Road) {
    let promise = "an expired completion makes room for a commit, with a larger fence";
    let trial = Trial::new(fixture, road, promise);
    let owner = trial.claim(NOW);
    trial.settles(&owner, commit(&owner)).await;
    let earlier = trial.fence().await;
    let expired = owner.expiration + SECOND;
    trial
        .does_not_commit(&trial.claim(just_before(expired)))
        .await;
    let late = trial.claim(expired);
    trial.settles(&late, commit(&late)).await;
    trial.grows(earlier, trial.fence().await);
}

fn just_before(at: Timestamp) -> Timestamp {
    Timestamp::from_millis(at.as_millis() - 1)
}

async fn foreign_claim<F: Fixture>(fixture: &F, road: Road) {
    let promise =
        "a claim without an owner refuses a commit for its lease, or without one until it expires";
    let trial = Trial::new(fixture, road, promise);
    let bare = foreign_item(&trial.id, Status::InProgress);
    let leased = Item {
        lease_until: Some(NOW + LEASE),
        expiration: Some(NOW),
        ..bare.clone()
    };
    let leaseless = Item {
        expiration: Some(NOW + LEASE),
        ..bare.clone()
    };
    for (item, free) in [
        (leased, NOW + LEASE + MILLISECOND),
        (leaseless, NOW + LEASE + SECOND),
    ] {
        trial.plant(item).await;
        trial.does_not_commit(&trial.claim(NOW)).await;
        trial.does_not_commit(&trial.claim(just_before(free))).await;
        let claim = trial.claim(free);
        trial.settles(&claim, commit(&claim)).await;
    }
    trial.plant(bare).await;
    trial
        .does_not_commit(&trial.claim(NOW + RETENTION * 100))
        .await;
}

async fn foreign_completion<F: Fixture>(fixture: &F, road: Road) {
    let promise = "a completion without an owner refuses a commit, for ever where it names no end";
    let trial = Trial::new(fixture, road, promise);
    let for_ever = foreign_item(&trial.id, Status::Completed);
    let duplicate = Commitment::Refused(Refusal::Duplicate { data: None });
    trial.plant(for_ever.clone()).await;
    let late = trial.claim(NOW + RETENTION * 100);
    let commitment = trial.does_not_commit(&late).await;
    trial.same("a duplicate", &commitment, &duplicate);
    trial
        .plant(Item {
            expiration: Some(NOW),
            ..for_ever
        })
        .await;
    let commitment = trial.does_not_commit(&trial.claim(NOW)).await;
    trial.same("a duplicate", &commitment, &duplicate);
    let late = trial.claim(NOW + SECOND);
    trial.settles(&late, commit(&late)).await;
}

async fn unknown_status<F: Fixture>(fixture: &F, road: Road) {
    let promise = "an item of unknown status refuses a commit at any time, be it its own";
    let trial = Trial::new(fixture, road, promise);
    let late = trial.claim(NOW + RETENTION);
    for status in ["EXPIRED", "completed", ""] {
        let item = Item {
            lease_until: Some(NOW),
            expiration: Some(NOW),
            owner: Some(late.owner),
            ..foreign_item(&trial.id, Status::Unknown(status.to_owned()))
        };
        trial.plant(item).await;
        let commitment = trial.does_not_commit(&late).await;
        let unknown = Commitment::Refused(Refusal::UnknownStatus(status.to_owned()));
        trial.same("a commit", &commitment, &unknown);
    }
}
