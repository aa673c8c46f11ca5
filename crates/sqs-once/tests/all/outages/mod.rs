//! A consumer whose handler calls a service that is unavailable.

mod queues;
mod world;

use std::future::pending;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use futures_util::FutureExt;
use serde_json::{Value, json};
use sqs_once::body::LargeMessages;
use sqs_once::extract::RecordParts;
use sqs_once::handler::{Done, Next};
use sqs_once::policy::{Dependency, Reconciled, UnknownOutcome};
use sqs_once::store::{Item, Owner, Seen, Status, StoreErrorKind};
use sqs_once::testing::{Answer, Bench, Event, Operation, Record, TestStore};
use sqs_once::unstable::breaker;
use sqs_once::{Batch, Consumer, Handler, HandlerError, ResultExt, Router, Writes};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use crate::support::s3::S3;
use crate::support::{
    self, AtOnce, Log, Notes, SECOND, STANDARD, assert_contains, invoke, named, noting, refusal,
    set, until, values,
};

/// A service that tests switch off and on, and that counts its calls.
#[derive(Clone, Default)]
struct Service {
    is_down: Arc<AtomicBool>,
    is_stuck: Arc<AtomicBool>,
    /// Whether its calls take different times.
    is_uneven: Arc<AtomicBool>,
    calls: Arc<AtomicUsize>,
    at_once: AtOnce,
    hangs: Arc<Mutex<Option<Hang>>>,
}

/// A call that hangs until the test answers it.
#[derive(Clone, Default)]
struct Hang {
    begun: Arc<Notify>,
    answered: Arc<Notify>,
}

impl Service {
    fn down() -> Self {
        let service = Self::default();
        service.set_down(true);
        service
    }

    fn set_down(&self, is_down: bool) {
        self.is_down.store(is_down, Ordering::SeqCst);
    }

    /// Lets no call end.
    fn set_stuck(&self, is_stuck: bool) {
        self.is_stuck.store(is_stuck, Ordering::SeqCst);
    }

    /// Makes the next call hang, or none.
    fn hang(&self, next: Option<Hang>) {
        *self.hangs.lock().unwrap() = next;
    }

    /// The calls since the last question.
    fn calls(&self) -> usize {
        self.calls.swap(0, Ordering::SeqCst)
    }

    /// One call, when it is polled.
    fn call(&self) -> impl Future<Output = io::Result<()>> + use<> {
        let service = self.clone();
        async move {
            let _counted = service.at_once.enter();
            service.calls.fetch_add(1, Ordering::SeqCst);
            let hang = service.hangs.lock().unwrap().take();
            if let Some(hang) = hang {
                hang.begun.notify_one();
                hang.answered.notified().await;
                return Ok(());
            }
            if service.is_stuck.load(Ordering::SeqCst) {
                pending::<()>().await;
            }
            let uneven = u64::from(service.is_uneven.load(Ordering::SeqCst));
            let more = service.calls.load(Ordering::SeqCst) as u64 % 3 * uneven;
            sleep(Duration::from_millis(1 + more)).await;
            match service.is_down.load(Ordering::SeqCst) {
                true => Err(io::ErrorKind::ConnectionRefused.into()),
                false => Ok(()),
            }
        }
    }

    fn consumer(&self) -> Consumer {
        self.consumer_with(|it| it)
    }

    fn bench(&self) -> Bench {
        Bench::new(self.consumer()).max_receive_count(5)
    }

    fn bench_with_dead_letters(&self) -> Bench {
        Bench::new(world::consumer(self)).max_receive_count(5)
    }

    fn consumer_with(&self, settings: impl FnOnce(Handler) -> Handler) -> Consumer {
        Consumer::new(settings(self.handler()))
    }

    fn handler(&self) -> Handler {
        let service = self.clone();
        let handler = values().call(move |order: Value| {
            let call = service.call();
            async move {
                match order["id"].as_str().and_then(|id| id.split('-').next()) {
                    Some("bad") => Err("no luck")?,
                    Some("declined") => Err("no luck").answered("payments").terminal()?,
                    Some("expired") => Err("no luck").answered("payments")?,
                    Some("busy") => Err("no luck").retry_after(SECOND).answered("payments")?,
                    Some("other") => Err("no luck").answered("stock")?,
                    Some("panics") => panic!("no luck"),
                    _ => {}
                }
                call.await.unavailable("payments")
            }
        });
        handler.depends_on("payments")
    }
}

#[derive(Debug, thiserror::Error)]
#[error("not charged")]
struct NotCharged(#[source] io::Error);

/// An event with this many new orders, whose messages have been received this often.
fn event(name: &str, count: usize, receive_count: u32) -> Event {
    let record = |at| named(format!("{name}-{at}")).receive_count(receive_count);
    Event::new((0..count).map(record))
}

fn delays(answer: &Answer) -> Vec<Duration> {
    let retried = answer.retried().iter();
    retried.filter_map(|id| answer.delay(id)).collect()
}

/// Lets the time of the open breaker pass.
fn after_a_pause(bench: &Bench) {
    bench.clock().advance(31 * SECOND);
}

/// Nothing is called, and every message returns.
async fn assert_open(service: &Service, bench: &Bench, name: &str) {
    service.calls();
    let answer = bench.run(event(name, 5, 1)).await;
    assert_eq!((service.calls(), answer.retried().len()), (0, 5), "{name}");
}

/// A service that is down, and a consumer with an open breaker that is ready for a probe.
async fn before_the_probe(consumer: impl FnOnce(&Service) -> Consumer) -> (Service, Bench) {
    let service = Service::down();
    let bench = Bench::new(consumer(&service)).max_receive_count(5);
    bench.run(event("a", 3, 1)).await;
    after_a_pause(&bench);
    service.calls();
    (service, bench)
}

#[tokio::test(start_paused = true)]
async fn after_three_failures_nothing_is_claimed_or_called() {
    let service = Service::down();
    let bench = Bench::new(service.consumer().concurrency(1)).max_receive_count(5);
    let answer = bench.run(event("a", 20, 1)).await;
    assert_eq!((service.calls(), answer.retried().len()), (3, 20));
    answer.assert_reason("a-0", "unavailable: payments: connection refused");
    answer.assert_reason("a-19", "unavailable: payments: its breaker is open");
    // Nothing is left claimed.
    let requests = bench.store().requests();
    let answer = bench.run(event("b", 20, 1)).await;
    assert_eq!(service.calls(), 0);
    assert_eq!(bench.store().requests(), requests);
    assert_eq!(delays(&answer).len(), 20);
    service.set_down(false);
    after_a_pause(&bench);
    bench.run(event("a", 20, 2)).await.assert_all_acknowledged();
}

#[tokio::test(start_paused = true)]
async fn a_service_that_hangs_opens_the_breaker_and_its_records_outlast_the_outage() {
    let service = Service::default();
    service.set_stuck(true);
    let consumer = service.consumer_with(|it| it.attempt_timeout(SECOND));
    let bench = Bench::new(consumer.concurrency(2)).max_receive_count(5);
    let answer = bench.run(event("a", 30, 1)).await;
    assert_eq!(service.calls(), 4);
    let waits = delays(&answer);
    // The first two were cancelled before it was open, and return with the queue's visibility timeout.
    assert_eq!(waits.len(), 28);
    assert!(waits.iter().all(|wait| *wait > 120 * SECOND));
    let cancelled = "unavailable: payments: cancelled: its handler took longer than 1s";
    answer.assert_reason("a-3", cancelled);
    answer.assert_reason("a-9", "unavailable: payments: its breaker is open");
    assert_open(&service, &bench, "b").await;
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_probe_leaves_the_breaker_to_the_next_record() {
    let limited = |it: &Service| it.consumer_with(|it| it.attempt_timeout(SECOND));
    let (service, bench) = before_the_probe(limited).await;
    service.set_down(false);
    service.hang(Some(Hang::default()));
    let answer = bench.run(event("b", 3, 1)).await;
    answer.assert_retried(["b-0"]);
    // Its effect may be in flight, and the breaker was open.
    assert!(answer.delay("b-0").unwrap() > 60 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn what_waits_for_a_probe_until_the_deadline_is_hidden_for_the_length_of_the_outage() {
    let routed: fn(&Service) -> Consumer =
        |it| Consumer::new(beside_notify(it.handler(), &Notes::default()));
    for consumer in [Service::consumer, routed] {
        let service = Service::down();
        let bench = Bench::new(consumer(&service)).max_receive_count(5);
        bench.run(payments_and_one("a", 3)).await;
        after_a_pause(&bench);
        service.calls();
        service.hang(Some(Hang::default()));
        let answer = bench.run(payments_and_one("b", 300)).await;
        assert_eq!(service.calls(), 1);
        for at in 1..300 {
            let id = format!("b-{at}");
            answer.assert_reason(&id, "the deadline came before it was started");
            assert!(answer.delay(&id).unwrap() > 60 * SECOND, "{id}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancellation_does_not_tell_which_of_two_dependencies_hangs() {
    let service = Service::default();
    service.set_stuck(true);
    let settings = |it: Handler| it.depends_on("stock").attempt_timeout(SECOND);
    let bench = Bench::new(service.consumer_with(settings)).max_receive_count(5);
    bench.run(event("a", 30, 1)).await;
    assert_eq!(service.calls(), 30);
}

#[tokio::test(start_paused = true)]
async fn a_success_starts_the_count_again_and_other_errors_do_not_count() {
    let service = Service::down();
    let bench = service.bench();
    bench.run(event("bad", 100, 1)).await;
    for round in 0..5 {
        service.set_down(true);
        bench.run(event(&format!("down-{round}"), 2, 1)).await;
        service.set_down(false);
        let up = format!("up-{round}");
        bench.run(event(&up, 1, 1)).await.assert_all_acknowledged();
    }
}

type Settings = fn(Dependency) -> Dependency;

#[tokio::test(start_paused = true)]
async fn an_error_is_recognised_by_its_own_type_and_by_that_of_a_cause_only_if_the_consumer_says_so()
 {
    let itself: Settings = |it| it.unavailable_if(|error: &io::Error| is_refusal(error));
    let caused_by: Settings =
        |it| it.unavailable_if_caused_by(|error: &io::Error| is_refusal(error));
    let both: Settings = |it| {
        let it = it.unavailable_if(|error: &io::Error| is_refusal(error));
        it.unavailable_if_caused_by(|error: &io::Error| is_refusal(error))
    };
    for (settings, wraps, counts, warnings) in [
        (itself, false, true, 0),
        // A failing webhook is no failure of payments. The first error warns, the next do not.
        (itself, true, false, 1),
        (caused_by, false, true, 0),
        (caused_by, true, true, 0),
        (both, true, true, 0),
    ] {
        let service = Service::down();
        let calls = service.clone();
        let handler = values().call(move |_: Value| {
            calls.call().map(move |failed| match wraps {
                true => Ok(failed.map_err(NotCharged)?),
                false => Ok::<_, HandlerError>(failed?),
            })
        });
        let log = Log::capture();
        let payments = settings(Dependency::new("payments").failures(1));
        let bench = Bench::new(handler.depends_on(payments));
        let answer = bench.run(event("a", 1, 1)).await;
        let wrapped = ["", "not charged: "][usize::from(wraps)];
        let unavailable = ["", "unavailable: payments: "][usize::from(counts)];
        answer.assert_reason("a-0", &format!("{unavailable}{wrapped}connection refused"));
        bench.run(event("b", 3, 1)).await;
        assert_eq!(service.calls(), if counts { 1 } else { 4 });
        let lines = log.take("sqs_once::breaker");
        let name = "`unavailable_if_caused_by`";
        let warned = lines.iter().filter(|line| line["message"].contains(name));
        assert_eq!(warned.count(), warnings);
    }
}

fn is_refusal(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::ConnectionRefused
}

#[tokio::test(start_paused = true)]
async fn an_error_that_is_terminal_or_has_a_delay_stays_what_it_is() {
    let any = Dependency::new("payments").failures(1);
    let any = any.unavailable_if(|_: &io::Error| true);
    let handler = values().call(async |order: Value| {
        let failed = Err::<(), _>(io::Error::other("no"));
        match order["id"].as_str() {
            Some("a-0") => failed.terminal(),
            _ => failed.retry_after(7 * SECOND),
        }
    });
    let bench = Bench::new(handler.depends_on(any));
    let answer = bench.run(event("a", 2, 1)).await;
    answer.assert_terminal("a-0");
    assert_eq!(answer.delay("a-1"), Some(7 * SECOND));
}

#[tokio::test(start_paused = true)]
async fn a_dependency_that_the_handler_does_not_have_is_named_and_the_record_is_retried() {
    let handler = values().call(async |_: Value| Err::<(), _>("down").unavailable("paymnets"));
    let bench = Bench::new(handler.depends_on("payments"));
    for round in 0..5 {
        let id = format!("{round}-0");
        let answer = bench.run(event(&round.to_string(), 1, 1)).await;
        let why = "\"paymnets\", on which the handler does not";
        answer.assert_failed(&id).assert_reason(&id, why);
    }
}

#[tokio::test(start_paused = true)]
async fn all_environments_share_the_breaker_and_one_of_them_sends_the_probe() {
    let service = Service::down();
    let first = service.bench();
    let others = [(); 3].map(|()| first.beside(service.consumer()));
    first.run(event("first", 3, 1)).await;
    // An environment that is new learns it at its start.
    for bench in &others {
        bench.init().await;
        assert_open(&service, bench, "new").await;
    }
    for round in 0..3 {
        after_a_pause(&first);
        for (at, bench) in others.iter().enumerate() {
            bench.run(event(&format!("p{at}-{round}"), 5, 1)).await;
        }
        assert_eq!(service.calls(), 1, "one probe");
    }
    service.set_down(false);
    after_a_pause(&first);
    for (at, bench) in others.iter().enumerate() {
        let up = event(&format!("up{at}"), 5, 1);
        bench.run(up).await.assert_all_acknowledged();
    }
}

#[tokio::test(start_paused = true)]
async fn after_the_probe_the_number_of_records_grows_with_each_success() {
    let (service, bench) = before_the_probe(|it| it.consumer().concurrency(64)).await;
    service.set_down(false);
    let began = Instant::now();
    bench.run(event("b", 63, 1)).await.assert_all_acknowledged();
    // 1, 2, 4, 8, 16 and 32 at once, a millisecond each.
    assert_eq!(service.at_once.most(), 32);
    assert_eq!(began.elapsed().as_millis(), 6);
}

#[tokio::test(start_paused = true)]
async fn records_that_stay_in_their_room_do_not_slow_the_ramp_down() {
    let messages = LargeMessages::for_queue(STANDARD, "bodies/*").client(S3::default().client());
    let may_fetch = |it: Consumer| it.large_messages(messages.clone());
    let times = [&(|it| it) as &dyn Fn(Consumer) -> Consumer, &may_fetch].map(async |set| {
        let (service, bench) = before_the_probe(|it| set(it.consumer().concurrency(64))).await;
        service.set_down(false);
        service.is_uneven.store(true, Ordering::SeqCst);
        let began = Instant::now();
        bench.run(event("b", 63, 1)).await.assert_all_acknowledged();
        began.elapsed()
    });
    let [stay_not, stay] = times;
    assert_eq!(stay_not.await, stay.await);
}

/// The ids of an outage's end: the first ends before it comes to the service.
const UNTRIED: [&str; 4] = ["bad-1", "panics-1", "refused-1", "skipped-1"];

/// A layer that ends the records `refused…` and `skipped…`.
fn ending(handler: Handler) -> Handler {
    handler.layer(|parts: RecordParts, next: Next| async move {
        match parts.message().id().split('-').next() {
            Some("refused") => Err(HandlerError::terminal("not allowed")),
            Some("skipped") => Ok(Done::default()),
            _ => next.run().await,
        }
    })
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_does_not_come_to_the_service_leaves_the_breaker_to_the_next_record() {
    for (first, is_down) in UNTRIED.into_iter().flat_map(|id| [(id, true), (id, false)]) {
        let (service, bench) = before_the_probe(|it| it.consumer_with(ending)).await;
        service.set_down(is_down);
        let event = Event::new([first, "b-1", "b-2", "b-3"].map(named));
        let answer = bench.run(event).await;
        if is_down {
            assert_eq!(service.calls(), 1, "{first}");
            answer.assert_reason("b-1", "unavailable: payments: connection refused");
            answer.assert_reason("b-2", "unavailable: payments: its breaker is open");
            continue;
        }
        for id in ["b-1", "b-2", "b-3"] {
            answer.assert_processed(id);
        }
        assert_eq!(service.calls(), 3, "{first}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_handler_waits_until_its_breaker_is_read_and_one_without_a_dependency_does_not() {
    let service = Service::default();
    let first = Bench::new(service.consumer()).max_receive_count(5);
    let slow = support::TestStore::over(first.store().clone()).reads_take(|_| SECOND);
    let ran = Notes::default();
    let other = Consumer::new(beside_notify(service.handler(), &ran)).store(slow);
    let other = other.clock(first.clock().clone());
    let deliver = async |name| {
        let context = until(first.clock().now() + 30 * SECOND);
        invoke(&other, &payments_and_one(name, 3), context).await;
    };
    deliver("a").await;
    service.set_down(true);
    first.run(event("b", 3, 1)).await;
    let items = first.store().memory();
    let mut opened = items.get(&breaker::item_id("payments")).unwrap();
    opened.lease_until = Some(first.clock().now() + Duration::from_hours(1));
    items.put(opened);
    after_a_pause(&first);
    service.calls();
    ran.take();
    let began = Instant::now();
    deliver("c").await;
    assert_eq!(service.calls(), 0);
    assert!(ran.take()[0] - began < SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_its_earlier_attempt_ends_leaves_the_breaker_to_the_next_record() {
    let done = UnknownOutcome::reconcile(async |_| Ok(Reconciled::Done));
    for policy in [done.clone(), done.token_valid_for(60 * SECOND)] {
        let service = Service::down();
        let policy = |it: Handler| it.unknown_outcome(policy).attempt_timeout(SECOND);
        let bench = Bench::new(service.consumer_with(policy)).max_receive_count(5);
        bench.another_worker_claims("old").await;
        bench.run(event("a", 3, 1)).await;
        bench.clock().advance(Duration::from_hours(1));
        service.calls();
        let answer = bench
            .run(Event::new(["old", "b-1", "b-2"].map(named)))
            .await;
        answer.assert_processed("old");
        assert_eq!(service.calls(), 1);
        answer.assert_reason("b-2", "unavailable: payments: its breaker is open");
    }
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_fails_with_an_answer_closes_the_breaker_of_the_service_that_answered() {
    for (first, closes) in [
        ("declined-1", true),
        ("expired-1", true),
        ("busy-1", true),
        ("other-1", false),
    ] {
        let (service, bench) = before_the_probe(Service::consumer).await;
        service.set_down(!closes);
        let answer = bench.run(Event::new([named(first)])).await;
        answer.assert_reason(first, "no luck");
        let item = bench.store().memory().get(&breaker::item_id("payments"));
        let is_closed = item.unwrap().status == Status::Completed;
        assert_eq!(is_closed, closes, "{first}");
        let answer = bench.run(event("b", if closes { 5 } else { 1 }, 1)).await;
        if closes {
            answer.assert_all_acknowledged();
            continue;
        }
        answer.assert_reason("b-0", "unavailable: payments: connection refused");
        assert_eq!(service.calls(), 1, "{first}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_failure_while_the_number_grows_opens_the_breaker_at_once_for_all_environments() {
    let (service, bench) = before_the_probe(Service::consumer).await;
    let other = bench.beside(service.consumer());
    service.set_down(false);
    bench.run(event("b", 1, 1)).await.assert_all_acknowledged();
    service.set_down(true);
    service.calls();
    let log = Log::capture();
    bench.run(event("c", 20, 1)).await;
    assert!(service.calls() <= 2);
    let lines = log.take("sqs_once::breaker");
    let opens = "the dependency is unavailable: its breaker opens";
    assert!(lines.iter().any(|line| line["message"] == opens));
    other.init().await;
    for bench in [&bench, &other] {
        assert_open(&service, bench, "d").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_from_before_the_outage_closes_no_breaker_and_its_environment_probes_when_it_has_ended()
 {
    let service = Service::down();
    let bench = service.bench().timeout(120 * SECOND);
    let old = Hang::default();
    service.hang(Some(old.clone()));
    let item = || bench.store().memory().get(&breaker::item_id("payments"));
    // Two batches of one environment, as on Managed Instances.
    let (answer, opened) = tokio::join!(bench.run(event("old", 1, 1)), async {
        old.begun.notified().await;
        bench.run(event("a", 3, 1)).await;
        let opened = item();
        after_a_pause(&bench);
        assert_open(&service, &bench, "b").await;
        assert_eq!(item(), opened, "another environment may probe");
        old.answered.notify_one();
        opened
    });
    answer.assert_all_acknowledged();
    assert_eq!(item(), opened);
    assert_eq!(opened.unwrap().status, Status::InProgress);
    bench.run(event("c", 5, 1)).await;
    assert_eq!(service.calls(), 1, "one probe");
}

#[tokio::test(start_paused = true)]
async fn the_last_delivery_moves_the_message_marked_to_the_dead_letter_queue() {
    let service = Service::down();
    let bench = service.bench_with_dead_letters();
    let answer = bench.run(event("a", 3, 5)).await;
    for id in ["a-0", "a-1", "a-2"] {
        let why = "unavailable: payments: connection refused";
        answer.assert_terminal(id).assert_reason(id, why);
    }
    assert_eq!(answer.retried(), [] as [&str; 0]);
    let answer = bench.run(event("b", 1, 5)).await;
    answer.assert_terminal("b-0");
    answer.assert_reason("b-0", "unavailable: payments: its breaker is open");
    // The others return.
    bench.run(event("c", 1, 4)).await.assert_failed("c-0");
}

#[tokio::test(start_paused = true)]
async fn a_message_is_back_before_it_expires_or_moves_to_the_dead_letter_queue() {
    let service = Service::down();
    let bench = service.bench_with_dead_letters();
    let now = bench.clock().now().as_millis();
    // SQS's default retention is four days.
    let sent = |hours_left: u64| {
        let sent_at = now - (96 - hours_left) * 3_600_000 + 1_000;
        let record = named(hours_left.to_string()).receive_count(3);
        record.system_attribute("SentTimestamp", sent_at.to_string())
    };
    let answer = bench.run(Event::new([sent(96), sent(1), sent(0)])).await;
    assert!(answer.delay("96").unwrap() > Duration::from_secs(11 * 3600));
    // A quarter of an hour before it expires.
    let minutes = answer.delay("1").unwrap().as_secs().div_ceil(60);
    assert_eq!(minutes, 45);
    answer.assert_terminal("0");
}

#[tokio::test(start_paused = true)]
async fn fifo_order_holds_while_the_breaker_is_open_and_after_it() {
    let service = Service::down();
    let bench = service.bench();
    let groups = |count| {
        let records = ["x-0", "y-0", "x-1", "y-1", "x-2"];
        Event::new(records.map(|id| named(id).fifo(&id[..1]).receive_count(count)))
    };
    let answer = bench.run(groups(1)).await;
    assert_eq!(answer.retried().len(), 5);
    bench.run(event("a", 1, 1)).await;
    service.calls();
    let answer = bench.run(groups(2)).await;
    assert_eq!((service.calls(), delays(&answer).len()), (0, 5));
    service.set_down(false);
    after_a_pause(&bench);
    bench.run(groups(3)).await.assert_all_acknowledged();
    assert_eq!(service.at_once.most(), 2, "one of each group");
}

#[tokio::test(start_paused = true)]
async fn a_copy_on_its_last_delivery_moves_to_the_dead_letter_queue_with_the_reason() {
    let service = Service::down();
    let bench = service.bench_with_dead_letters();
    let record = |id: &str, receive_count| {
        let record = Record::json(&json!({ "id": "one" })).message_id(id);
        record.receive_count(receive_count)
    };
    let event = Event::new([record("first", 1), record("copy", 5)]);
    let answer = bench.run(event).await;
    assert!(answer.retried().iter().any(|id| id == "first"));
    answer.assert_terminal("copy");
    let failed = "unavailable: payments: the message with the same key in this batch failed";
    answer.assert_reason("copy", failed);
}

#[tokio::test(start_paused = true)]
async fn a_batch_handlers_call_that_fails_as_a_whole_counts_once() {
    let service = Service::default();
    service.set_stuck(true);
    let calls = service.clone();
    let handler = values()
        .call_batch(move |orders: Batch<Value>| calls.call().map(move |_| orders.all_succeeded()));
    let handler = handler.depends_on("payments").attempt_timeout(SECOND);
    let bench = Bench::new(handler).max_receive_count(9);
    for batch in ["a", "b", "c", "d"] {
        bench.run(event(batch, 5, 1)).await;
    }
    assert_eq!(service.calls(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_batch_handler_probes_with_one_record() {
    let service = Service::down();
    let calls = service.clone();
    let handler = values().call_batch(move |orders: Batch<Value>| {
        let calls = calls.clone();
        async move {
            let mut outcome = orders.outcome();
            for order in &orders {
                match calls.call().await.unavailable("payments") {
                    Ok(()) => outcome.succeeded(order),
                    Err(error) => outcome.failed(order, error),
                }
            }
            outcome
        }
    });
    let consumer = Consumer::new(handler.depends_on("payments"));
    let bench = Bench::new(consumer).max_receive_count(5);
    let began = Instant::now();
    bench.run(event("a", 5, 1)).await;
    assert_eq!(service.calls(), 5);
    assert_open(&service, &bench, "b").await;
    after_a_pause(&bench);
    assert_eq!(delays(&bench.run(event("c", 5, 1)).await).len(), 5);
    assert_eq!(service.calls(), 1);
    service.set_down(false);
    after_a_pause(&bench);
    let answer = bench.run(event("d", 5, 1)).await;
    assert_eq!((service.calls(), answer.retried().len()), (1, 4));
    bench.run(event("e", 5, 1)).await.assert_all_acknowledged();
    assert!(began.elapsed() < SECOND, "no record waits for the probe");
}

#[tokio::test(start_paused = true)]
async fn no_more_handlers_than_the_dependency_allows_run_at_once() {
    let service = Service::default();
    let payments = Dependency::new("payments").max_in_flight(3);
    let calls = service.clone();
    let handler = values().call(move |_: Value| calls.call());
    let bench = Bench::new(handler.depends_on(payments));
    // Two batches of one environment, as on Managed Instances.
    let (one, other) = (event("a", 20, 1), event("b", 20, 1));
    let (one, other) = tokio::join!(bench.run(one), bench.run(other));
    one.assert_all_acknowledged();
    other.assert_all_acknowledged();
    assert_eq!((service.calls(), service.at_once.most()), (40, 3));
}

/// A router of payments, and of a route `notify` without a dependency that notes when its records run.
fn beside_notify(payments: Handler, ran: &Notes<Instant>) -> Router {
    let notify = values().call(ran.clone().of(|_: Value| Instant::now()));
    Router::by_attribute("type")
        .route("payments", payments.namespace("payments"))
        .route("notify", notify.namespace("notify"))
}

/// This many records of payments, and one of `notify` behind them.
fn payments_and_one(name: &str, count: usize) -> Event {
    let record = |id: String, route| named(id).attribute("type", route);
    let payments = (0..count).map(|at| record(format!("{name}-{at}"), "payments"));
    Event::new(payments.chain([record(format!("{name}-n"), "notify")]))
}

#[tokio::test(start_paused = true)]
async fn records_that_wait_for_their_dependency_hold_up_no_other_route() {
    let payments = || Dependency::new("payments").max_in_flight(1);
    let slow = values().call(async |_: Value| sleep(2 * SECOND).await);
    let writing = values().call(async |_: Value| {
        sleep(2 * SECOND).await;
        Writes::new()
    });
    let s3 = S3::default();
    let objects = LargeMessages::for_queue(STANDARD, "bodies/*").client(s3.client());
    for (what, handler, bodies) in [
        ("plain", slow.clone(), None),
        ("with bodies in S3", slow, Some(objects)),
        ("writing", writing, None),
    ] {
        let ran = Notes::default();
        let began = Instant::now();
        let consumer = Consumer::new(beside_notify(handler.depends_on(payments()), &ran));
        let bench = Bench::new(set(consumer, bodies, Consumer::large_messages));
        let bench = bench.timeout(120 * SECOND);
        let answer = bench.run(payments_and_one("a", 15)).await;
        answer.assert_all_acknowledged();
        let waited = ran.take()[0] - began;
        assert!(waited < SECOND, "{what}: {waited:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn records_that_wait_for_a_probe_hold_up_no_other_route() {
    let service = Service::down();
    let ran = Notes::default();
    let bench = Bench::new(beside_notify(service.handler(), &ran));
    bench.run(payments_and_one("a", 3)).await;
    after_a_pause(&bench);
    service.set_down(false);
    let probe = Hang::default();
    service.hang(Some(probe.clone()));
    ran.take();
    let (answer, ()) = tokio::join!(bench.run(payments_and_one("b", 300)), async {
        probe.begun.notified().await;
        sleep(SECOND).await;
        assert_eq!(ran.len(), 1, "while the probe is in flight");
        probe.answered.notify_one();
    });
    answer.assert_all_acknowledged();
}

#[tokio::test(start_paused = true)]
async fn a_store_that_does_not_answer_leaves_the_breaker_to_this_environment() {
    let service = Service::down();
    let store = Arc::new(OnceLock::<TestStore>::new());
    let (calls, fails) = (service.clone(), Arc::clone(&store));
    let handler = values().call(move |_: Value| {
        // The next claim is the breaker's.
        let store = fails.get().unwrap();
        store.fail(Operation::Claim, StoreErrorKind::Unanswered, 1);
        calls.call().map(|called| called.unavailable("payments"))
    });
    let bench = Bench::new(handler.depends_on(Dependency::new("payments").failures(1)));
    store.set(bench.store().clone()).unwrap();
    bench.run(event("a", 1, 1)).await.assert_failed("a-0");
    bench.run(event("b", 5, 1)).await;
    assert_eq!(service.calls(), 1);
    service.set_down(false);
    after_a_pause(&bench);
    // Without an answer, a record is tried.
    let unanswered = StoreErrorKind::Unanswered;
    bench.store().fail(Operation::Read, unanswered, 1);
    bench.run(event("d", 5, 1)).await.assert_all_acknowledged();
}

/// Opens the breaker for hours, as an operator does. Returns its item.
fn open_for_hours(bench: &Bench) -> Item {
    let now = bench.clock().now();
    let id = breaker::item_id("payments");
    let seen = bench.store().memory().get(&id);
    let owner = Owner::from_bits(7);
    let hours = now + Duration::from_secs(2 * 3600);
    let claim = breaker::claim(&id, owner, now, (now, hours), Seen::Nothing);
    let opened = claim.write(seen.as_ref());
    bench.store().memory().put(opened.clone());
    opened
}

#[tokio::test(start_paused = true)]
async fn a_breaker_that_an_operator_opens_for_hours_and_closes_is_noticed_after_a_pause() {
    // A new environment, and one that has handled messages.
    for is_warm in [false, true] {
        let service = Service::default();
        let bench = service.bench();
        if is_warm {
            bench.init().await;
            bench.run(event("w", 5, 1)).await.assert_all_acknowledged();
            assert_eq!(service.calls(), 5);
            after_a_pause(&bench);
        }
        let opened = open_for_hours(&bench);
        if !is_warm {
            bench.init().await;
        }
        for _ in 0..3 {
            assert_open(&service, &bench, "a").await;
            after_a_pause(&bench);
        }
        let now = bench.clock().now();
        let closed = breaker::closing(&opened.id, opened.owner.unwrap(), now);
        bench.store().memory().put(closed.write(Some(&opened)));
        bench.run(event("a", 5, 2)).await.assert_all_acknowledged();
    }
}

#[tokio::test(start_paused = true)]
async fn a_breaker_that_an_operator_opens_during_the_ramp_is_noticed_after_a_pause() {
    let service = Service::down();
    let first = service.bench();
    first.run(event("a", 3, 1)).await;
    service.set_down(false);
    // The environment that probes, and one that finds the breaker closed.
    let second = first.beside(service.consumer());
    second.init().await;
    after_a_pause(&first);
    for (bench, name) in [(&first, "b"), (&second, "c")] {
        bench.run(event(name, 1, 1)).await.assert_all_acknowledged();
    }
    open_for_hours(&first);
    after_a_pause(&first);
    for bench in [&first, &second] {
        assert_open(&service, bench, "d").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_can_not_close_the_breaker_closes_it_in_its_environment() {
    let (service, bench) = before_the_probe(Service::consumer).await;
    service.set_down(false);
    let throttled = StoreErrorKind::Throttled;
    bench.store().fail(Operation::Complete, throttled, 1);
    bench.run(event("b", 1, 1)).await.assert_all_acknowledged();
    let item = bench.store().memory().get(&breaker::item_id("payments"));
    assert_eq!(item.unwrap().status, Status::InProgress);
    for name in ["c", "d"] {
        bench.run(event(name, 5, 1)).await.assert_all_acknowledged();
        after_a_pause(&bench);
    }
}

#[tokio::test(start_paused = true)]
async fn a_healthy_dependency_costs_one_request_every_half_minute() {
    let service = Service::default();
    let without = Bench::new(noting().0.consumer.clone());
    let with_it = service.bench();
    for bench in [&without, &with_it] {
        bench.init().await;
        for half_minute in 0..3 {
            for batch in 0..5 {
                let batch = event(&format!("{half_minute}-{batch}"), 10, 1);
                bench.run(batch).await.assert_all_acknowledged();
            }
            after_a_pause(bench);
        }
    }
    assert_eq!(with_it.store().requests(), without.store().requests() + 2);
}

#[tokio::test(start_paused = true)]
async fn a_dependency_that_can_not_work_fails_at_the_start() {
    let new = || Dependency::new("payments");
    let long = "x".repeat(51);
    for (dependencies, problem) in [
        (vec![Dependency::new("")], "names the dependency \"\""),
        (vec![Dependency::new("a b")], "names the dependency \"a b\""),
        (vec![Dependency::new(&long)], "names the dependency"),
        (vec![new(), new()], "names \"payments\" twice"),
        (vec![new().failures(0)], "has a 0"),
        (vec![new().max_in_flight(0)], "has a 0"),
        (vec![new().probe_every(Duration::ZERO)], "has a 0"),
        (vec![new().outage(SECOND)], "has an outage of 1s"),
    ] {
        let handler = values().call(async |_: Value| {}).namespace("test");
        let handler = dependencies.into_iter().fold(handler, Handler::depends_on);
        assert_contains!(refusal(handler).await, problem, "depends_on");
    }
}
