//! Who may claim a key, and what a claim leaves.

use futures_util::future::join_all;

use crate::idempotency::{Admission, Refusal, on_claimed};
use crate::store::{Claim, Fence, Settling};

use super::Fixture;
use super::scenario::{
    Grouping, LEASE, MILLISECOND, NOW, RETENTION, SECOND, Scenario, completion, fingerprint,
};

pub(super) async fn all<F: Fixture>(fixture: &F, grouping: Grouping) {
    new_key(fixture, grouping).await;
    live_lease(fixture, grouping).await;
    lapsed_lease(fixture, grouping).await;
    slow_clock(fixture, grouping).await;
    completed(fixture, grouping).await;
    expiration_is_rounded_up(fixture, grouping).await;
    expired_completion(fixture, grouping).await;
    lost_answer(fixture, grouping).await;
    late_copy_after_takeover(fixture, grouping).await;
    late_copy_after_completion(fixture, grouping).await;
    fingerprints(fixture, grouping).await;
    no_fingerprint(fixture, grouping).await;
    fences(fixture, grouping).await;
    race(fixture, grouping).await;
}

async fn new_key<F: Fixture>(fixture: &F, grouping: Grouping) {
    let scenario = Scenario::new(
        fixture,
        grouping,
        "a new key is claimed, as the reference writes it",
    );
    let claim = scenario.claim(NOW);
    let fence = scenario.runs(&claim).await;
    scenario.same("the first fence", &fence, &Fence::first(NOW));
    scenario.same("the item", &scenario.item().await, &Some(claim.write(None)));
}

async fn live_lease<F: Fixture>(fixture: &F, grouping: Grouping) {
    let promise = "a claim refuses others up to the last millisecond of its lease";
    let scenario = Scenario::new(fixture, grouping, promise);
    let first = scenario.claim(NOW);
    scenario.runs(&first).await;
    scenario.is_in_progress(&scenario.claim(NOW)).await;
    let before_the_end = Claim {
        now: NOW + (LEASE - MILLISECOND),
        ..scenario.claim(NOW)
    };
    scenario.is_in_progress(&before_the_end).await;
    scenario.is_in_progress(&scenario.claim(NOW + LEASE)).await;
    scenario
        .runs(&scenario.claim(NOW + LEASE + MILLISECOND))
        .await;
}

async fn lapsed_lease<F: Fixture>(fixture: &F, grouping: Grouping) {
    let promise = "a claim whose lease has lapsed passes to the next owner";
    let scenario = Scenario::new(fixture, grouping, promise);
    let first = scenario.claim(NOW);
    let earlier = scenario.runs(&first).await;
    let second = scenario.claim(NOW + LEASE + SECOND);
    scenario.takes_over(&second, earlier).await;
}

async fn slow_clock<F: Fixture>(fixture: &F, grouping: Grouping) {
    let promise =
        "a worker whose clock is behind takes over late, never early, with a larger fence";
    let scenario = Scenario::new(fixture, grouping, promise);
    let first = scenario.claim(NOW + RETENTION);
    let earlier = scenario.runs(&first).await;
    scenario.is_in_progress(&scenario.claim(NOW)).await;
    scenario.settles(&first, Settling::Release).await;
    let later = scenario.runs(&scenario.claim(NOW)).await;
    scenario.grows(earlier, later);
}

async fn completed<F: Fixture>(fixture: &F, grouping: Grouping) {
    let promise = "a completion refuses every claim up to the last second of its expiration";
    let scenario = Scenario::new(fixture, grouping, promise);
    let first = scenario.claim(NOW);
    scenario.runs(&first).await;
    let data = Some("receipt 7 — “paid”".into());
    let expiration = NOW + RETENTION;
    scenario
        .settles(&first, Settling::Complete { expiration, data })
        .await;
    for at in [
        NOW,
        NOW + LEASE + SECOND,
        expiration,
        expiration + (SECOND - MILLISECOND),
    ] {
        scenario
            .is_duplicate(&scenario.claim(at), Some("receipt 7 — “paid”"))
            .await;
    }
    scenario.runs(&scenario.claim(expiration + SECOND)).await;
}

async fn expiration_is_rounded_up<F: Fixture>(fixture: &F, grouping: Grouping) {
    let promise = "a completion that expires within a second is recognised to the second's end";
    let scenario = Scenario::new(fixture, grouping, promise);
    let first = scenario.claim(NOW);
    scenario.runs(&first).await;
    scenario
        .settles(&first, completion(NOW + MILLISECOND))
        .await;
    let last = NOW + RETENTION + (SECOND + SECOND - MILLISECOND);
    scenario.is_duplicate(&scenario.claim(last), None).await;
    scenario.runs(&scenario.claim(last + MILLISECOND)).await;
}

async fn expired_completion<F: Fixture>(fixture: &F, grouping: Grouping) {
    let promise =
        "a claim of an expired key that was not deleted starts afresh, except for its fence";
    let scenario = Scenario::new(fixture, grouping, promise);
    let first = scenario.claim(NOW);
    let earlier = scenario.runs(&first).await;
    let (expiration, data) = (NOW, Some("old".into()));
    scenario
        .settles(&first, Settling::Complete { expiration, data })
        .await;
    let second = scenario.claim(NOW + SECOND);
    scenario.takes_over(&second, earlier).await;
}

async fn lost_answer<F: Fixture>(fixture: &F, grouping: Grouping) {
    let promise = "a claim that is sent again, its answer lost, is recognised and changes nothing";
    let scenario = Scenario::new(fixture, grouping, promise);
    let claim = scenario.claim(NOW);
    let fence = scenario.runs(&claim).await;
    let item = scenario.item().await;
    for _ in 0..2 {
        scenario.same("the fence", &scenario.runs(&claim).await, &fence);
        scenario.same("the item", &scenario.item().await, &item);
    }
}

async fn late_copy_after_takeover<F: Fixture>(fixture: &F, grouping: Grouping) {
    let promise = "a late copy of a claim changes nothing once another owns the key";
    let scenario = Scenario::new(fixture, grouping, promise);
    let first = scenario.claim(NOW);
    scenario.runs(&first).await;
    scenario.runs(&scenario.claim(NOW + LEASE + SECOND)).await;
    scenario.is_in_progress(&first).await;
}

async fn late_copy_after_completion<F: Fixture>(fixture: &F, grouping: Grouping) {
    let promise = "a late copy of a claim changes nothing once its effect is completed";
    let scenario = Scenario::new(fixture, grouping, promise);
    let first = scenario.claim(NOW);
    scenario.runs(&first).await;
    scenario.settles(&first, completion(NOW)).await;
    scenario.is_duplicate(&first, None).await;
}

async fn fingerprints<F: Fixture>(fixture: &F, grouping: Grouping) {
    let promise = "a completed key tells a duplicate from another message by the fingerprint";
    let scenario = Scenario::new(fixture, grouping, promise);
    let first = scenario.claim(NOW);
    scenario.runs(&first).await;
    scenario.settles(&first, completion(NOW)).await;
    scenario.is_duplicate(&scenario.claim(NOW), None).await;
    let unchecked = Claim {
        fingerprint: None,
        ..scenario.claim(NOW)
    };
    scenario.is_duplicate(&unchecked, None).await;
    let other = Claim {
        fingerprint: Some(fingerprint("another")),
        ..scenario.claim(NOW)
    };
    let refusal = scenario.is_refused(&other).await;
    scenario.same("another message", &refusal, &Refusal::PayloadMismatch);
}

async fn no_fingerprint<F: Fixture>(fixture: &F, grouping: Grouping) {
    let promise = "a claim leaves its own fingerprint, and none where it has none";
    let scenario = Scenario::new(fixture, grouping, promise);
    let bare = |now| Claim {
        fingerprint: None,
        ..scenario.claim(now)
    };
    let first = bare(NOW);
    scenario.runs(&first).await;
    scenario.same(
        "a new key",
        &scenario.item().await,
        &Some(first.write(None)),
    );
    let times = [1, 2, 3].map(|times| NOW + (LEASE + SECOND) * times);
    for claim in [
        scenario.claim(times[0]),
        bare(times[1]),
        scenario.claim(times[2]),
    ] {
        scenario.runs(&claim).await;
        let kept = scenario.item().await.and_then(|item| item.fingerprint);
        scenario.same("a takeover", &kept, &claim.fingerprint);
    }
}

async fn fences<F: Fixture>(fixture: &F, grouping: Grouping) {
    let promise = "the fence grows with every claim of a key, whatever became of the one before";
    let scenario = Scenario::new(fixture, grouping, promise);

    let first = scenario.claim(NOW);
    let mut last = scenario.runs(&first).await;
    scenario.settles(&first, Settling::Release).await;

    let mut grown = async |claim: &Claim| {
        let fence = scenario.runs(claim).await;
        scenario.grows(std::mem::replace(&mut last, fence), fence);
    };
    let after_release = scenario.claim(NOW);
    grown(&after_release).await;

    let after_lapse = scenario.claim(NOW + LEASE + SECOND);
    grown(&after_lapse).await;
    let (expiration, data) = (after_lapse.now, None);
    scenario
        .settles(&after_lapse, Settling::Complete { expiration, data })
        .await;

    let after_expiry = scenario.claim(expiration + SECOND);
    grown(&after_expiry).await;
    let (expiration, data) = (after_expiry.now, None);
    scenario
        .settles(&after_expiry, Settling::Complete { expiration, data })
        .await;

    scenario.delete().await;
    grown(&scenario.claim(expiration + SECOND)).await;
}

async fn race<F: Fixture>(fixture: &F, grouping: Grouping) {
    let promise = "of many claims of one key at the same time exactly one is granted";
    let scenario = Scenario::new(fixture, grouping, promise);
    let contest = async |now| {
        let claims: Vec<_> = (0..16).map(|_| scenario.claim(now)).collect();
        let admissions = join_all(
            claims
                .iter()
                .map(async |claim| on_claimed(claim, &scenario.send(claim).await)),
        )
        .await;
        let owner = scenario.item().await.and_then(|item| item.owner);
        for (claim, admission) in claims.iter().zip(&admissions) {
            let granted = matches!(admission, Admission::Run { .. });
            scenario.same(
                "only the owner runs",
                &granted,
                &(owner == Some(claim.owner)),
            );
        }
        let winners = claims
            .iter()
            .filter(|claim| owner == Some(claim.owner))
            .count();
        scenario.same("one owns the key", &winners, &1);
    };
    contest(NOW).await;
    contest(NOW + LEASE + SECOND).await;
}
