//! The requests for a batch: when they are sent, how many are in flight, and how many keys are in each.

use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use crate::support::process::{SINGLE, has};
use crate::support::{
    Bench, Notes, Order, SECOND, Tested, handling, in_groups, keys, noting, order, with,
};
use serde_json::{Value, json};
use sqs_once::HandlerError;
use sqs_once::body::{AsyncDecode, DecodeError, Envelope, Opened};
use sqs_once::extract::Message;
use sqs_once::store::Settling;
use tokio::time::{Instant, sleep};

#[tokio::test(start_paused = true)]
async fn a_hundred_new_keys_take_eight_requests_and_ten_take_two() {
    let (bench, _) = noting();
    for (keys, expected) in [(0..100, 8), (100..110, 2), (110..111, 2), (111..136, 2)] {
        let count = keys.len();
        bench.run(keys.map(|key| key.to_string())).await;
        assert_eq!(bench.store.take_calls().len(), expected, "{count} keys");
    }
}

const ROUND_TRIP: Duration = Duration::from_millis(10);

#[tokio::test(start_paused = true)]
async fn a_group_that_nothing_more_can_join_waits_for_no_other() {
    for count in [1, 25, 30, 99, 100] {
        let (bench, _) = noting();
        bench.store.claims_take(|_| ROUND_TRIP);
        bench.store.settlements_take(|_| ROUND_TRIP);
        let start = Instant::now();
        assert_eq!(bench.run(keys(count)).await, [""; 0]);
        let round_trips = start.elapsed().as_millis() / ROUND_TRIP.as_millis();
        assert_eq!(round_trips, 2, "{count} keys");
    }
}

/// When each request began, and its number of entries.
type Begun = Notes<(Instant, usize)>;

/// The largest number of requests at once, each of which takes `time`, and of entries in a request.
fn most(requests: &Begun, time: Duration) -> (usize, usize) {
    let requests = requests.all();
    let at_once = |now: Instant| {
        let in_flight = |(begun, _): &&(Instant, usize)| *begun <= now && now < *begun + time;
        requests.iter().filter(in_flight).count()
    };
    let calls = requests.iter().map(|(begun, _)| at_once(*begun));
    let entries = requests.iter().map(|(_, entries)| *entries);
    (calls.max().unwrap(), entries.max().unwrap())
}

#[tokio::test(start_paused = true)]
async fn batched_requests_are_full_and_few_and_single_ones_carry_one_key_and_are_bounded() {
    // Claims arrive faster than settlements finish, so only the limit on settlements delays them.
    let slow = 20 * ROUND_TRIP;
    let expected = if has!(&[SINGLE]) { (32, 1) } else { (8, 25) };
    let (claims, settlements) = (Begun::default(), Begun::default());
    let (claiming, settling) = (claims.clone(), settlements.clone());
    let bench = handling(async |_: Order| ());
    bench.store.claims_take(move |claims| {
        claiming.add((Instant::now(), claims.len()));
        ROUND_TRIP
    });
    bench.store.settlements_take(move |settlements| {
        settling.add((Instant::now(), settlements.len()));
        slow
    });
    let bench = bench.with_consumer(|it| it.concurrency(400));
    assert_eq!(bench.run(keys(400)).await, [""; 0]);
    assert_eq!(most(&claims, ROUND_TRIP), expected);
    assert_eq!(most(&settlements, slow), expected);
}

/// The consumer, and the kind of each request with its number of keys, in order.
fn asking() -> (Tested, Notes<(&'static str, usize)>) {
    let (bench, asked) = (noting().0, Notes::default());
    let (reads, claims) = (asked.clone(), asked.clone());
    bench.store.reads_take(move |ids| {
        reads.add(("read", ids.len()));
        ROUND_TRIP
    });
    bench.store.claims_take(move |sent| {
        claims.add(("claim", sent.len()));
        ROUND_TRIP
    });
    (bench, asked)
}

/// A record that SQS delivers again.
fn again(record: Value) -> Value {
    let mut again = with(json!({ "attributes": {} }), record);
    again["attributes"]["ApproximateReceiveCount"] = json!("2");
    again
}

#[tokio::test(start_paused = true)]
async fn keys_of_messages_that_came_back_are_read_beside_the_claims_of_the_others() {
    let (bench, asked) = asking();
    bench.run(["bad-1", "done"]).await;
    asked.take();
    let new = (0..10).map(|at| order(&format!("new-{at}")));
    let came_back = ["bad-1", "done", "untried"].map(|id| again(order(id)));
    assert_eq!(bench.run(new.chain(came_back)).await, ["m-10"]);
    // The failed attempt's item is replaced, and the untried message has none.
    assert_eq!(asked.take(), [("claim", 10), ("read", 3), ("claim", 2)]);
}

#[tokio::test(start_paused = true)]
async fn a_read_without_an_answer_holds_back_no_claim() {
    let (bench, _) = noting();
    bench.store.reads_take(|_| Duration::MAX);
    let failed = bench.run([order("new"), again(order("old"))]).await;
    assert_eq!(failed, ["m-1"]);
}

#[tokio::test(start_paused = true)]
async fn a_message_that_probably_came_back_untried_is_claimed_at_once() {
    let (bench, asked) = asking();
    // Followers came back because the first of their group failed.
    let groups = in_groups("g/1 h/2 g/3 h/4");
    bench.run(groups.into_iter().map(again)).await;
    assert_eq!(asked.take(), [("read", 2), ("claim", 2), ("claim", 2)]);
}

#[tokio::test(start_paused = true)]
async fn a_request_leaves_before_the_records_of_the_next_are_read() {
    let read = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&read);
    let consumer = sqs_once::Handler::json::<Order>()
        .key(move |order: &Order| {
            counted.fetch_add(1, SeqCst);
            order.id.clone()
        })
        .call(async |_: Order| ());
    // The number of records that had been read at each claim request.
    let (claims, notes) = Notes::pair();
    let bench = Bench::new().on(consumer);
    bench.store.claims_take(move |_| {
        notes.add(read.load(SeqCst));
        ROUND_TRIP
    });
    assert_eq!(bench.run(keys(75)).await, [""; 0]);
    assert_eq!(claims.take(), [25, 50, 75]);
}

#[tokio::test(start_paused = true)]
async fn a_claim_leaves_before_thousands_of_messages_without_an_event_are_read() {
    let read = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&read);
    let bench = handling(async |_: Order| ());
    bench.store.claims_take(move |_| {
        assert!(counted.load(SeqCst) < 500, "all were read before");
        ROUND_TRIP
    });
    let ignoring = Counting(read);
    let bench = bench.with(|it| it.envelope(ignoring));
    let ignored = (0..5000).map(|_| order("ignored"));
    assert_eq!(
        bench.run([order("k0")].into_iter().chain(ignored)).await,
        [""; 0]
    );
}

/// Counts the messages that it opens. Most hold no event.
struct Counting(Arc<AtomicUsize>);

impl Envelope for Counting {
    fn open(&self, content: &str, _: &Message) -> Result<Opened, DecodeError> {
        self.0.fetch_add(1, SeqCst);
        Ok(match content.contains("ignored") {
            true => Opened::ignored("no event"),
            false => Opened::untouched(),
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_completion_does_not_wait_for_a_release_that_hangs() {
    let bench = handling(async |order: Order| match order.id.as_str() {
        "bad" => Err("no luck"),
        "good" => {
            sleep(ROUND_TRIP).await;
            Ok(())
        }
        _ => {
            sleep(10 * SECOND).await;
            Ok(())
        }
    });
    let begun = Begun::default();
    let noted = begun.clone();
    bench.store.settlements_take(move |settlements| {
        noted.add((Instant::now(), settlements.len()));
        let is_release = settlements[0].settling == Settling::Release;
        Duration::MAX * u32::from(is_release)
    });
    let start = Instant::now();
    assert_eq!(bench.run(["bad", "good", "slow"]).await, ["m-0"]);
    let [_release, (completed, 1), ..] = begun.take()[..] else {
        panic!("a release and a completion");
    };
    assert!(completed - start < SECOND);
}

#[tokio::test(start_paused = true)]
async fn at_the_deadline_completions_wait_for_no_write_that_hangs() {
    let bench = handling(async |order: Order| {
        // The first record's completion is sent alone, and the others wait for it.
        if order.id != "k0" {
            sleep(ROUND_TRIP).await;
        }
    });
    // Never answers a claim request of fewer or more than 25 claims, nor the first settlement.
    let settlements = AtomicUsize::new(0);
    bench.store.claims_take(|claims| match claims.len() {
        25 => Duration::ZERO,
        _ => Duration::MAX,
    });
    bench.store.settlements_take(move |_| {
        let is_first = settlements.fetch_add(1, SeqCst) == 0;
        Duration::MAX * u32::from(is_first)
    });
    let bench = bench.with_consumer(|it| it.concurrency(25));
    assert_eq!(bench.run(keys(26)).await, ["m-0", "m-25"]);
}

/// Handlers that end one by one while a completion is in flight.
#[tokio::test(start_paused = true)]
async fn completions_that_come_while_a_request_is_under_way_share_the_next() {
    let bench = handling(async |order: Order| {
        let at: u32 = order.id[1..].parse().unwrap();
        sleep(at * ROUND_TRIP / 10).await;
    });
    bench.store.settlements_take(|_| 10 * ROUND_TRIP);
    assert_eq!(bench.run(keys(20)).await, [""; 0]);
    let expected = [("claim", 20), ("settle", 1), ("settle", 19)];
    assert_eq!(bench.store.take_calls(), expected);
}

/// The number of handlers that had run when each request for completions was sent.
async fn run_at_completions(handle: fn()) -> Vec<usize> {
    let ran = Arc::new(AtomicUsize::new(0));
    let (counted, at_request) = (Arc::clone(&ran), Arc::clone(&ran));
    let bench = handling(move |_: Order| {
        handle();
        counted.fetch_add(1, SeqCst);
        ready(())
    });
    let (requests, notes) = Notes::pair();
    bench.store.settlements_take(move |_| {
        notes.add(at_request.load(SeqCst));
        ROUND_TRIP
    });
    // All are claimed before the first runs.
    bench.store.claims_take(|_| ROUND_TRIP);
    let bench = bench.with_consumer(|it| it.concurrency(100));
    assert_eq!(bench.run(keys(100)).await, [""; 0]);
    requests.take()
}

#[tokio::test(start_paused = true)]
async fn a_full_request_leaves_before_further_handlers_run_that_never_wait() {
    assert_eq!(run_at_completions(|| {}).await, [25, 50, 75, 100]);
}

/// Real time.
#[tokio::test]
async fn a_completion_leaves_within_milliseconds_though_handlers_never_wait() {
    let completions = run_at_completions(|| std::thread::sleep(ROUND_TRIP)).await;
    assert!(completions[0] < 25, "{completions:?}");
}

#[tokio::test(start_paused = true)]
async fn a_completion_waits_for_those_of_messages_whose_claims_are_under_way() {
    let (bench, _) = noting();
    let known = (0..75).filter(|at| at % 25 != 0);
    let known: Vec<_> = known.map(|at| format!("k{at}")).collect();
    assert_eq!(bench.run(known).await, [""; 0]);
    bench.store.take_calls();
    // The answers to three full requests come one after the other, each with one new key.
    let claims = AtomicUsize::new(0);
    bench.store.claims_take(move |_| {
        let earlier = claims.fetch_add(1, SeqCst);
        ROUND_TRIP * u32::try_from(1 + earlier).unwrap()
    });
    bench.store.settlements_take(|_| 10 * ROUND_TRIP);
    assert_eq!(bench.run(keys(75)).await, [""; 0]);
    let calls = bench.store.take_calls().into_iter();
    let settled: Vec<_> = calls.filter(|(call, _)| *call == "settle").collect();
    assert_eq!(settled, [("settle", 1), ("settle", 2)]);
}

/// Payloads that arrive one by one while a claim is in flight.
#[tokio::test(start_paused = true)]
async fn claims_that_come_while_a_request_is_under_way_share_the_next() {
    let consumer = sqs_once::Handler::decode(Fetched)
        .key(|order: &Order| order.id.clone())
        .call(async |_: Order| ());
    let bench = Bench::new().on(consumer);
    bench.store.claims_take(|_| 10 * ROUND_TRIP);
    let bench = bench.with_consumer(|it| it.concurrency(20));
    assert_eq!(bench.run(keys(20)).await, [""; 0]);
    let calls = bench.store.take_calls().into_iter();
    let claimed: Vec<_> = calls.filter(|(call, _)| *call == "claim").collect();
    assert_eq!(claimed, [("claim", 1), ("claim", 19)]);
}

/// Takes as many milliseconds as the order's number.
struct Fetched;

impl AsyncDecode<Order> for Fetched {
    async fn decode(&self, body: &str, _: &Message) -> Result<Order, HandlerError> {
        let order: Order = serde_json::from_str(body)?;
        let at: u32 = order.id[1..].parse()?;
        sleep(at * ROUND_TRIP / 10).await;
        Ok(order)
    }
}
