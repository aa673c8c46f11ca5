//! Recording an effect without a claim before it: looking a key up, and [`Settling::Record`].

use crate::idempotency::{Admission, Completion, Refusal, on_found};
use crate::store::{Claim, Fence, Recording, Settling};

use super::Fixture;
use super::trial::{LEASE, NOW, Road, SECOND, Trial, completion, fingerprint, recording};

pub(super) async fn all<F: Fixture>(fixture: &F, road: Road) {
    new_key(fixture, road).await;
    lost_answer(fixture, road).await;
    no_fingerprint(fixture, road).await;
    data(fixture, road).await;
    over_a_claim(fixture, road).await;
    over_a_valid_completion(fixture, road).await;
    over_an_expired_completion(fixture, road).await;
    lookup(fixture, road).await;
}

impl<F: Fixture> Trial<'_, F> {
    async fn look_up(&self, claim: &Claim) -> Admission {
        on_found(claim, self.item().await.as_ref())
    }
}

async fn new_key<F: Fixture>(fixture: &F, road: Road) {
    let promise = "an effect is recorded for a new key";
    let trial = Trial::new(fixture, road, promise);
    let claim = trial.claim(NOW);
    trial.settles(&claim, recording(&claim)).await;
    let fence = trial.item().await.and_then(|item| item.fence);
    trial.same("the first fence", &fence, &Some(Fence::first(NOW)));
    trial.is_duplicate(&trial.claim(NOW), None).await;
}

async fn lost_answer<F: Fixture>(fixture: &F, road: Road) {
    let promise = "a recording that is sent again, its answer lost, changes nothing";
    let trial = Trial::new(fixture, road, promise);
    let claim = trial.claim(NOW);
    trial.settles(&claim, recording(&claim)).await;
    trial.settles_again(&claim, recording(&claim)).await;
}

async fn no_fingerprint<F: Fixture>(fixture: &F, road: Road) {
    let promise = "a recording leaves its own fingerprint, and none where it has none";
    let trial = Trial::new(fixture, road, promise);
    let bare = |now| Claim {
        fingerprint: None,
        ..trial.claim(now)
    };
    let first = bare(NOW);
    trial.settles(&first, recording(&first)).await;
    for second in [trial.claim(NOW), bare(NOW)] {
        trial.delete().await;
        trial.runs(&trial.claim(NOW)).await;
        trial.settles(&second, recording(&second)).await;
    }
}

async fn data<F: Fixture>(fixture: &F, road: Road) {
    let promise = "a recording leaves its own data, and none where it has none";
    let trial = Trial::new(fixture, road, promise);
    let with = |claim: &Claim, data: Option<&str>| {
        Settling::Record(Recording {
            now: claim.now,
            expiration: claim.now,
            fingerprint: claim.fingerprint.clone(),
            data: data.map(Into::into),
        })
    };
    let first = trial.claim(NOW);
    trial.settles(&first, with(&first, Some("first"))).await;
    trial.is_duplicate(&trial.claim(NOW), Some("first")).await;
    let second = trial.claim(NOW + SECOND);
    trial.settles(&second, with(&second, Some("second"))).await;
    let third = trial.claim(NOW + SECOND * 2);
    trial.settles(&third, with(&third, None)).await;
    trial.is_duplicate(&trial.claim(third.now), None).await;
}

async fn over_a_claim<F: Fixture>(fixture: &F, road: Road) {
    let promise = "an effect is recorded over a claim, live or lapsed, with a larger fence";
    let trial = Trial::new(fixture, road, promise);
    for now in [NOW, NOW + LEASE + SECOND] {
        trial.delete().await;
        let owner = trial.claim(NOW);
        let earlier = trial.runs(&owner).await;
        let claim = trial.claim(now);
        trial.settles(&claim, recording(&claim)).await;
        let later = trial.item().await.and_then(|item| item.fence);
        trial.grows(earlier, later.unwrap_or_default());
        let completed = trial.does_not_settle(&owner, completion(now)).await;
        trial.same(
            "the owner finds it recorded",
            &completed,
            &Completion::Recorded,
        );
    }
}

async fn over_a_valid_completion<F: Fixture>(fixture: &F, road: Road) {
    let promise = "a valid completion refuses another's recording, and the effect counts";
    let trial = Trial::new(fixture, road, promise);
    let claim = trial.claim(NOW);
    trial.runs(&claim).await;
    trial.settles(&claim, completion(NOW)).await;
    let other = trial.claim(NOW);
    let completed = trial.does_not_settle(&other, recording(&other)).await;
    trial.same("it is on record", &completed, &Completion::Recorded);
}

async fn over_an_expired_completion<F: Fixture>(fixture: &F, road: Road) {
    let promise = "an expired completion makes room for a recording, with a larger fence";
    let trial = Trial::new(fixture, road, promise);
    let claim = trial.claim(NOW);
    let earlier = trial.runs(&claim).await;
    let (expiration, data) = (NOW, Some("old".into()));
    trial
        .settles(&claim, Settling::Complete { expiration, data })
        .await;
    let early = trial.claim(expiration);
    trial.does_not_settle(&early, recording(&early)).await;
    let late = trial.claim(expiration + SECOND);
    trial.settles(&late, recording(&late)).await;
    let later = trial.item().await.and_then(|item| item.fence);
    trial.grows(earlier, later.unwrap_or_default());
}

async fn lookup<F: Fixture>(fixture: &F, road: Road) {
    let promise = "a look-up refuses what a valid completion stands for, and nothing else";
    let trial = Trial::new(fixture, road, promise);
    let runs = |admission| matches!(admission, Admission::Run { .. });
    let claim = trial.claim(NOW);
    trial.same("a new key", &runs(trial.look_up(&claim).await), &true);
    trial.runs(&claim).await;
    trial.same(
        "a live claim",
        &runs(trial.look_up(&trial.claim(NOW)).await),
        &true,
    );
    trial.settles(&claim, completion(NOW)).await;
    let duplicate = Admission::Refused(Refusal::Duplicate { data: None });
    trial.same(
        "a completion",
        &trial.look_up(&trial.claim(NOW)).await,
        &duplicate,
    );
    let other = Claim {
        fingerprint: Some(fingerprint("another")),
        ..trial.claim(NOW)
    };
    let mismatch = Admission::Refused(Refusal::PayloadMismatch);
    trial.same("another message", &trial.look_up(&other).await, &mismatch);
    let late = trial.claim(claim.expiration + SECOND);
    trial.same(
        "an expired completion",
        &runs(trial.look_up(&late).await),
        &true,
    );
}
