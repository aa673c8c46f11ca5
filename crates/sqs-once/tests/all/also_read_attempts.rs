//! Attempts under two IDs: fences grow, and no token is used again once it is old.

use serde_json::Value;
use sqs_once::extract::Attempt;
use sqs_once::key::{Ids, KeySecret};
use sqs_once::policy::UnknownOutcome;
use sqs_once::store::{Item, StoreErrorKind};
use sqs_once::telemetry::Outcome::{Failed, InProgress, Terminal};
use sqs_once::testing::{Bench, Operation};
use sqs_once::{Handler, HandlerError, IdempotencyToken};

use crate::also_read::{HOUR, ends, namespace, of_python, pair};
use crate::support::{SECOND, Seen, lapsed, one, values};

/// A version whose handler fails and notes the fence of each call.
fn noting_fences(own: &str, fences: &Seen) -> Handler {
    let fences = fences.clone();
    let handler = values().call(move |_: Value, attempt: Attempt| {
        fences.add(attempt.fence().to_string());
        async { Err::<(), HandlerError>("no answer".into()) }
    });
    handler.namespace(own)
}

fn within_a_day(handler: Handler) -> Handler {
    handler.unknown_outcome(UnknownOutcome::dead_letter().token_valid_for(24 * HOUR))
}

/// Two versions whose handlers fail and note the fence of each call. Each also reads the other's ids.
pub(crate) fn failing() -> (Bench, Bench, Seen) {
    let fences = Seen::default();
    let (old, new) = pair(|own| within_a_day(noting_fences(own, &fences)));
    (old, new, fences)
}

/// Asserts that the message is terminal for this reason.
async fn assert_kept(bench: &Bench, reason: &str) {
    let answer = bench.run(one("k")).await;
    answer.assert_terminal("m-1").assert_reason("m-1", reason);
}

const UNKNOWN: &str = "it was first attempted at an unknown time";

/// Asserts that this many calls got larger and larger fences.
#[track_caller]
fn assert_growing(fences: &Seen, count: usize) {
    let fences = fences.all().into_iter();
    let fences: Vec<u64> = fences.map(|fence| fence.parse().unwrap()).collect();
    assert!(fences.is_sorted_by(|one, next| one < next), "{fences:?}");
    assert_eq!(fences.len(), count);
}

#[tokio::test(start_paused = true)]
async fn a_token_that_expired_under_the_other_id_is_not_used_again() {
    for dies in [false, true] {
        let (old, new, fences) = failing();
        match dies {
            true => old.another_worker_claims("k").await,
            false => drop(old.run(one("k")).await.assert_failed("m-1")),
        }
        new.clock().advance(25 * HOUR + SECOND);
        for bench in [&new, &old, &new] {
            assert_kept(bench, "outcome unknown: it was first attempted 25 h ago").await;
        }
        assert_eq!(fences.len(), usize::from(!dies));
    }
}

#[tokio::test(start_paused = true)]
async fn the_fences_of_a_key_grow_across_both_of_its_ids_even_if_a_look_is_repeated() {
    for kind in [StoreErrorKind::Throttled, StoreErrorKind::Unanswered] {
        let (old, new, fences) = failing();
        let benches = [&old, &old, &old, &new, &old, &new];
        ends("k", benches.map(|bench| (bench, Failed))).await;
        new.store().fail(Operation::Read, kind, 1);
        ends("k", [(&new, Failed), (&old, Failed)]).await;
        assert_growing(&fences, 8);
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_namespace_gives_an_attempt_another_token_and_a_new_secret_does_not() {
    let tokens = Seen::default();
    let noting = |own: &str| {
        let tokens = tokens.clone();
        let handler = move |_: Value, token: IdempotencyToken| {
            tokens.add(token.as_str().to_owned());
            async { Err::<(), HandlerError>("no answer".into()) }
        };
        values().call(handler).namespace(own)
    };
    let old = Bench::new(noting("old"));
    let secret = KeySecret::new([7; 32]).unwrap();
    let rotated = old.beside(noting("old").ids(Ids::secret(secret)));
    let renamed = old.beside(noting("new").ids(Ids::hashed().also_read(namespace("old"))));
    ends("k", [&old, &rotated, &renamed].map(|bench| (bench, Failed))).await;
    let [old, rotated, renamed] = tokens.take().try_into().unwrap();
    assert_eq!(old, rotated);
    assert_ne!(old, renamed);
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_the_other_version_refused_makes_no_token_young() {
    let (old, new, fences) = failing();
    old.run(one("k")).await.assert_failed("m-1");
    old.clock().advance(20 * HOUR);
    old.another_worker_claims("k").await;
    new.run(one("k")).await.assert_in_progress("m-1");
    old.clock().advance(3 * HOUR);
    old.run(one("k")).await.assert_failed("m-1");
    old.clock().advance(7 * HOUR);
    ends("k", [(&old, Terminal), (&new, Terminal)]).await;
    assert_eq!(fences.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_expired_item_of_the_other_id_repeats_no_fence_and_makes_no_token_old() {
    let (old, new, fences) = failing();
    ends("k", [(&old, Failed), (&new, Failed)]).await;
    new.clock().advance(29 * 24 * HOUR);
    // DynamoDB deletes expired items in any order.
    let own = new.item("k").await.unwrap().id;
    new.store().memory().remove(&own);
    new.run(one("k")).await.assert_failed("m-1");
    assert_growing(&fences, 3);
}

/// Notes the fence of each call, which fails. Its other id is the one of Powertools.
fn beside_powertools(settings: fn(Handler) -> Handler) -> (Bench, Seen, Item) {
    let (python, id) = of_python("k");
    let fences = Seen::default();
    let handler = settings(noting_fences("new", &fences));
    let bench = Bench::new(handler.ids(Ids::hashed().also_read(python)));
    (bench, fences, lapsed(id))
}

#[tokio::test(start_paused = true)]
async fn an_attempt_of_powertools_has_an_unknown_age_even_after_its_item_is_deleted() {
    for lapses in [true, false] {
        let (bench, fences, mut item) = beside_powertools(within_a_day);
        if !lapses {
            item.lease_until = Some(bench.clock().now() + 60 * SECOND);
        }
        bench.store().memory().put(item.clone());
        match lapses {
            true => assert_kept(&bench, UNKNOWN).await,
            false => ends("k", [(&bench, InProgress)]).await,
        }
        bench.store().memory().remove(&item.id);
        for _ in 0..2 {
            assert_kept(&bench, UNKNOWN).await;
        }
        assert!(fences.all().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn the_fences_of_a_key_grow_although_its_age_is_unknown() {
    let (bench, fences, item) = beside_powertools(|it| it);
    bench.run(one("k")).await.assert_failed("m-1");
    // Under its own id, Powertools has replaced an item with a fence.
    let mut own = item.clone();
    own.id = bench.item("k").await.unwrap().id;
    let memory = bench.store().memory();
    for items in [vec![], vec![item.clone()], vec![own, item.clone()]] {
        items.into_iter().for_each(|item| memory.put(item));
        bench.run(one("k")).await.assert_failed("m-1");
        bench.clock().advance(SECOND);
    }
    memory.remove(&item.id);
    for _ in 0..2 {
        bench.run(one("k")).await.assert_failed("m-1");
    }
    assert_growing(&fences, 6);
}

#[tokio::test(start_paused = true)]
async fn a_fence_of_the_other_id_makes_no_unknown_age_known() {
    let (old, new, fences) = failing();
    old.run(one("k")).await.assert_failed("m-1");
    new.another_worker_claims("k").await;
    let own = new.item("k").await.unwrap().id;
    new.store().memory().put(lapsed(own));
    for bench in [&new, &new, &old, &old] {
        assert_kept(bench, UNKNOWN).await;
    }
    assert_eq!(fences.len(), 1);
}
