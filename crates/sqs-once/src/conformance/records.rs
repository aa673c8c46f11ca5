//! Recording an effect without a claim before it: looking a key up, and [`Settling::Record`].

use crate::idempotency::{Admission, Completion, Refusal, on_found};
use crate::store::{Claim, Fence, Recording, Settling};

use super::Fixture;
use super::scenario::{Grouping, LEASE, NOW, SECOND, Scenario, completion, fingerprint, recording};

pub(super) async fn all<F: Fixture>(fixture: &F, grouping: Grouping) {
    new_key(fixture, grouping).await;
    lost_answer(fixture, grouping).await;
    no_fingerprint(fixture, grouping).await;
    data(fixture, grouping).await;
    over_a_claim(fixture, grouping).await;
    over_a_valid_completion(fixture, grouping).await;
    over_an_expired_completion(fixture, grouping).await;
    lookup(fixture, grouping).await;
}

impl<F: Fixture> Scenario<'_, F> {
    async fn look_up(&self, claim: &Claim) -> Admission {
        on_found(claim, self.item().await.as_ref())
    }
}

async fn new_key<F: Fixture>(fixture: &F, grouping: Grouping) {
    let promise = "an effect is recorded for a new key";
    let scenario = Scenario::new(fixture, grouping, promise);
    let claim = scenario.claim(NOW);
    scenario.settles(&claim, recording(&claim)).await;
    let fence = scenario.item().await.and_then(|item| item.fence);
    scenario.same("the first fence", &fence, &Some(Fence::first(NOW)));
    scenario.is_duplicate(&scenario.claim(NOW), None).await;
}

async fn lost_answer<F: Fixture>(fixture: &F, grouping: Grouping) {
    let promise = "a recording that is sent again, its answer lost, changes nothing";
    let scenario = Scenario::new(fixture, grouping, promise);
    let claim = scenario.claim(NOW);
    scenario.settles(&claim, recording(&claim)).await;
    scenario.settles_again(&claim, recording(&claim)).await;
}

async fn no_fingerprint<F: Fixture>(fixture: &F, grouping: Grouping) {
    let promise = "a recording leaves its own fingerprint, and none where it has none";
    let scenario = Scenario::new(fixture, grouping, promise);
    let bare = |now| Claim {
        fingerprint: None,
        ..scenario.claim(now)
    };
    let first = bare(NOW);
    scenario.settles(&first, recording(&first)).await;
    for second in [scenario.claim(NOW), bare(NOW)] {
        scenario.delete().await;
        scenario.runs(&scenario.claim(NOW)).await;
        scenario.settles(&second, recording(&second)).await;
    }
}

async fn data<F: Fixture>(fixture: &F, grouping: Grouping) {
    let promise = "a recording leaves its own data, and none where it has none";
    let scenario = Scenario::new(fixture, grouping, promise);
    let with = |claim: &Claim, data: Option<&str>| {
        Settling::Record(Recording {
            now: claim.now,
            expiration: claim.now,
            fingerprint: claim.fingerprint.clone(),
            data: data.map(Into::into),
        })
    };
    let first = scenario.claim(NOW);
    scenario.settles(&first, with(&first, Some("first"))).await;
    scenario
        .is_duplicate(&scenario.claim(NOW), Some("first"))
        .await;
    let second = scenario.claim(NOW + SECOND);
    scenario
        .settles(&second, with(&second, Some("second")))
        .await;
    let third = scenario.claim(NOW + SECOND * 2);
    scenario.settles(&third, with(&third, None)).await;
    scenario
        .is_duplicate(&scenario.claim(third.now), None)
        .await;
}

async fn over_a_claim<F: Fixture>(fixture: &F, grouping: Grouping) {
    let promise = "an effect is recorded over a claim, live or lapsed, with a larger fence";
    let scenario = Scenario::new(fixture, grouping, promise);
    for now in [NOW, NOW + LEASE + SECOND] {
        scenario.delete().await;
        let owner = scenario.claim(NOW);
        let earlier = scenario.runs(&owner).await;
        let claim = scenario.claim(now);
        scenario.settles(&claim, recording(&claim)).await;
        let later = scenario.item().await.and_then(|item| item.fence);
        scenario.grows(earlier, later.unwrap_or_default());
        let completed = scenario.does_not_settle(&owner, completion(now)).await;
        scenario.same(
            "the owner finds it recorded",
            &completed,
            &Completion::Recorded,
        );
    }
}

async fn over_a_valid_completion<F: Fixture>(fixture: &F, grouping: Grouping) {
    let promise = "a valid completion refuses another's recording, and the effect counts";
    let scenario = Scenario::new(fixture, grouping, promise);
    let claim = scenario.claim(NOW);
    scenario.runs(&claim).await;
    scenario.settles(&claim, completion(NOW)).await;
    let other = scenario.claim(NOW);
    let completed = scenario.does_not_settle(&other, recording(&other)).await;
    scenario.same("it is on record", &completed, &Completion::Recorded);
}

async fn over_an_expired_completion<F: Fixture>(fixture: &F, grouping: Grouping) {
    let promise = "an expired completion makes room for a recording, with a larger fence";
    let scenario = Scenario::new(fixture, grouping, promise);
    let claim = scenario.claim(NOW);
    let earlier = scenario.runs(&claim).await;
    let (expiration, data) = (NOW, Some("old".into()));
    scenario
        .settles(&claim, Settling::Complete { expiration, data })
        .await;
    let early = scenario.claim(expiration);
    scenario.does_not_settle(&early, recording(&early)).await;
    let late = scenario.claim(expiration + SECOND);
    scenario.settles(&late, recording(&late)).await;
    let later = scenario.item().await.and_then(|item| item.fence);
    scenario.grows(earlier, later.unwrap_or_default());
}

async fn lookup<F: Fixture>(fixture: &F, grouping: Grouping) {
    let promise = "a look-up refuses what a valid completion stands for, and nothing else";
    let scenario = Scenario::new(fixture, grouping, promise);
    let runs = |admission| matches!(admission, Admission::Run { .. });
    let claim = scenario.claim(NOW);
    scenario.same("a new key", &runs(scenario.look_up(&claim).await), &true);
    scenario.runs(&claim).await;
    scenario.same(
        "a live claim",
        &runs(scenario.look_up(&scenario.claim(NOW)).await),
        &true,
    );
    scenario.settles(&claim, completion(NOW)).await;
    let duplicate = Admission::Refused(Refusal::Duplicate { data: None });
    scenario.same(
        "a completion",
        &scenario.look_up(&scenario.claim(NOW)).await,
        &duplicate,
    );
    let other = Claim {
        fingerprint: Some(fingerprint("another")),
        ..scenario.claim(NOW)
    };
    let mismatch = Admission::Refused(Refusal::PayloadMismatch);
    scenario.same(
        "another message",
        &scenario.look_up(&other).await,
        &mismatch,
    );
    let late = scenario.claim(claim.expiration + SECOND);
    scenario.same(
        "an expired completion",
        &runs(scenario.look_up(&late).await),
        &true,
    );
}
