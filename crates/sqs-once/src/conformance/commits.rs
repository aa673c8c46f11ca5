//! Recording an effect that commits together with its record: [`Settling::Commit`], through
//! [`Store::settle`](crate::store::Store::settle), and where the store has one through
//! [`AtomicWrites`](crate::store::AtomicWrites).

use crate::idempotency::{Commitment, Refusal, on_committed};
use crate::store::{Claim, Fence, Item, Recording, Settling, Status};
use crate::time::Timestamp;

use super::Fixture;
use super::scenario::{
    Grouping, LEASE, MILLISECOND, NOW, RETENTION, SECOND, Scenario, completion, fingerprint,
    foreign_item,
};

pub(super) async fn all<F: Fixture>(fixture: &F, grouping: Grouping) {
    new_key(fixture, grouping).await;
    sent_again(fixture, grouping).await;
    what_it_leaves(fixture, grouping).await;
    live_claim(fixture, grouping).await;
    lapsed_claim(fixture, grouping).await;
    own_claim(fixture, grouping).await;
    valid_completion(fixture, grouping).await;
    own_completion(fixture, grouping).await;
    expired_completion(fixture, grouping).await;
    foreign_claim(fixture, grouping).await;
    foreign_completion(fixture, grouping).await;
    unknown_status(fixture, grouping).await;
}

impl<F: Fixture> Scenario<'_, F> {
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

async fn new_key<F: Fixture>(fixture: &F, grouping: Grouping) {
    let promise = "an effect commits for a new key";
    let scenario = Scenario::new(fixture, grouping, promise);
    let claim = scenario.claim(NOW);
    scenario.settles(&claim, commit(&claim)).await;
    scenario.same(
        "the first fence",
        &scenario.fence().await,
        &Fence::first(NOW),
    );
    scenario.is_duplicate(&scenario.claim(NOW), None).await;
}

async fn sent_again<F: Fixture>(fixture: &F, grouping: Grouping) {
    let promise = "a commit that is sent again, its answer lost, changes nothing";
    let scenario = Scenario::new(fixture, grouping, promise);
    let claim = scenario.claim(NOW);
    scenario.settles(&claim, commit(&claim)).await;
    scenario.settles_again(&claim, commit(&claim)).await;
    let commitment = on_committed(claim.owner, None, scenario.item().await.as_ref());
    scenario.same("it is recorded", &commitment, &Commitment::Recorded);
}

async fn what_it_leaves<F: Fixture>(fixture: &F, grouping: Grouping) {
    let promise = "a commit leaves its own fingerprint and data, and none where it has none";
    let scenario = Scenario::new(fixture, grouping, promise);
    let bare = |now| Claim {
        fingerprint: None,
        ..scenario.claim(now)
    };
    let first = bare(NOW);
    scenario
        .settles(&first, with_data(&first, Some("first")))
        .await;
    let times = [1, 2, 3].map(|times| NOW + (RETENTION + SECOND) * times);
    let second = scenario.claim(times[0]);
    scenario.settles(&second, with_data(&second, None)).await;
    let third = scenario.claim(times[1]);
    let data = Some("{\"receipt\": \"ü\u{0}\\\"\"}");
    scenario.settles(&third, with_data(&third, data)).await;
    let last = bare(times[2]);
    scenario.settles(&last, with_data(&last, None)).await;
}

async fn live_claim<F: Fixture>(fixture: &F, grouping: Grouping) {
    let promise = "another's claim refuses a commit up to the last millisecond of its lease";
    let scenario = Scenario::new(fixture, grouping, promise);
    let owner = scenario.claim(NOW);
    scenario.runs(&owner).await;
    let lease_until = Some(owner.lease_until);
    let in_progress = Commitment::Refused(Refusal::InProgress { lease_until });
    for now in [NOW, NOW + (LEASE - MILLISECOND), NOW + LEASE] {
        let commitment = scenario.does_not_commit(&scenario.claim(now)).await;
        scenario.same("in progress", &commitment, &in_progress);
    }
    let late = scenario.claim(NOW + LEASE + MILLISECOND);
    scenario.settles(&late, commit(&late)).await;
}

async fn lapsed_claim<F: Fixture>(fixture: &F, grouping: Grouping) {
    let promise =
        "a commit takes over a claim that has lapsed or was released, with a larger fence";
    for (release, now) in [(false, NOW + LEASE + SECOND), (true, NOW)] {
        let scenario = Scenario::new(fixture, grouping, promise);
        let owner = scenario.claim(NOW);
        let earlier = scenario.runs(&owner).await;
        if release {
            scenario.settles(&owner, Settling::Release).await;
        }
        let claim = scenario.claim(now);
        scenario.settles(&claim, commit(&claim)).await;
        scenario.grows(earlier, scenario.fence().await);
        scenario.does_not_settle(&owner, completion(now)).await;
    }
}

async fn own_claim<F: Fixture>(fixture: &F, grouping: Grouping) {
    let promise = "the owner of a claim commits over it, be it live, lapsed or released";
    for (release, now) in [
        (false, NOW),
        (false, NOW + LEASE + SECOND),
        (true, NOW),
        (true, NOW + LEASE + SECOND),
    ] {
        let scenario = Scenario::new(fixture, grouping, promise);
        let claim = scenario.claim(NOW);
        let earlier = scenario.runs(&claim).await;
        if release {
            scenario.settles(&claim, Settling::Release).await;
        }
        let later = Claim { now, ..claim };
        scenario.settles(&later, commit(&later)).await;
        scenario.grows(earlier, scenario.fence().await);
    }
}

async fn valid_completion<F: Fixture>(fixture: &F, grouping: Grouping) {
    let promise = "a valid completion refuses a commit, as a duplicate or another message";
    let scenario = Scenario::new(fixture, grouping, promise);
    let owner = scenario.claim(NOW);
    scenario
        .settles(&owner, with_data(&owner, Some("receipt")))
        .await;
    let data = Some("receipt".into());
    let duplicate = Commitment::Refused(Refusal::Duplicate { data });
    for now in [NOW, NOW + LEASE + SECOND, NOW + RETENTION] {
        let commitment = scenario.does_not_commit(&scenario.claim(now)).await;
        scenario.same("a duplicate", &commitment, &duplicate);
    }
    let other = Claim {
        fingerprint: Some(fingerprint("another")),
        ..scenario.claim(NOW)
    };
    let commitment = scenario.does_not_commit(&other).await;
    let mismatch = Commitment::Refused(Refusal::PayloadMismatch);
    scenario.same("another message", &commitment, &mismatch);
}

async fn own_completion<F: Fixture>(fixture: &F, grouping: Grouping) {
    let promise = "its own completion refuses a commit that comes later, and counts as recorded";
    let scenario = Scenario::new(fixture, grouping, promise);
    let claim = scenario.claim(NOW);
    scenario.settles(&claim, commit(&claim)).await;
    let later = Claim {
        now: NOW + SECOND,
        ..claim
    };
    let commitment = scenario.does_not_commit(&later).await;
    scenario.same("it is on record", &commitment, &Commitment::Recorded);
}

async fn expired_completion<F: Fixture>(fixture: &F, grouping: Grouping) {
    let promise = "an expired completion makes room for a commit, with a larger fence";
    let scenario = Scenario::new(fixture, grouping, promise);
    let owner = scenario.claim(NOW);
    scenario.settles(&owner, commit(&owner)).await;
    let earlier = scenario.fence().await;
    let expired = owner.expiration + SECOND;
    scenario
        .does_not_commit(&scenario.claim(just_before(expired)))
        .await;
    let late = scenario.claim(expired);
    scenario.settles(&late, commit(&late)).await;
    scenario.grows(earlier, scenario.fence().await);
}

fn just_before(at: Timestamp) -> Timestamp {
    Timestamp::from_millis(at.as_millis() - 1)
}

async fn foreign_claim<F: Fixture>(fixture: &F, grouping: Grouping) {
    let promise =
        "a claim without an owner refuses a commit for its lease, or without one until it expires";
    let scenario = Scenario::new(fixture, grouping, promise);
    let bare = foreign_item(&scenario.id, Status::InProgress);
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
        scenario.plant(item).await;
        scenario.does_not_commit(&scenario.claim(NOW)).await;
        scenario
            .does_not_commit(&scenario.claim(just_before(free)))
            .await;
        let claim = scenario.claim(free);
        scenario.settles(&claim, commit(&claim)).await;
    }
    scenario.plant(bare).await;
    scenario
        .does_not_commit(&scenario.claim(NOW + RETENTION * 100))
        .await;
}

async fn foreign_completion<F: Fixture>(fixture: &F, grouping: Grouping) {
    let promise = "a completion without an owner refuses a commit, for ever where it names no end";
    let scenario = Scenario::new(fixture, grouping, promise);
    let for_ever = foreign_item(&scenario.id, Status::Completed);
    let duplicate = Commitment::Refused(Refusal::Duplicate { data: None });
    scenario.plant(for_ever.clone()).await;
    let late = scenario.claim(NOW + RETENTION * 100);
    let commitment = scenario.does_not_commit(&late).await;
    scenario.same("a duplicate", &commitment, &duplicate);
    scenario
        .plant(Item {
            expiration: Some(NOW),
            ..for_ever
        })
        .await;
    let commitment = scenario.does_not_commit(&scenario.claim(NOW)).await;
    scenario.same("a duplicate", &commitment, &duplicate);
    let late = scenario.claim(NOW + SECOND);
    scenario.settles(&late, commit(&late)).await;
}

async fn unknown_status<F: Fixture>(fixture: &F, grouping: Grouping) {
    let promise = "an item of unknown status refuses a commit at any time, be it its own";
    let scenario = Scenario::new(fixture, grouping, promise);
    let late = scenario.claim(NOW + RETENTION);
    for status in ["EXPIRED", "completed", ""] {
        let item = Item {
            lease_until: Some(NOW),
            expiration: Some(NOW),
            owner: Some(late.owner),
            ..foreign_item(&scenario.id, Status::Unknown(status.to_owned()))
        };
        scenario.plant(item).await;
        let commitment = scenario.does_not_commit(&late).await;
        let unknown = Commitment::Refused(Refusal::UnknownStatus(status.to_owned()));
        scenario.same("a commit", &commitment, &unknown);
    }
}
