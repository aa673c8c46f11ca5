//! Store failures: a record with an unknown state is never treated as done.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::support::{
    Bench, Fixed, Mode, Order, SECOND, TestStore, Tested, assert_contains, codes, item_id, noting,
    noting_in, orders,
};
use sqs_once::BusinessKey;
use sqs_once::key::ItemId;
use sqs_once::store::StoreErrorKind::{AccessDenied, KeySchema, Other, TableNotFound, Throttled};
use sqs_once::store::{
    Claim, Claimed, Item, MemoryStore, Owner, Seen, Settled, Settlement, Status, Store, StoreError,
    StoreFuture,
};
use sqs_once::unstable::Simulated;
use tokio::time::Instant;

#[tokio::test(start_paused = true)]
async fn a_store_that_refuses_claims_fails_every_record_with_one_line_that_names_the_fix() {
    for (mode, call) in [(Mode::ClaimFirst, "claim"), (Mode::RecordAfter, "read")] {
        for (kind, fix, reason) in [
            (AccessDenied, "function's role", "the store denies access"),
            (TableNotFound, "SQS_ONCE_TABLE", "the table does not exist"),
            (KeySchema, "partition key `id`", "another key schema"),
        ] {
            let (bench, seen) = noting_in(mode);
            bench.store.always_fails(call, kind);
            let ids = (0..60).map(|at| at.to_string());
            assert_eq!(bench.run(ids).await.len(), 60);
            assert_eq!(seen.take(), [""; 0]);
            let [line] = bench.log.take("sqs_once::store").try_into().unwrap();
            assert_contains!(line["error"], fix);
            for line in bench.lines() {
                assert_contains!(line["reason"], reason);
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_whose_answer_was_lost_is_sent_again_and_recognised_as_ones_own() {
    for (call, times) in [("claim", 1), ("settle", 2)] {
        let (bench, seen) = noting();
        bench.store.lose_answer(call, times);
        assert_eq!(bench.run(["a", "b"]).await, [""; 0]);
        assert_eq!(seen.take(), ["a", "b"]);
        assert_eq!(bench.store.item("a").unwrap().status, Status::Completed);
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_is_sent_again_after_between_half_of_its_pause_and_all_of_it() {
    // The first pause is at most 25 ms.
    let cases: [(u128, RangeInclusive<u128>); 2] = [(0, 12..=14), (12_499_999, 24..=26)];
    for (random, expected) in cases {
        let bench = noting().0.with_consumer(|it| it.with_random(Fixed(random)));
        bench.store.fail("claim", Throttled, 1);
        let begun = Instant::now();
        assert_eq!(bench.run(["a"]).await, [""; 0]);
        let took = begun.elapsed().as_millis();
        assert!(expected.contains(&took), "{took} ms with {random}");
    }
}

#[tokio::test(start_paused = true)]
async fn throttled_requests_are_sent_again_until_the_deadline_and_not_after() {
    let (bench, seen) = noting();
    bench.store.fail("claim", Throttled, 3);
    assert_eq!(bench.run(["a"]).await, [""; 0]);
    bench.store.always_fails("claim", Throttled);
    let begun = bench.elapsed();
    assert_eq!(bench.run(["b"]).await, ["m-0"]);
    assert!(bench.elapsed() - begun <= bench.timeout);
    assert_eq!(seen.take(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn an_effect_whose_key_could_not_be_completed_is_not_acknowledged() {
    for kind in [Other, AccessDenied] {
        let (bench, seen) = noting();
        bench.store.always_fails("settle", kind);
        assert_eq!(bench.run(["a"]).await, ["m-0"]);
        let line = bench.line();
        assert_contains!(line["reason"], &format!("could not be completed: {kind}"));
        assert_eq!(codes(&[line]), "failed: not-completed");
        // The claim remains, so the effect is not repeated before the lease expires.
        assert_eq!(bench.run(["a"]).await, ["m-0"]);
        assert_eq!(bench.outcomes(), "in_progress");
        assert_eq!(seen.take(), ["a"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_release_that_fails_changes_nothing_for_the_record() {
    let (bench, seen) = noting();
    bench.store.always_fails("settle", Other);
    assert_eq!(bench.run(["bad"]).await, ["m-0"]);
    assert_eq!(bench.line()["reason"], "no luck");
    assert_eq!(bench.run(["bad"]).await, ["m-0"]);
    assert_eq!(bench.outcomes(), "in_progress");
    bench.clock.advance(60 * SECOND);
    assert_eq!(bench.run(["bad"]).await, ["m-0"]);
    assert_eq!(seen.take(), ["bad", "bad"]);
}

#[tokio::test(start_paused = true)]
async fn a_claimed_record_does_not_wait_until_another_key_of_its_request_is_taken_over() {
    let (bench, seen) = noting();
    bench.foreign("lapsed", Status::InProgress, Duration::ZERO);
    bench.clock.advance(SECOND);
    bench.store.claims_take(|claims| {
        let is_first = |claim: &Claim| claim.seen == Seen::Nothing;
        Duration::MAX * u32::from(!claims.iter().all(is_first))
    });
    assert_eq!(bench.run(["lapsed", "new"]).await, ["m-0"]);
    assert_eq!(seen.take(), ["new"]);
}

/// Another worker takes over the record's claim while the handler runs.
fn taken_over(status: Status) -> Tested {
    let bench = Bench::new();
    let store = bench.store.clone();
    let handler = orders().call(move |order: Order| {
        store.change(&order.id, |item| {
            item.owner = Some(Owner::from_bits(1));
            item.status = status.clone();
        });
        async {}
    });
    bench.on(handler)
}

#[tokio::test(start_paused = true)]
async fn a_completion_after_the_claim_was_lost_is_acknowledged_only_if_another_completed() {
    let twice = "may have happened twice";
    for (status, failed, code, reason) in [
        (Status::InProgress, &["m-0"][..], "failed: lease-lost", ""),
        (Status::Completed, &[], "processed: lease-lost", twice),
    ] {
        let bench = taken_over(status);
        assert_eq!(bench.run(["a"]).await, failed);
        // The other's item must stand.
        let owner = bench.store.item("a").unwrap().owner;
        assert_eq!(owner, Some(Owner::from_bits(1)), "{code}");
        let line = bench.line();
        assert_eq!(line["level"], "WARN");
        assert_contains!(line["reason"], reason);
        assert_eq!(codes(&[line]), code);
    }
}

#[tokio::test(start_paused = true)]
async fn a_status_that_nobody_knows_is_named_and_not_acknowledged_and_the_others_run() {
    let (bench, seen) = noting();
    bench.run(["a"]).await;
    bench.lines();
    bench.store.change("a", |item| {
        item.status = Status::Unknown("EXPIRED".to_owned())
    });
    assert_eq!(bench.run(["a", "b"]).await, ["m-0"]);
    let lines = bench.lines();
    assert_eq!(codes(&lines), "failed: unknown-status, processed");
    assert!(lines[0]["reason"].contains("\"EXPIRED\""));
    assert_eq!(seen.take(), ["a", "b"]);
}

/// A store that omits the last answer of every slice.
struct Forgetful(MemoryStore);

impl Store for Forgetful {
    fn claim<'a>(&'a self, claims: &'a [Claim]) -> StoreFuture<'a, Claimed> {
        self.0.claim(&claims[..claims.len() - 1])
    }

    fn settle<'a>(&'a self, settlements: &'a [Settlement]) -> StoreFuture<'a, Settled> {
        self.0.settle(&settlements[..settlements.len() - 1])
    }

    fn read<'a>(&'a self, ids: &'a [ItemId]) -> StoreFuture<'a, Option<Item>> {
        self.0.read(ids)
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_answers_too_few_entries_leaves_the_others_unknown_and_stalls_nothing() {
    let (bench, seen) = noting();
    let bench = bench.with_consumer(|it| it.store(Forgetful(MemoryStore::new())));
    assert_eq!(bench.run(["a", "b", "c", "d"]).await, ["m-2", "m-3"]);
    assert_eq!(seen.take(), ["a", "b", "c"]);
    assert_eq!(bench.elapsed(), std::time::Duration::ZERO);
}

/// Throttles every request for one key, as a hot partition does.
fn throttles(key: &str) -> impl Fn(&ItemId) -> Option<StoreError> + use<> {
    let hot = item_id(&BusinessKey::new(key).unwrap());
    move |id| (*id == hot).then(|| StoreError::new(Throttled, "hot"))
}

#[tokio::test(start_paused = true)]
async fn a_throttled_claim_completion_or_release_holds_up_no_other_record_and_no_answer() {
    let (hot_claim, hot_settlement) = (throttles("c"), throttles("a"));
    let store = TestStore::default;
    let claims = store().refusing_claims(move |claim| hot_claim(&claim.id));
    let settlements = store().refusing_settlements(move |one| hot_settlement(&one.id));
    for (store, failed, handled) in [
        (claims, "m-2", vec!["a", "b", "d"]),
        (settlements, "m-0", vec!["a", "b", "c", "d"]),
    ] {
        let (bench, seen) = noting();
        let bench = bench.with_consumer(|it| it.store(store));
        assert_eq!(bench.run(["a", "b", "c", "d"]).await, [failed]);
        assert_eq!(seen.take(), handled);
        let lines = bench.lines();
        let mut others = lines.iter().filter(|line| line["outcome"] == "processed");
        assert!(others.all(|line| line["duration_ms"] == "0.0"), "{lines:?}");
    }
    let hot_release = throttles("bad");
    let (bench, _) = noting();
    bench
        .store
        .refusing_settlements(move |one| hot_release(&one.id));
    assert_eq!(bench.run(["bad"]).await, ["m-0"]);
    assert!(bench.elapsed() < SECOND);
}

#[tokio::test(start_paused = true)]
async fn when_completions_are_denied_no_further_handler_starts() {
    let (bench, seen) = noting();
    let bench = bench.with_consumer(|it| it.concurrency(1));
    bench.store.always_fails("settle", AccessDenied);
    let ids = (0..100).map(|at| at.to_string());
    assert_eq!(bench.run(ids).await.len(), 100);
    let effects = seen.len();
    assert!(effects <= 25, "{effects} effects without a completion");
}

#[tokio::test(start_paused = true)]
async fn a_claim_may_not_expire_before_the_last_renewal_of_its_lease_ends() {
    let bench = Bench::new();
    let store = bench.store.clone();
    let looking = orders().call(move |order: Order| {
        let item = store.item(&order.id).unwrap();
        let renewed_until = item.lease_until.map(|until| until + 15 * 60 * SECOND);
        assert!(item.expiration >= renewed_until, "{item:?}");
        async {}
    });
    let bench = bench.on(looking.retention(SECOND));
    assert_eq!(bench.run(["a"]).await, [""; 0]);
}
