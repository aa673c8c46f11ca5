//! Promises of idempotency without SQS, on simulated time.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::{Bench, Order, TestStore, event, order, outcomes};
use serde::{Deserialize, Serialize};
use sqs_once::key::KeyError;
use sqs_once::key::{Fingerprint, ItemId};
use sqs_once::policy::Cache;
use sqs_once::store::Store;
use sqs_once::store::{
    Claim, Claimed, Item, Owner, Settled, Settlement, Status, StoreErrorKind, StoreFuture,
};
use sqs_once::testing::TestSettings;
use sqs_once::time::{Clock, Timestamp};
use sqs_once::{
    HandlerError, Idempotency, IdempotencyToken, Invocation, Once, Recorded, RunError, consumer,
};
use tokio::time::sleep;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Receipt {
    number: String,
}

fn receipt(number: &str) -> Receipt {
    Receipt {
        number: number.to_owned(),
    }
}

fn idempotency(bench: &Bench) -> Idempotency {
    Idempotency::new()
        .namespace("test")
        .store(bench.store.clone())
        .clock(bench.clock.clone())
}

/// An invocation with the bench's timeout left.
fn invocation<'a>(bench: &Bench, idempotency: &'a Idempotency) -> Invocation<'a> {
    idempotency.until(bench.clock.now() + bench.timeout)
}

/// Work that succeeds.
async fn ok<T>(value: T) -> Result<T, HandlerError> {
    Ok(value)
}

/// Work that never ends.
async fn endless() -> Result<Receipt, HandlerError> {
    sleep(Duration::MAX).await;
    Ok(receipt("never"))
}

/// Work that must not run.
async fn never() -> Result<Receipt, HandlerError> {
    panic!("it ran")
}

#[tokio::test(start_paused = true)]
async fn work_is_done_once_and_a_duplicate_brings_its_value() {
    let bench = Bench::new();
    let idempotency = idempotency(&bench);
    let invocation = invocation(&bench, &idempotency);
    let first = invocation.run("a", || ok(receipt("r-1"))).await.unwrap();
    assert_eq!(first, Once::Processed(receipt("r-1")));
    assert_eq!(bench.store.take_calls(), [("claim", 1), ("settle", 1)]);
    let second = invocation.run("a", never).await.unwrap();
    assert_eq!(second, Once::Duplicate(Some(receipt("r-1"))));
    assert!(second.is_duplicate());
    assert_eq!(second.into_value(), Some(receipt("r-1")));
    assert_eq!(bench.store.take_calls(), [("claim", 1)]);
    let other = invocation.run("b", || ok(receipt("r-2"))).await.unwrap();
    assert_eq!(other.into_value(), Some(receipt("r-2")));
}

#[tokio::test(start_paused = true)]
async fn a_consumer_of_the_same_namespace_knows_the_same_keys_and_tokens() {
    for readable in [false, true] {
        one_set_of_keys(readable).await;
    }
}

async fn one_set_of_keys(readable: bool) {
    let bench = Bench::new();
    let tokens: Arc<Mutex<Vec<IdempotencyToken>>> = Arc::default();
    let charging = {
        let tokens = Arc::clone(&tokens);
        consumer::<Order>()
            .key(|order: &Order| order.id.clone())
            .handler(move |order: Order, token: IdempotencyToken| {
                tokens.lock().unwrap().push(token);
                async move {
                    match order.id.as_str() {
                        "a" => Ok(Recorded(receipt("r-1"))),
                        _ => Err("no luck"),
                    }
                }
            })
    };
    let consumer = bench.consumer(charging).readable_keys(readable);
    let idempotency = idempotency(&bench).readable_keys(readable);
    let invocation = invocation(&bench, &idempotency);

    let failed = bench.invoke(&consumer, event(["a", "b"].map(order)));
    assert_eq!(failed.await, ["m-1"]);
    let a = invocation.run("a", never).await.unwrap();
    assert_eq!(a, Once::Duplicate(Some(receipt("r-1"))));
    let b = invocation.run_with_token("b", |token| {
        tokens.lock().unwrap().push(token);
        ok(())
    });
    assert_eq!(b.await.unwrap(), Once::Processed(()));
    bench.outcomes();
    bench.invoke(&consumer, event([order("b")])).await;
    assert_eq!(bench.outcomes(), outcomes([("m-0", "duplicate")]));

    let tokens = tokens.lock().unwrap();
    assert_eq!(tokens[1], tokens[2]);
    assert_ne!(tokens[0], tokens[1]);
}

#[tokio::test(start_paused = true)]
async fn without_a_known_deadline_nothing_runs_and_nothing_is_locked() {
    let bench = Bench::new();
    let idempotency = idempotency(&bench);
    let context = lambda_runtime::Context::default();
    let refused = idempotency.until(context.deadline()).run("a", never).await;
    assert!(matches!(refused, Err(RunError::NoDeadline)));
    assert_eq!(bench.store.take_calls(), []);
}

#[tokio::test(start_paused = true)]
async fn without_a_usable_key_nothing_runs_and_the_store_is_not_asked() {
    let bench = Bench::new();
    let idempotency = idempotency(&bench);
    let invocation = invocation(&bench, &idempotency);
    let missing = invocation.run(&None::<String>, never).await;
    assert!(matches!(missing, Err(RunError::Key(KeyError::Missing))));
    let empty = invocation.run(" ", never).await;
    assert!(matches!(empty, Err(RunError::Key(KeyError::Empty))));
    assert_eq!(bench.store.take_calls(), []);
}

#[tokio::test(start_paused = true)]
async fn without_a_namespace_it_refuses_to_start_and_names_the_variable() {
    let bench = Bench::new();
    let nameless = Idempotency::new()
        .store(bench.store.clone())
        .clock(bench.clock.clone());
    let refused = nameless.init().await.unwrap_err();
    assert_eq!(refused.variable(), "SQS_ONCE_NAMESPACE");
    let refused = invocation(&bench, &nameless).run("a", never).await;
    assert!(matches!(refused, Err(RunError::Config(_))));
}

#[derive(Debug, thiserror::Error)]
#[error("card refused")]
struct CardRefused;

#[tokio::test(start_paused = true)]
async fn failing_work_reports_its_own_error_and_gives_the_key_up() {
    let bench = Bench::new();
    let idempotency = idempotency(&bench);
    let invocation = invocation(&bench, &idempotency);
    let failing = || async { Err::<Receipt, _>(CardRefused) };
    let error = invocation.run("a", failing).await.unwrap_err();
    assert_eq!(error.to_string(), "card refused");
    match error {
        RunError::Work(source) => assert!(source.is::<CardRefused>()),
        other => panic!("{other:?}"),
    }
    let again = invocation.run("a", || ok(receipt("r-1"))).await.unwrap();
    assert_eq!(again, Once::Processed(receipt("r-1")));
}

#[tokio::test(start_paused = true)]
async fn an_endless_error_text_is_cut_in_the_log_and_whole_for_the_caller() {
    let bench = Bench::new();
    let idempotency = idempotency(&bench);
    let failing = || async { Err::<Receipt, _>("no luck ".repeat(100_000)) };
    let error = invocation(&bench, &idempotency).run("a", failing).await;
    assert_eq!(error.unwrap_err().to_string().len(), 800_000);
    let lines = bench.log.take("sqs_once::run");
    assert!(lines[0]["reason"].len() < 2000);
}

#[tokio::test(start_paused = true)]
async fn a_release_that_fails_is_tried_twice_and_hides_no_error_of_the_work() {
    let bench = Bench::new();
    let idempotency = idempotency(&bench);
    bench
        .store
        .fail("settle", StoreErrorKind::Throttled, usize::MAX);
    let failing = || async { Err::<Receipt, _>(CardRefused) };
    let error = invocation(&bench, &idempotency).run("a", failing).await;
    assert!(matches!(error, Err(RunError::Work(_))));
    let settled = [("claim", 1), ("settle", 1), ("settle", 1)];
    assert_eq!(bench.store.take_calls(), settled);
    assert_eq!(bench.log.take("sqs_once::store").len(), 1);

    // The lease expires by itself.
    bench.store.fail("settle", StoreErrorKind::Throttled, 0);
    let early = invocation(&bench, &idempotency).run("a", never).await;
    assert!(matches!(early, Err(RunError::InProgress { .. })));
    sleep(bench.timeout + Duration::from_secs(4)).await;
    let late = invocation(&bench, &idempotency);
    assert!(late.run("a", || ok(receipt("r-1"))).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_panic_goes_on_to_the_caller_and_gives_the_key_up() {
    let bench = Bench::new();
    let idempotency = idempotency(&bench);
    let run = |work: fn() -> std::future::Ready<Result<Receipt, HandlerError>>| {
        let idempotency = idempotency.clone();
        let ends_at = bench.clock.now() + bench.timeout;
        tokio::spawn(async move { idempotency.until(ends_at).run("a", work).await })
    };
    let panicked = run(|| panic!("no card")).await.unwrap_err().into_panic();
    assert_eq!(panicked.downcast_ref(), Some(&"no card"));
    let again = run(|| std::future::ready(Ok(receipt("r-1"))))
        .await
        .unwrap();
    assert_eq!(again.unwrap(), Once::Processed(receipt("r-1")));
}

#[tokio::test(start_paused = true)]
async fn a_completion_that_fails_is_reported_with_its_cause_and_the_work_comes_again() {
    let bench = Bench::new();
    let idempotency = idempotency(&bench);
    bench.store.fail("settle", StoreErrorKind::AccessDenied, 1);
    let error = invocation(&bench, &idempotency)
        .run("a", || ok(receipt("r-1")))
        .await
        .unwrap_err();
    let text = error.to_string();
    assert!(text.contains("the work succeeded"), "{text}");
    assert!(text.contains("grant the function's role"), "{text}");
    match error {
        RunError::NotRecorded(error) => assert_eq!(error.kind(), StoreErrorKind::AccessDenied),
        other => panic!("{other:?}"),
    }
    sleep(bench.timeout + Duration::from_secs(4)).await;
    let again = invocation(&bench, &idempotency)
        .run("a", || ok(receipt("r-2")))
        .await;
    assert_eq!(again.unwrap(), Once::Processed(receipt("r-2")));
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_fails_is_reported_with_its_cause_and_nothing_runs() {
    let bench = Bench::new();
    let idempotency = idempotency(&bench);
    bench.store.fail("claim", StoreErrorKind::TableNotFound, 1);
    let refused = invocation(&bench, &idempotency).run("a", never).await;
    match refused.unwrap_err() {
        RunError::NotClaimed(error) => assert_eq!(error.kind(), StoreErrorKind::TableNotFound),
        other => panic!("{other:?}"),
    }
    assert_eq!(bench.store.take_calls(), [("claim", 1)]);
}

#[tokio::test(start_paused = true)]
async fn answers_that_are_lost_are_asked_for_again_and_recognised() {
    for call in ["claim", "settle"] {
        let bench = Bench::new();
        let idempotency = idempotency(&bench);
        let invocation = invocation(&bench, &idempotency);
        bench.store.lose_answer(call, 3);
        let first = invocation.run("a", || ok(receipt("r-1"))).await.unwrap();
        assert_eq!(first, Once::Processed(receipt("r-1")));
        let second = invocation.run("a", never).await.unwrap();
        assert_eq!(second, Once::Duplicate(Some(receipt("r-1"))));
    }
}

#[tokio::test(start_paused = true)]
async fn throttled_requests_are_sent_again_until_the_deadline_and_not_after() {
    let bench = Bench::new();
    let idempotency = idempotency(&bench);
    let deadline = bench.clock.now() + bench.timeout;
    bench
        .store
        .fail("claim", StoreErrorKind::Throttled, usize::MAX);
    let refused = idempotency.until(deadline).run("a", never).await;
    assert!(matches!(refused, Err(RunError::NotClaimed(_))));
    assert!(bench.clock.now() <= deadline);
    // Pauses grow to a second, so there are about as many requests as seconds.
    let requests = bench.store.take_calls().len();
    assert!((25..60).contains(&requests), "{requests}");
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_lapses_while_the_store_is_throttling_is_noticed() {
    let bench = Bench::new();
    let idempotency = idempotency(&bench);
    let slow = invocation(&bench, &idempotency).run("a", endless).await;
    assert!(matches!(slow, Err(RunError::Cancelled)));
    // The lease lasts four more seconds, and twenty pauses take at least seven.
    bench.store.fail("claim", StoreErrorKind::Throttled, 20);
    let next = invocation(&bench, &idempotency);
    assert!(next.run("a", || ok(receipt("r-1"))).await.is_ok());
}

/// A store that never answers.
struct Silent;

impl Store for Silent {
    fn claim<'a>(&'a self, _: &'a [Claim]) -> StoreFuture<'a, Claimed> {
        Box::pin(std::future::pending())
    }

    fn settle<'a>(&'a self, _: &'a [Settlement]) -> StoreFuture<'a, Settled> {
        Box::pin(std::future::pending())
    }

    fn read<'a>(&'a self, _: &'a [ItemId]) -> StoreFuture<'a, Option<Item>> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_never_answers_holds_nothing_up_beyond_the_deadline() {
    let bench = Bench::new();
    let idempotency = idempotency(&bench).store(Silent);
    let deadline = bench.clock.now() + bench.timeout;
    let refused = idempotency.until(deadline).run("a", never).await;
    match refused.unwrap_err() {
        RunError::NotClaimed(error) => assert_eq!(error.kind(), StoreErrorKind::Unanswered),
        other => panic!("{other:?}"),
    }
    assert_eq!(bench.clock.now(), back(deadline, Duration::from_secs(1)));
}

fn back(moment: Timestamp, by: Duration) -> Timestamp {
    Timestamp::default() + (moment.since(Timestamp::default()) - by)
}

#[tokio::test(start_paused = true)]
async fn a_key_in_progress_elsewhere_is_refused_until_its_lease_has_lapsed() {
    let bench = Bench::new();
    let idempotency = idempotency(&bench);
    let deadline = bench.clock.now() + bench.timeout;
    let lease_until = deadline + Duration::from_secs(3);
    let dying = idempotency.until(deadline);
    let dies = dying.run("a", endless);
    assert!(
        tokio::time::timeout(Duration::from_secs(1), dies)
            .await
            .is_err()
    );

    let early = invocation(&bench, &idempotency).run("a", never).await;
    match early.unwrap_err() {
        RunError::InProgress { lease_until: until } => assert_eq!(until, Some(lease_until)),
        other => panic!("{other:?}"),
    }
    sleep(lease_until.since(bench.clock.now())).await;
    let just_before = invocation(&bench, &idempotency).run("a", never).await;
    assert!(matches!(just_before, Err(RunError::InProgress { .. })));
    sleep(Duration::from_millis(1)).await;
    let lapsed = invocation(&bench, &idempotency);
    assert!(lapsed.run("a", || ok(receipt("r-1"))).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn work_that_is_too_slow_is_cancelled_in_time_and_its_claim_left_to_lapse() {
    let bench = Bench::new();
    let idempotency = idempotency(&bench);
    let deadline = bench.clock.now() + bench.timeout;
    let cancelled = idempotency.until(deadline).run("a", endless).await;
    assert!(matches!(cancelled, Err(RunError::Cancelled)));
    assert_eq!(bench.clock.now(), back(deadline, Duration::from_secs(1)));
    let item = bench.store.item("a").unwrap();
    assert_eq!(item.status, Status::InProgress);
    assert_eq!(item.lease_until, Some(deadline + Duration::from_secs(3)));

    sleep(Duration::from_secs(5)).await;
    let next = invocation(&bench, &idempotency);
    assert!(next.run("a", || ok(receipt("r-1"))).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn both_margins_can_be_set() {
    let bench = Bench::new();
    let idempotency = idempotency(&bench)
        .deadline_margin(Duration::from_secs(7))
        .lease_margin(Duration::from_secs(9));
    let deadline = bench.clock.now() + bench.timeout;
    let cancelled = idempotency.until(deadline).run("a", endless).await;
    assert!(matches!(cancelled, Err(RunError::Cancelled)));
    assert_eq!(bench.clock.now(), back(deadline, Duration::from_secs(7)));
    let item = bench.store.item("a").unwrap();
    assert_eq!(item.lease_until, Some(deadline + Duration::from_secs(9)));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_started_or_claimed_when_the_time_is_over() {
    let bench = Bench::new();
    let idempotency = idempotency(&bench);
    for deadline in [bench.clock.now(), back(bench.clock.now(), bench.timeout)] {
        let refused = idempotency.until(deadline).run("a", never).await;
        assert!(matches!(refused, Err(RunError::NotStarted)));
    }
    assert_eq!(bench.store.take_calls(), []);
}

/// A store with slow claims.
struct Slow(TestStore, Duration);

impl Store for Slow {
    fn claim<'a>(&'a self, claims: &'a [Claim]) -> StoreFuture<'a, Claimed> {
        Box::pin(async move {
            sleep(self.1).await;
            self.0.claim(claims).await
        })
    }

    fn settle<'a>(&'a self, settlements: &'a [Settlement]) -> StoreFuture<'a, Settled> {
        self.0.settle(settlements)
    }

    fn read<'a>(&'a self, ids: &'a [ItemId]) -> StoreFuture<'a, Option<Item>> {
        self.0.read(ids)
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_claimed_too_late_to_start_is_given_up_at_once() {
    let bench = Bench::new();
    let slow = Slow(bench.store.clone(), bench.timeout - Duration::from_secs(1));
    let idempotency = idempotency(&bench).store(slow);
    let late = invocation(&bench, &idempotency).run("a", never).await;
    assert!(matches!(late, Err(RunError::NotStarted)));
    assert_eq!(bench.store.take_calls(), [("claim", 1), ("settle", 1)]);
    let item = bench.store.item("a").unwrap();
    assert_eq!(item.lease_until, Some(Timestamp::default()));
}

/// Changes the item of the key `a`, as another worker would.
fn overtake(bench: &Bench, change: impl FnOnce(&mut Item)) {
    let mut item = bench.store.item("a").unwrap();
    item.owner = Some(Owner::from_bits(7));
    change(&mut item);
    bench.store.inner.put(item);
}

#[tokio::test(start_paused = true)]
async fn a_worker_whose_key_went_to_another_does_not_undo_its_claim() {
    let bench = Bench::new();
    let idempotency = idempotency(&bench);
    let lost = invocation(&bench, &idempotency)
        .run("a", || {
            overtake(&bench, |_| {});
            ok(receipt("r-1"))
        })
        .await;
    assert!(matches!(lost, Err(RunError::LeaseLost)));
    let item = bench.store.item("a").unwrap();
    assert_eq!(item.status, Status::InProgress);
    assert_eq!(item.owner, Some(Owner::from_bits(7)));
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_another_overtook_and_completed_has_its_own_value() {
    let bench = Bench::new();
    let idempotency = idempotency(&bench);
    let done = invocation(&bench, &idempotency)
        .run("a", || {
            overtake(&bench, |item| {
                item.status = Status::Completed;
                item.data = Some(r#"{"number":"theirs"}"#.into());
            });
            ok(receipt("mine"))
        })
        .await;
    assert_eq!(done.unwrap(), Once::Processed(receipt("mine")));
    let lines = bench.log.take("sqs_once::run");
    assert_eq!(lines[0]["level"], "WARN");
    assert!(
        lines[0]["message"].contains("may have happened twice"),
        "{lines:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_unknown_status_is_an_error_that_names_it() {
    let bench = Bench::new();
    let idempotency = idempotency(&bench);
    let invocation = invocation(&bench, &idempotency);
    let _ = invocation.run("a", || ok(receipt("r-1"))).await.unwrap();
    overtake(&bench, |item| {
        item.status = Status::Unknown("PAUSED".into())
    });
    let error = invocation.run("a", never).await.unwrap_err();
    assert!(error.to_string().contains("\"PAUSED\""), "{error}");
}

#[tokio::test(start_paused = true)]
async fn another_fingerprint_under_a_completed_key_is_refused_from_the_cache_too() {
    let bench = Bench::new();
    let idempotency = idempotency(&bench).cache(Cache::new(10));
    let invocation = invocation(&bench, &idempotency);
    let paying = |cents: u64| {
        let fingerprint = Fingerprint::new(&cents).unwrap();
        invocation.clone().fingerprint(fingerprint)
    };
    let first = paying(1).run("a", || ok(receipt("r-1"))).await;
    assert_eq!(first.unwrap(), Once::Processed(receipt("r-1")));
    bench.store.take_calls();
    let other = paying(2).run("a", never).await;
    assert!(matches!(other, Err(RunError::PayloadMismatch)));
    let same = paying(1).run("a", never).await.unwrap();
    assert_eq!(same, Once::Duplicate(Some(receipt("r-1"))));
    // The cache returns the value, so none of these needs a request.
    assert_eq!(bench.store.take_calls(), []);
}

#[tokio::test(start_paused = true)]
async fn a_key_past_its_retention_runs_again() {
    let bench = Bench::new();
    let retention = Duration::from_secs(60);
    let idempotency = idempotency(&bench).retention(retention);
    let run = || async {
        invocation(&bench, &idempotency)
            .run("a", || ok(receipt("r-1")))
            .await
            .unwrap()
    };
    assert!(!run().await.is_duplicate());
    sleep(retention).await;
    assert!(run().await.is_duplicate());
    sleep(Duration::from_secs(1)).await;
    assert!(!run().await.is_duplicate());
}

#[tokio::test(start_paused = true)]
async fn a_value_that_cannot_be_kept_or_read_never_makes_the_work_run_again() {
    let bench = Bench::new();
    let idempotency = idempotency(&bench);
    let invocation = invocation(&bench, &idempotency);
    let large = "x".repeat(256 * 1024);
    let done = invocation.run("large", || ok(large.clone())).await;
    assert_eq!(done.unwrap(), Once::Processed(large));
    let lines = bench.log.take("sqs_once::run");
    assert_eq!(lines[0]["level"], "WARN");
    assert!(lines[0]["reason"].contains("262146 bytes"), "{lines:?}");
    let again = invocation.run("large", || ok(String::new())).await;
    assert_eq!(again.unwrap(), Once::Duplicate(None));

    let _ = invocation
        .run("a", || ok("secret".to_owned()))
        .await
        .unwrap();
    bench.log.take("sqs_once::run");
    let retyped = invocation.run("a", never).await.unwrap();
    assert_eq!(retyped, Once::Duplicate(None));
    let lines = bench.log.take("sqs_once::run");
    assert_eq!(lines[0]["level"], "WARN");
    assert!(!format!("{lines:?}").contains("secret"), "{lines:?}");
}

#[tokio::test(start_paused = true)]
async fn of_many_tasks_with_one_key_one_does_the_work() {
    let bench = Bench::new();
    let idempotency = idempotency(&bench);
    let done = Arc::new(Mutex::new(0));
    let tasks = (0..50).map(|_| {
        let (idempotency, done) = (idempotency.clone(), Arc::clone(&done));
        let ends_at = bench.clock.now() + bench.timeout;
        tokio::spawn(async move {
            let work = || async {
                sleep(Duration::from_secs(1)).await;
                *done.lock().unwrap() += 1;
                Ok::<_, HandlerError>(())
            };
            idempotency.until(ends_at).run("a", work).await
        })
    });
    let ended = futures_util::future::join_all(tasks).await;
    let ended: Vec<_> = ended.into_iter().map(Result::unwrap).collect();
    assert_eq!(*done.lock().unwrap(), 1);
    let count = |wanted: fn(&Result<Once<()>, RunError>) -> bool| {
        ended.iter().filter(|result| wanted(result)).count()
    };
    assert_eq!(count(|result| matches!(result, Ok(Once::Processed(())))), 1);
    let refused = |result: &_| matches!(result, Err(RunError::InProgress { .. }));
    assert_eq!(count(refused), 49);
}

#[tokio::test(start_paused = true)]
async fn every_run_is_one_line_in_the_log_without_its_key() {
    let bench = Bench::new();
    let idempotency = idempotency(&bench);
    let invocation = invocation(&bench, &idempotency);
    let _ = invocation.run("customer-7", || ok(receipt("r-1"))).await;
    let _ = invocation.run("customer-7", never).await;
    let failing = || async { Err::<Receipt, _>(CardRefused) };
    let _ = invocation.run("customer-8", failing).await;
    assert!(!bench.log.all().contains("customer"));
    let lines = bench.log.take("sqs_once::run");
    let told: Vec<_> = lines
        .iter()
        .map(|line| (line["level"].as_str(), line["outcome"].as_str()))
        .collect();
    let expected = [
        ("INFO", "processed"),
        ("INFO", "duplicate"),
        ("WARN", "failed"),
    ];
    assert_eq!(told, expected);
    assert_eq!(lines[2]["reason"], "card refused");
    assert_eq!(lines[0]["key"], lines[1]["key"]);
}
