//! Who may claim a key, and what a claim leaves.

use futures_util::future::join_all;

use crate::idempotency::{Admission, Refusal, on_claimed};
use crate::store::{Claim, Fence, Settling};

use super::Fixture;
use super::trial::{
    LEASE, MILLISECOND, NOW, RETENTION, Road, SECOND, Trial, completion, fingerprint,
};

pub(super) async fn all<F: Fixture>(fixture: &F, road: Road) {
    new_key(fixture, road).await;
    live_lease(fixture, road).await;
    lapsed_lease(fixture, road).await;
    slow_clock(fixture, road).await;
    completed(fixture, road).await;
    expiration_is_rounded_up(fixture, road).await;
    expired_completion(fixture, road).await;
    lost_answer(fixture, road).await;
    late_copy_after_takeover(fixture, road).await;
    late_copy_after_completion(fixture, road).await;
    fingerprints(fixture, road).await;
    no_fingerprint(fixture, road).await;
    fences(fixture, road).await;
    race(fixture, road).await;
}

async fn new_key<F: Fixture>(fixture: &F, road: Road) {
    let trial = Trial::new(
        fixture,
        road,
        "a new key is claimed, as the reference writes it",
    );
    let claim = trial.claim(NOW);
    let fence = trial.runs(&claim).await;
    trial.same("the first fence", &fence, &Fence::first(NOW));
    trial.same("the item", &trial.item().await, &Some(claim.write(None)));
}

async fn live_lease<F: Fixture>(fixture: &F, road: Road) {
    let promise = "a claim refuses others up to the last millisecond of its lease";
    let trial = Trial::new(fixture, road, promise);
    let first = trial.claim(NOW);
    trial.runs(&first).await;
    trial.is_in_progress(&trial.claim(NOW)).await;
    let before_the_end = Claim {
        now: NOW + (LEASE - MILLISECOND),
        ..trial.claim(NOW)
    };
    trial.is_in_progress(&before_the_end).await;
    trial.is_in_progress(&trial.claim(NOW + LEASE)).await;
    trial.runs(&trial.claim(NOW + LEASE + MILLISECOND)).await;
}

async fn lapsed_lease<F: Fixture>(fixture: &F, road: Road) {
    let promise = "a claim whose lease has lapsed passes to the next owner";
    let trial = Trial::new(fixture, road, promise);
    let first = trial.claim(NOW);
    let earlier = trial.runs(&first).await;
    let second = trial.claim(NOW + LEASE + SECOND);
    trial.takes_over(&second, earlier).await;
}

async fn slow_clock<F: Fixture>(fixture: &F, road: Road) {
    let promise =
        "a worker whose clock is behind takes over late, never early, with a larger fence";
    let trial = Trial::new(fixture, road, promise);
    let first = trial.claim(NOW + RETENTION);
    let earlier = trial.runs(&first).await;
    trial.is_in_progress(&trial.claim(NOW)).await;
    trial.settles(&first, Settling::Release).await;
    let later = trial.runs(&trial.claim(NOW)).await;
    trial.grows(earlier, later);
}

async fn completed<F: Fixture>(fixture: &F, road: Road) {
    let promise = "a completion refuses every claim up to the last second of its expiration";
    let trial = Trial::new(fixture, road, promise);
    let first = trial.claim(NOW);
    trial.runs(&first).await;
    let data = Some("receipt 7 — “paid”".into());
    let expiration = NOW + RETENTION;
    trial
        .settles(&first, Settling::Complete { expiration, data })
        .await;
    for at in [
        NOW,
        NOW + LEASE + SECOND,
        expiration,
        expiration + (SECOND - MILLISECOND),
    ] {
        trial
            .is_duplicate(&trial.claim(at), Some("receipt 7 — “paid”"))
            .await;
    }
    trial.runs(&trial.claim(expiration + SECOND)).await;
}

async fn expiration_is_rounded_up<F: Fixture>(fixture: &F, road: Road) {
    let promise = "a completion that expires within a second is recognised to the second's end";
    let trial = Trial::new(fixture, road, promise);
    let first = trial.claim(NOW);
    trial.runs(&first).await;
    trial.settles(&first, completion(NOW + MILLISECOND)).await;
    let last = NOW + RETENTION + (SECOND + SECOND - MILLISECOND);
    trial.is_duplicate(&trial.claim(last), None).await;
    trial.runs(&trial.claim(last + MILLISECOND)).await;
}

async fn expired_completion<F: Fixture>(fixture: &F, road: Road) {
    let promise =
        "a claim of an expired key that was not deleted starts afresh, except for its fence";
    let trial = Trial::new(fixture, road, promise);
    let first = trial.claim(NOW);
    let earlier = trial.runs(&first).await;
    let (expiration, data) = (NOW, Some("old".into()));
    trial
        .settles(&first, Settling::Complete { expiration, data })
        .await;
    let second = trial.claim(NOW + SECOND);
    trial.takes_over(&second, earlier).await;
}

async fn lost_answer<F: Fixture>(fixture: &F, road: Road) {
    let promise = "a claim that is sent again, its answer lost, is recognised and changes nothing";
    let trial = Trial::new(fixture, road, promise);
    let claim = trial.claim(NOW);
    let fence = trial.runs(&claim).await;
    let item = trial.item().await;
    for _ in 0..2 {
        trial.same("the fence", &trial.runs(&claim).await, &fence);
        trial.same("the item", &trial.item().await, &item);
    }
}

async fn late_copy_after_takeover<F: Fixture>(fixture: &F, road: Road) {
    let promise = "a late copy of a claim changes nothing once another owns the key";
    let trial = Trial::new(fixture, road, promise);
    let first = trial.claim(NOW);
    trial.runs(&first).await;
    trial.runs(&trial.claim(NOW + LEASE + SECOND)).await;
    trial.is_in_progress(&first).await;
}

async fn late_copy_after_completion<F: Fixture>(fixture: &F, road: Road) {
    let promise = "a late copy of a claim changes nothing once its effect is completed";
    let trial = Trial::new(fixture, road, promise);
    let first = trial.claim(NOW);
    trial.runs(&first).await;
    trial.settles(&first, completion(NOW)).await;
    trial.is_duplicate(&first, None).await;
}

async fn fingerprints<F: Fixture>(fixture: &F, road: Road) {
    let promise = "a completed key tells a duplicate from another message by the fingerprint";
    let trial = Trial::new(fixture, road, promise);
    let first = trial.claim(NOW);
    trial.runs(&first).await;
    trial.settles(&first, completion(NOW)).await;
    trial.is_duplicate(&trial.claim(NOW), None).await;
    let unchecked = Claim {
        fingerprint: None,
        ..trial.claim(NOW)
    };
    trial.is_duplicate(&unchecked, None).await;
    let other = Claim {
        fingerprint: Some(fingerprint("another")),
        ..trial.claim(NOW)
    };
    let refusal = trial.is_refused(&other).await;
    trial.same("another message", &refusal, &Refusal::PayloadMismatch);
}

async fn no_fingerprint<F: Fixture>(fixture: &F, road: Road) {
    let promise = "a claim leaves its own fingerprint, and none where it has none";
    let trial = Trial::new(fixture, road, promise);
    let bare = |now| Claim {
        fingerprint: None,
        ..trial.claim(now)
    };
    let first = bare(NOW);
    trial.runs(&first).await;
    trial.same("a new key", &trial.item().await, &Some(first.write(None)));
    let times = [1, 2, 3].map(|times| NOW + (LEASE + SECOND) * times);
    for claim in [trial.claim(times[0]), bare(times[1]), trial.claim(times[2])] {
        trial.runs(&claim).await;
        let kept = trial.item().await.and_then(|item| item.fingerprint);
        trial.same("a takeover", &kept, &claim.fingerprint);
    }
}

async fn fences<F: Fixture>(fixture: &F, road: Road) {
    let promise = "the fence grows with every claim of a key, whatever became of the one before";
    let trial = Trial::new(fixture, road, promise);

    let first = trial.claim(NOW);
    let mut last = trial.runs(&first).await;
    trial.settles(&first, Settling::Release).await;

    let mut grown = async |claim: &Claim| {
        let fence = trial.runs(claim).await;
        trial.grows(std::mem::replace(&mut last, fence), fence);
    };
    let after_release = trial.claim(NOW);
    grown(&after_release).await;

    let after_lapse = trial.claim(NOW + LEASE + SECOND);
    grown(&after_lapse).await;
    let (expiration, data) = (after_lapse.now, None);
    trial
        .settles(&after_lapse, Settling::Complete { expiration, data })
        .await;

    let after_expiry = trial.claim(expiration + SECOND);
    grown(&after_expiry).await;
    let (expiration, data) = (after_expiry.now, None);
    trial
        .settles(&after_expiry, Settling::Complete { expiration, data })
        .await;

    trial.delete().await;
    grown(&trial.claim(expiration + SECOND)).await;
}

async fn race<F: Fixture>(fixture: &F, road: Road) {
    let promise = "of many claims of one key at the same time exactly one is granted";
    let trial = Trial::new(fixture, road, promise);
    let contest = async |now| {
        let claims: Vec<_> = (0..16).map(|_| trial.claim(now)).collect();
        let admissions = join_all(
            claims
                .iter()
                .map(async |claim| on_claimed(claim, &trial.send(claim).await)),
        )
        .await;
        let owner = trial.item().await.and_then(|item| item.owner);
        for (claim, admission) in claims.iter().zip(&admissions) {
            let granted = matches!(admission, Admission::Run { .. });
            trial.same(
                "only the owner runs",
                &granted,
                &(owner == Some(claim.owner)),
            );
        }
        let winners = claims
            .iter()
            .filter(|claim| owner == Some(claim.owner))
            .count();
        trial.same("one owns the key", &winners, &1);
    };
    contest(NOW).await;
    contest(NOW + LEASE + SECOND).await;
}
