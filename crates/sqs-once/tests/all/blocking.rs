//! Blocking work on a separate thread, with real threads and real time.

use std::future::{Ready, ready};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use crate::support::database::{Booking, Database, Ledger};
use crate::support::{
    AtOnce, Log, Notes, Order, SECOND, gate, invoke, named, one, orders, several, until, values,
};
use serde_json::Value;
use sqs_once::extract::RecordEnd;
use sqs_once::once::RunError;
use sqs_once::policy::Dependency;
use sqs_once::store::{MemoryStore, Status, Timestamp};
use sqs_once::testing::{Bench, Event};
use sqs_once::unstable::breaker::item_id;
use sqs_once::{Consumer, Handler, HandlerError, Idempotency, Router, spawn_blocking};
use tokio::sync::{Notify, oneshot};
use tokio::task::yield_now;
use tokio::time::timeout;

/// Longer than any machine needs. Only a failing test waits this long.
const AGES: Duration = Duration::from_secs(20);

/// The time of an invocation. A loaded machine must start a handler in it.
const LIMIT: Duration = Duration::from_secs(5);

/// Blocking work.
trait Work: Fn() + Clone + Send + Sync + 'static {}

impl<F: Fn() + Clone + Send + Sync + 'static> Work for F {}

/// A handler that blocks for the order `slow` until `go_on` returns, and notes the end of each order's work.
fn blocking(go_on: impl Work, ended: Notes<String>) -> Handler {
    values().call(move |order: Value| {
        let (go_on, ended) = (go_on.clone(), ended.clone());
        async move {
            spawn_blocking(move || {
                let id = order["id"].as_str().unwrap_or_default();
                if id == "slow" {
                    go_on();
                }
                ended.add(id.to_owned());
            })
            .await?;
            Ok::<_, HandlerError>(())
        }
    })
}

#[tokio::test(flavor = "current_thread")]
async fn blocking_work_in_a_thread_of_its_own_holds_up_neither_records_nor_the_answer_and_goes_on_after_it()
 {
    let log = Log::capture();
    let (tell, told) = gate();
    let (ended, ends) = Notes::pair();
    let bench = Bench::new(blocking(told, ends)).timeout(LIMIT);
    let answer = bench.run(several(["slow", "quick"])).await;
    answer.assert_processed("m-2").assert_failed("m-1");
    answer.assert_reason("m-1", "cancelled at the deadline");
    let still_running = &log.take("sqs_once::batch::answer")[0]["still_running"];
    assert_eq!(still_running, "1");

    tell.send(()).unwrap();
    while ended.len() < 2 {
        yield_now().await;
    }
    // No invocation was left to complete the record.
    let item = bench.item("slow").await.unwrap();
    assert_eq!(item.status, Status::InProgress);
}

/// Runs `run`. After `moment`, once the batch has made progress, calls `seen`, and then lets the blocking work end.
async fn seen_after<T, V>(
    moment: impl Future,
    run: impl Future<Output = T>,
    seen: impl AsyncFnOnce() -> V,
    tell: Sender<()>,
) -> (T, V) {
    tokio::join!(run, async {
        timeout(AGES, moment).await.expect("the moment comes");
        // Often enough on the only thread for the batch's task to make progress.
        for _ in 0..1000 {
            yield_now().await;
        }
        let seen = seen().await;
        tell.send(()).unwrap();
        seen
    })
}

#[tokio::test(flavor = "current_thread")]
async fn a_handler_that_fails_keeps_its_key_until_its_blocking_work_has_ended() {
    let (tell, told) = gate();
    let left = Arc::new(Notify::new());
    let leaves = Arc::clone(&left);
    let handler = values().call(move |_: Value| {
        let (told, leaves) = (told.clone(), Arc::clone(&leaves));
        async move {
            // Dropping the handle does not stop the work.
            drop(spawn_blocking(told));
            leaves.notify_one();
            Err::<(), HandlerError>("no patience".into())
        }
    });
    let bench = Bench::new(handler).timeout(2 * AGES);
    let lease = async || bench.item("slow").await.unwrap().lease_until.unwrap();
    let run = bench.run(one("slow"));
    let (answer, held) = seen_after(left.notified(), run, lease, tell).await;
    answer.assert_failed("m-1");
    answer.assert_reason("m-1", "no patience");
    assert!(lease().await < held, "its key was released before or never");
}

/// A handler that is cancelled after a moment, although its blocking work for orders `slow…` goes on until `go_on`
/// arrives. Counts the work that runs at once.
fn cancelling(go_on: impl Work, at_once: &AtOnce) -> Handler {
    let at_once = at_once.clone();
    let handler = values().call(move |order: Value| {
        let (go_on, at_once) = (go_on.clone(), at_once.clone());
        async move {
            spawn_blocking(move || {
                let _counted = at_once.enter();
                if order["id"]
                    .as_str()
                    .is_some_and(|id| id.starts_with("slow"))
                {
                    go_on();
                }
            })
            .await?;
            Ok::<_, HandlerError>(())
        }
    });
    handler.attempt_timeout(Duration::from_millis(100))
}

const NO_PLACE: &str = "blocking code of cancelled handlers goes on, and holds every place";

#[tokio::test(flavor = "current_thread")]
async fn while_overrunning_work_holds_every_place_further_records_return_untried() {
    let (tell, told) = gate();
    let at_once = AtOnce::default();
    let consumer = Consumer::new(cancelling(told, &at_once)).concurrency(1);
    let bench = Bench::new(consumer).timeout(2 * AGES);
    let answer = bench.run(several(["slow", "o-1", "o-2"])).await;
    answer
        .assert_reason("m-1", "its handler took longer than")
        .assert_reason("m-2", NO_PLACE)
        .assert_reason("m-3", NO_PLACE);
    assert_eq!(at_once.now(), 1);
    tell.send(()).unwrap();
    while at_once.now() > 0 {
        yield_now().await;
    }
    let answer = bench.run(several(["o-1", "o-2"])).await;
    answer.assert_processed("m-1").assert_processed("m-2");
    assert_eq!(at_once.most(), 1);
}

#[tokio::test(flavor = "current_thread")]
async fn places_without_overrunning_work_are_used() {
    let (tell, told) = gate();
    let at_once = AtOnce::default();
    let consumer = Consumer::new(cancelling(told, &at_once)).concurrency(2);
    let bench = Bench::new(consumer).timeout(2 * AGES);
    let answer = bench.run(several(["slow", "o-1", "o-2", "o-3"])).await;
    answer.assert_retried(["m-1"]);
    assert_eq!(at_once.most(), 2);
    tell.send(()).unwrap();
}

#[tokio::test(flavor = "current_thread")]
async fn overrunning_work_keeps_its_part_of_a_dependency_in_every_batch_of_the_process() {
    let (tell, told) = gate();
    let at_once = AtOnce::default();
    let payments = Dependency::new("payments").max_in_flight(1).failures(5);
    let charge = cancelling(told, &at_once).namespace("charge");
    let notify = values().call(async |_: Value| ()).namespace("notify");
    let routes = Router::by_attribute("type")
        .route("charge", charge.depends_on(payments))
        .route("notify", notify);
    let bench = Bench::new(routes).timeout(2 * AGES);
    for ids in [["slow", "o-1", "n-1"], ["o-2", "o-3", "n-2"]] {
        let [first, second, other] = ids.map(named);
        let charges = [first, second].map(|record| record.attribute("type", "charge"));
        let records = charges
            .into_iter()
            .chain([other.attribute("type", "notify")]);
        let answer = bench.run(Event::new(records)).await;
        answer.assert_reason(ids[1], NO_PLACE);
        answer.assert_processed(ids[2]);
        assert_eq!((at_once.now(), at_once.most()), (1, 1), "{ids:?}");
    }
    tell.send(()).unwrap();
}

#[tokio::test(flavor = "current_thread")]
async fn overrunning_work_holds_back_no_probe_and_a_probe_that_overruns_is_the_only_one_of_its_time()
 {
    let (tell, told) = gate();
    let at_once = AtOnce::default();
    let payments = Dependency::new("payments").failures(1);
    let bench = Bench::new(cancelling(told, &at_once).depends_on(payments));
    let bench = bench.max_receive_count(5).timeout(2 * AGES);
    bench.run(Event::new([named("slow-1")])).await;
    bench.clock().advance(31 * SECOND);
    let answer = bench.run(Event::new(["slow-2", "o-1", "o-2"].map(named)));
    let answer = answer.await;
    answer.assert_reason("slow-2", "its handler took longer than");
    for id in ["o-1", "o-2"] {
        answer.assert_reason(id, "unavailable: payments: its breaker is open");
        assert!(answer.delay(id) >= Some(30 * SECOND));
    }
    bench.clock().advance(31 * SECOND);
    let answer = bench.run(Event::new(["o-1", "o-2", "o-3"].map(named)));
    answer.await.assert_all_acknowledged();
    assert_eq!(at_once.now(), 2);
    tell.send(()).and_then(|()| tell.send(())).unwrap();
}

#[tokio::test(flavor = "current_thread")]
async fn while_overrunning_work_has_every_place_of_an_open_dependency_its_records_outlast_the_outage()
 {
    let (tell, told) = gate();
    let payments = Dependency::new("payments").failures(1).max_in_flight(1);
    let handler = cancelling(told, &AtOnce::default()).depends_on(payments);
    let bench = Bench::new(handler).max_receive_count(5).timeout(2 * AGES);
    bench.run(Event::new([named("slow")])).await;
    bench.clock().advance(31 * SECOND);
    let breaker = || bench.store().memory().get(&item_id("payments"));
    let opened = breaker();
    let answer = bench.run(Event::new(["o-1", "o-2"].map(named))).await;
    for id in ["o-1", "o-2"] {
        answer.assert_reason(id, "unavailable: payments: its breaker is open");
        assert!(answer.delay(id) >= Some(30 * SECOND));
    }
    assert_eq!(breaker(), opened, "another environment may probe");
    tell.send(()).unwrap();
}

#[tokio::test(flavor = "current_thread")]
async fn blocking_work_that_blocking_work_starts_counts_too() {
    let (tell, told) = gate();
    let began = Arc::new(Notify::new());
    let begins = Arc::clone(&began);
    let handler = values().call(move |_: Value| {
        let (told, begins) = (told.clone(), Arc::clone(&begins));
        async move {
            spawn_blocking(move || drop(spawn_blocking(told))).await?;
            begins.notify_one();
            Ok::<_, HandlerError>(())
        }
    });
    let bench = Bench::new(handler).timeout(2 * AGES);
    let status = async || bench.item("slow").await.unwrap().status;
    let run = bench.run(one("slow"));
    let (answer, status) = seen_after(began.notified(), run, status, tell).await;
    assert_eq!(status, Status::InProgress);
    answer.assert_processed("m-1");
}

/// A hook that notifies.
fn notifies(called: &Arc<Notify>) -> impl Fn(RecordEnd) -> Ready<Result<(), HandlerError>> + use<> {
    let called = Arc::clone(called);
    move |_| {
        called.notify_one();
        ready(Ok(()))
    }
}

/// A runtime other than `run` may request the next event as soon as it has the answer.
#[tokio::test(flavor = "current_thread")]
async fn the_service_answers_when_all_blocking_work_has_ended() {
    let (tell, told) = gate();
    let (ended, ends) = Notes::pair();
    let failed = Arc::new(Notify::new());
    let handler = blocking(told, ends)
        .on_failure(notifies(&failed))
        .namespace("test");
    let consumer = Consumer::new(handler).store(MemoryStore::new());
    let event = one("slow");
    let answer = invoke(&consumer, &event, until(Timestamp::now() + LIMIT));
    let answered = async { (answer.await, ended.len()) };
    // The handler is cancelled at its deadline.
    let seen = seen_after(failed.notified(), answered, async || (), tell);
    let ((answer, had_ended), ()) = seen.await;
    assert_eq!((answer.batch_item_failures.len(), had_ended), (1, 1));
}

/// An open transaction holds its key like a lease.
#[tokio::test]
async fn a_cancelled_handler_holds_its_transaction_until_its_blocking_work_has_ended() {
    let (tell, told) = gate();
    let failed = Arc::new(Notify::new());
    let handler = orders().call(move |_: Order, _: Ledger| {
        let told = told.clone();
        async { Ok::<_, HandlerError>(spawn_blocking(told).await?) }
    });
    let handler = handler.attempt_timeout(Duration::from_millis(100));
    let bench = Booking::on(
        handler.on_failure(notifies(&failed)),
        Notes::<()>::default(),
    );
    let open = async || bench.database.open();
    let (failed, open) = seen_after(failed.notified(), bench.run(["a"]), open, tell).await;
    assert_eq!((&*failed, open), (&["m-0".to_owned()][..], 1));
    drop(bench.database.lock("a").await);
    assert_eq!(bench.database.open(), 0);
}

#[tokio::test]
async fn cancelled_work_holds_its_transaction_until_its_blocking_work_has_ended() {
    let bench = crate::support::Bench::new();
    let database = Database::beside(&bench.store);
    let (tell, told) = gate();
    let idempotency = Idempotency::new("test").store(database.clone());
    let invocation = idempotency.until(Timestamp::now() + LIMIT);
    let (cancels, cancelled) = oneshot::channel::<()>();
    let work = async |_: Ledger, _| -> Result<(), HandlerError> {
        let _cancels = cancels;
        Ok(spawn_blocking(told).await?)
    };
    let run = invocation.run_in_transaction("a", work);
    let (result, open) = seen_after(cancelled, run, async || database.open(), tell).await;
    assert!(matches!(result, Err(RunError::Cancelled)), "{result:?}");
    assert_eq!((open, database.open()), (1, 0));
}
