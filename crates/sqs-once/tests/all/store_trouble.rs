//! Store failures: a record with an unknown state is never treated as done.

use std::time::Duration;

use crate::support::{Bench, Order, event, item_id, noting, order, outcomes};
use sqs_once::policy::Mode;
use sqs_once::random::Random;
use sqs_once::store::{Item, Owner, Status, StoreErrorKind};
use sqs_once::testing::TestSettings;
use sqs_once::time::Clock;
use sqs_once::{BusinessKey, Consumer, consumer};
use tokio::time::Instant;

#[tokio::test(start_paused = true)]
async fn a_store_that_refuses_claims_fails_every_record_with_one_line_that_names_the_fix() {
    for (kind, fix) in [
        (StoreErrorKind::AccessDenied, "grant the function's role"),
        (StoreErrorKind::TableNotFound, "check SQS_ONCE_TABLE"),
        (StoreErrorKind::KeySchema, "partition key `id`"),
    ] {
        let bench = Bench::new();
        let (consumer, seen) = noting(&bench);
        bench.store.fail("claim", kind, usize::MAX);
        let records = (0..60).map(|at| order(&at.to_string()));
        assert_eq!(bench.invoke(&consumer, event(records)).await.len(), 60);
        assert!(seen.lock().unwrap().is_empty());
        let lines = bench.log.take("sqs_once::store");
        assert_eq!(lines.len(), 1);
        assert!(lines[0]["error"].contains(fix), "{lines:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_whose_answer_was_lost_is_recognised_as_ones_own() {
    let bench = Bench::new();
    let (consumer, seen) = noting(&bench);
    bench.store.lose_answer("claim", 1);
    assert!(
        bench
            .invoke(&consumer, event(["a", "b"].map(order)))
            .await
            .is_empty()
    );
    assert_eq!(*seen.lock().unwrap(), ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn a_completion_whose_answer_was_lost_is_sent_again() {
    let bench = Bench::new();
    let (consumer, seen) = noting(&bench);
    bench.store.lose_answer("settle", 2);
    assert!(
        bench
            .invoke(&consumer, event(["a", "b"].map(order)))
            .await
            .is_empty()
    );
    assert_eq!(seen.lock().unwrap().len(), 2);
    assert_eq!(bench.store.item("a").unwrap().status, Status::Completed);
}

struct Fixed(u128);

impl Random for Fixed {
    fn bits(&self) -> u128 {
        self.0
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_is_sent_again_after_between_half_of_its_pause_and_all_of_it() {
    // The first pause is at most 25 ms.
    for (random, expected) in [(0, 12..=14), (12_499_999, 24..=26)] {
        let bench = Bench::new();
        let (consumer, _) = noting(&bench);
        let consumer = consumer.random(Fixed(random));
        bench.store.fail("claim", StoreErrorKind::Throttled, 1);
        let begun = Instant::now();
        assert!(
            bench
                .invoke(&consumer, event([order("a")]))
                .await
                .is_empty()
        );
        let took = begun.elapsed().as_millis();
        assert!(expected.contains(&took), "{took} ms with {random}");
    }
}

#[tokio::test(start_paused = true)]
async fn throttled_requests_are_sent_again_until_the_deadline_and_not_after() {
    let bench = Bench::new();
    let (consumer, seen) = noting(&bench);
    bench.store.fail("claim", StoreErrorKind::Throttled, 3);
    assert!(
        bench
            .invoke(&consumer, event([order("a")]))
            .await
            .is_empty()
    );
    bench
        .store
        .fail("claim", StoreErrorKind::Throttled, usize::MAX);
    let begun = bench.clock.now();
    assert_eq!(bench.invoke(&consumer, event([order("b")])).await, ["m-0"]);
    assert!(bench.clock.now().since(begun) <= bench.timeout);
    assert_eq!(*seen.lock().unwrap(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn an_effect_that_could_not_be_recorded_is_not_acknowledged() {
    let bench = Bench::new();
    let (consumer, seen) = noting(&bench);
    bench
        .store
        .fail("settle", StoreErrorKind::Other, usize::MAX);
    assert_eq!(bench.invoke(&consumer, event([order("a")])).await, ["m-0"]);
    assert_eq!(bench.outcomes(), outcomes([("m-0", "failed")]));
    // The claim remains, so the effect is not repeated before the lease expires.
    assert_eq!(bench.invoke(&consumer, event([order("a")])).await, ["m-0"]);
    assert_eq!(bench.outcomes(), outcomes([("m-0", "in_progress")]));
    assert_eq!(*seen.lock().unwrap(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_release_that_fails_changes_nothing_for_the_record() {
    let bench = Bench::new();
    let failing = consumer::<Order>()
        .key(|order: &Order| order.id.clone())
        .handler(async |_: Order| Err::<(), _>("no luck"));
    let consumer = bench.consumer(failing);
    bench
        .store
        .fail("settle", StoreErrorKind::Other, usize::MAX);
    assert_eq!(bench.invoke(&consumer, event([order("a")])).await, ["m-0"]);
    let lines = bench.log.take("sqs_once::record");
    assert_eq!(lines[0]["reason"], "no luck");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_never_answers_does_not_hold_up_the_answer() {
    struct Silent;
    impl sqs_once::store::Store for Silent {
        fn claim<'a>(
            &'a self,
            _: &'a [sqs_once::store::Claim],
        ) -> sqs_once::store::StoreFuture<'a, sqs_once::store::Claimed> {
            Box::pin(std::future::pending())
        }
        fn settle<'a>(
            &'a self,
            _: &'a [sqs_once::store::Settlement],
        ) -> sqs_once::store::StoreFuture<'a, sqs_once::store::Settled> {
            Box::pin(std::future::pending())
        }
        fn read<'a>(
            &'a self,
            _: &'a [sqs_once::key::ItemId],
        ) -> sqs_once::store::StoreFuture<'a, Option<Item>> {
            Box::pin(std::future::pending())
        }
    }
    let bench = Bench::new();
    let (consumer, _) = noting(&bench);
    let consumer = consumer.store(Silent);
    let begun = bench.clock.now();
    assert_eq!(bench.invoke(&consumer, event([order("a")])).await, ["m-0"]);
    assert_eq!(
        bench.clock.now().since(begun),
        bench.timeout - Duration::from_millis(250)
    );
}

/// Replaces the record's claim with another worker's item while the handler runs.
fn taken_over(bench: &Bench, status: Status) -> Consumer {
    let store = bench.store.clone();
    let usurped = consumer::<Order>()
        .key(|order: &Order| order.id.clone())
        .handler(move |order: Order| {
            let mine = store.item(&order.id).unwrap();
            store.inner.put({
                let mut item = mine;
                item.owner = Some(Owner::from_bits(1));
                item.status = status.clone();
                item
            });
            async {}
        });
    bench.consumer(usurped)
}

#[tokio::test(start_paused = true)]
async fn a_completion_after_the_claim_was_lost_is_acknowledged_only_if_another_completed() {
    let bench = Bench::new();
    let lost = taken_over(&bench, Status::InProgress);
    assert_eq!(bench.invoke(&lost, event([order("a")])).await, ["m-0"]);
    let owner = bench.store.item("a").unwrap().owner;
    assert_eq!(
        owner,
        Some(Owner::from_bits(1)),
        "the other's claim must stand"
    );

    bench.log.take("sqs_once::record");
    let completed = taken_over(&bench, Status::Completed);
    assert!(
        bench
            .invoke(&completed, event([order("b")]))
            .await
            .is_empty()
    );
    let [line] = bench.log.take("sqs_once::record").try_into().unwrap();
    assert_eq!((&*line["level"], &*line["outcome"]), ("WARN", "processed"));
    assert!(
        line["reason"].contains("may have happened twice"),
        "{line:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn attempts_that_claim_nothing_have_not_overtaken_one_another() {
    let bench = Bench::new();
    let store = bench.store.clone();
    let later = bench.clock.now() + Duration::from_secs(60);
    let both_run = consumer::<Order>()
        .key(|order: &Order| order.id.clone())
        .mode(Mode::RecordAfter)
        .handler(move |order: Order| {
            store.inner.put({
                let mut item = Item::new(
                    item_id(&BusinessKey::new(&order.id).unwrap()),
                    Status::Completed,
                );
                item.expiration = Some(later);
                item.owner = Some(Owner::from_bits(1));
                item
            });
            async {}
        });
    let both_run = bench.consumer(both_run);
    assert!(
        bench
            .invoke(&both_run, event([order("a")]))
            .await
            .is_empty()
    );
    let [line] = bench.log.take("sqs_once::record").try_into().unwrap();
    assert_eq!((&*line["level"], &*line["outcome"]), ("INFO", "processed"));
}

#[tokio::test(start_paused = true)]
async fn a_status_that_nobody_knows_is_named_and_not_acknowledged() {
    let bench = Bench::new();
    let (consumer, seen) = noting(&bench);
    bench.invoke(&consumer, event([order("a")])).await;
    let item = bench.store.item("a").unwrap();
    bench.store.inner.put({
        let mut item = item;
        item.status = Status::Unknown("EXPIRED".to_owned());
        item
    });
    bench.log.take("sqs_once::record");
    assert_eq!(bench.invoke(&consumer, event([order("a")])).await, ["m-0"]);
    let lines = bench.log.take("sqs_once::record");
    assert!(lines[0]["reason"].contains("\"EXPIRED\""));
    assert_eq!(seen.lock().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_answers_too_few_entries_leaves_the_others_unknown_and_stalls_nothing() {
    /// A store that omits the last answer of every slice.
    struct Forgetful(sqs_once::MemoryStore);
    impl sqs_once::store::Store for Forgetful {
        fn claim<'a>(
            &'a self,
            claims: &'a [sqs_once::store::Claim],
        ) -> sqs_once::store::StoreFuture<'a, sqs_once::store::Claimed> {
            self.0.claim(&claims[..claims.len() - 1])
        }
        fn settle<'a>(
            &'a self,
            settlements: &'a [sqs_once::store::Settlement],
        ) -> sqs_once::store::StoreFuture<'a, sqs_once::store::Settled> {
            self.0.settle(&settlements[..settlements.len() - 1])
        }
        fn read<'a>(
            &'a self,
            ids: &'a [sqs_once::key::ItemId],
        ) -> sqs_once::store::StoreFuture<'a, Option<Item>> {
            self.0.read(ids)
        }
    }
    let bench = Bench::new();
    let (consumer, seen) = noting(&bench);
    let consumer = consumer.store(Forgetful(sqs_once::MemoryStore::new()));
    let begun = bench.clock.now();
    let failed = bench
        .invoke(&consumer, event(["a", "b", "c", "d"].map(order)))
        .await;
    assert_eq!(failed, ["m-2", "m-3"]);
    assert_eq!(*seen.lock().unwrap(), ["a", "b", "c"]);
    assert_eq!(bench.clock.now(), begun);
}

/// A store that throttles every request for one key, as a hot partition does.
struct Hot {
    inner: sqs_once::MemoryStore,
    claim: Option<sqs_once::key::ItemId>,
    settle: Option<sqs_once::key::ItemId>,
}

impl Hot {
    fn new(claim: Option<&str>, settle: Option<&str>) -> Self {
        let id = |key: &str| {
            let key = sqs_once::BusinessKey::new(key).unwrap();
            sqs_once::key::Namespace::new("test").unwrap().item_id(&key)
        };
        Self {
            inner: sqs_once::MemoryStore::new(),
            claim: claim.map(id),
            settle: settle.map(id),
        }
    }
}

fn throttled<T>() -> Result<T, sqs_once::store::StoreError> {
    Err(sqs_once::store::StoreError::new(
        StoreErrorKind::Throttled,
        "hot",
    ))
}

impl sqs_once::store::Store for Hot {
    fn claim<'a>(
        &'a self,
        claims: &'a [sqs_once::store::Claim],
    ) -> sqs_once::store::StoreFuture<'a, sqs_once::store::Claimed> {
        Box::pin(async move {
            let mut answers = Vec::new();
            for claim in claims {
                answers.push(if Some(&claim.id) == self.claim.as_ref() {
                    throttled()
                } else {
                    self.inner
                        .claim(std::slice::from_ref(claim))
                        .await
                        .remove(0)
                });
            }
            answers
        })
    }
    fn settle<'a>(
        &'a self,
        settlements: &'a [sqs_once::store::Settlement],
    ) -> sqs_once::store::StoreFuture<'a, sqs_once::store::Settled> {
        Box::pin(async move {
            let mut answers = Vec::new();
            for settlement in settlements {
                answers.push(if Some(&settlement.id) == self.settle.as_ref() {
                    throttled()
                } else {
                    self.inner
                        .settle(std::slice::from_ref(settlement))
                        .await
                        .remove(0)
                });
            }
            answers
        })
    }
    fn read<'a>(
        &'a self,
        ids: &'a [sqs_once::key::ItemId],
    ) -> sqs_once::store::StoreFuture<'a, Option<Item>> {
        self.inner.read(ids)
    }
}

#[tokio::test(start_paused = true)]
async fn a_throttled_claim_holds_up_no_other_record() {
    let bench = Bench::new();
    let (consumer, seen) = noting(&bench);
    let consumer = consumer.store(Hot::new(Some("c"), None));
    let records = ["a", "b", "c", "d"].map(order);
    assert_eq!(bench.invoke(&consumer, event(records)).await, ["m-2"]);
    assert_eq!(*seen.lock().unwrap(), ["a", "b", "d"]);
    let lines = bench.log.take("sqs_once::record");
    let others = lines.iter().filter(|line| line["outcome"] == "processed");
    assert!(others.into_iter().all(|line| line["duration_ms"] == "0.0"));
}

#[tokio::test(start_paused = true)]
async fn a_throttled_completion_holds_up_no_other() {
    let bench = Bench::new();
    let (consumer, _) = noting(&bench);
    let consumer = consumer.store(Hot::new(None, Some("a")));
    let records = ["a", "b", "c"].map(order);
    assert_eq!(bench.invoke(&consumer, event(records)).await, ["m-0"]);
    let lines = bench.log.take("sqs_once::record");
    let others = lines.iter().filter(|line| line["outcome"] == "processed");
    assert!(others.into_iter().all(|line| line["duration_ms"] == "0.0"));
}

#[tokio::test(start_paused = true)]
async fn a_throttled_release_does_not_hold_up_the_answer() {
    let bench = Bench::new();
    let failing = consumer::<Order>()
        .key(|order: &Order| order.id.clone())
        .handler(async |_: Order| Err::<(), _>("no luck"));
    let consumer = bench.consumer(failing).store(Hot::new(None, Some("a")));
    let begun = bench.clock.now();
    assert_eq!(bench.invoke(&consumer, event([order("a")])).await, ["m-0"]);
    assert!(bench.clock.now().since(begun) < Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn when_completions_are_denied_no_further_handler_starts() {
    let bench = Bench::new();
    let (consumer, seen) = noting(&bench);
    let consumer = consumer.concurrency(1);
    bench
        .store
        .fail("settle", StoreErrorKind::AccessDenied, usize::MAX);
    let records = (0..100).map(|at| order(&at.to_string()));
    assert_eq!(bench.invoke(&consumer, event(records)).await.len(), 100);
    let effects = seen.lock().unwrap().len();
    assert!(effects <= 25, "{effects} effects that nobody recorded");
}

#[tokio::test(start_paused = true)]
async fn a_claim_may_not_expire_before_its_lease_ends() {
    let bench = Bench::new();
    let store = bench.store.clone();
    let looking = consumer::<Order>()
        .key(|order: &Order| order.id.clone())
        .handler(move |order: Order| {
            let item = store.item(&order.id).unwrap();
            assert!(item.expiration >= item.lease_until, "{item:?}");
            async {}
        });
    let consumer = bench.consumer(looking).retention(Duration::from_secs(1));
    assert!(
        bench
            .invoke(&consumer, event([order("a")]))
            .await
            .is_empty()
    );
}
