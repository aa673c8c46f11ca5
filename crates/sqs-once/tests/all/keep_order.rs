//! Order behind dead letters: `Queue::keep_order`.

use std::collections::{BTreeSet, HashMap};
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lambda_runtime::Context;
use proptest::prelude::*;
use serde_json::{Value, json};
use sqs_once::store::{MemoryStore, StoreErrorKind};
use sqs_once::testing::Event;
use sqs_once::unstable::block::{Block, Place, item_id};
use sqs_once::{Consumer, HandlerError};
use tokio::time::{Instant, timeout};

use crate::router;
use crate::support::sqs::Sqs;
use crate::support::{
    Bench, DLQ, FIFO, Notes, Order, SECOND, Seen, Tested, assert_contains, codes, grouped,
    in_simulated_time, invoke, orders, with, with_attribute,
};

/// How often a message is tried.
const DELIVERIES: u32 = 2;
/// How long a request takes. A claim is answered as much later.
const REQUEST: Duration = Duration::from_millis(3);
/// How long SQS drops messages with a deduplication id that it knows.
const DEDUPLICATED: u32 = 300;

/// A FIFO queue with one message group, its consumer, and its dead-letter queue.
struct World {
    bench: Tested,
    sqs: Sqs,
    /// The orders that fail.
    broken: Arc<Mutex<BTreeSet<usize>>>,
    done: Seen,
    queue: Vec<Copy>,
    dead: Vec<Copy>,
    /// How many requests to the dead-letter queue have been seen.
    moved: usize,
    orders: usize,
    copies: usize,
    /// When each deduplication id was used last, in seconds.
    used: HashMap<String, u32>,
    now: u32,
}

/// A message in a queue.
#[derive(Clone, Debug)]
struct Copy {
    id: String,
    deduplication_id: String,
    order: usize,
    receives: u32,
}

impl World {
    fn new() -> Self {
        Self::with(Sqs::delivering(DELIVERIES + 100))
    }

    fn with(sqs: Sqs) -> Self {
        let (done, notes) = Seen::pair();
        let broken = Arc::<Mutex<BTreeSet<usize>>>::default();
        let fails = Arc::clone(&broken);
        let handler = orders().call(move |order: Order| {
            let (fails, notes) = (Arc::clone(&fails), notes.clone());
            async move {
                if fails.lock().unwrap().contains(&order.id.parse().unwrap()) {
                    Err("no luck")?;
                }
                notes.add(order.id);
                Ok::<_, HandlerError>(())
            }
        });
        let bench = Bench::new();
        bench.store.claims_take(|_| REQUEST);
        bench.store.claims_answered(|_| Ok(REQUEST));
        bench.store.settlements_take(|_| REQUEST);
        bench.store.reads_take(|_| REQUEST);
        let queue = sqs.queue().dead_letter_queue(format!("{DLQ}.fifo"));
        let queue = queue.keep_order(NonZeroU32::new(DELIVERIES).unwrap());
        Self {
            bench: bench.on(handler).with_consumer(|it| it.queue(queue)),
            sqs,
            broken,
            done,
            queue: Vec::new(),
            dead: Vec::new(),
            moved: 0,
            orders: 0,
            copies: 0,
            used: HashMap::new(),
            now: 0,
        }
    }

    fn breaks(&self, order: usize) {
        self.broken.lock().unwrap().insert(order);
    }

    fn mend(&self) {
        self.broken.lock().unwrap().clear();
    }

    /// Returns a new copy of an order, unless a queue drops it as a duplicate.
    fn copy(&mut self, order: usize, deduplication_id: String) -> Option<Copy> {
        let last = self.used.insert(deduplication_id.clone(), self.now);
        if last.is_some_and(|last| self.now - last < DEDUPLICATED) {
            return None;
        }
        self.copies += 1;
        Some(Copy {
            id: format!("copy-{}", self.copies),
            deduplication_id,
            order,
            receives: 0,
        })
    }

    fn send(&mut self, count: usize) {
        for _ in 0..count {
            let copy = self.copy(self.orders, format!("order-{}", self.orders));
            self.queue.extend(copy);
            self.orders += 1;
        }
    }

    async fn deliver(&mut self, is_lost: bool) {
        self.deliver_until(is_lost, Duration::MAX).await;
    }

    /// Delivers the front of the queue. All of it returns if the answer is lost, or the process dies before.
    async fn deliver_until(&mut self, is_lost: bool, dies: Duration) {
        let count = self.queue.len().min(10);
        let records = self.queue[..count].iter_mut().map(|copy| {
            copy.receives += 1;
            let mut record = with(
                grouped("g", &copy.order.to_string()),
                json!({ "messageId": copy.id }),
            );
            record["attributes"]["ApproximateReceiveCount"] = copy.receives.to_string().into();
            record["attributes"]["MessageDeduplicationId"] = copy.deduplication_id.clone().into();
            record
        });
        let records: Vec<_> = records.collect();
        let returned = timeout(dies, self.bench.run(records)).await;
        let sent = self.sqs.asked("SendMessage");
        for letter in &sent[self.moved..] {
            let body: Order =
                serde_json::from_str(letter["MessageBody"].as_str().unwrap()).unwrap();
            let id = letter["MessageDeduplicationId"].as_str().unwrap();
            let copy = self.copy(body.id.parse().unwrap(), id.to_owned());
            self.dead.extend(copy);
        }
        self.moved = sent.len();
        if let (Ok(returned), false) = (returned, is_lost) {
            let (front, rest) = self.queue.split_at(count);
            let front = front.iter().filter(|copy| returned.contains(&copy.id));
            self.queue = front.chain(rest).cloned().collect();
        }
        // The visibility timeout, after which no lease lasts.
        self.pass(60);
    }

    fn pass(&mut self, seconds: u32) {
        self.now += seconds;
        self.bench.clock.advance(seconds * SECOND);
    }

    fn block(&self) -> Option<Block> {
        let item = self.bench.store.get(&item_id(FIFO, "g"))?;
        Block::from_item(&item)
    }

    fn is_blocked(&self) -> bool {
        self.block().is_some_and(|block| block.stands())
    }

    /// Sends the first dead letters back. If the operator's program dies before it deletes them, they also stay.
    fn redrive(&mut self, count: usize, dies: bool) {
        let letters: Vec<_> = self.dead.iter().take(count).cloned().collect();
        for letter in &letters {
            let place = Place::from_deduplication_id(&letter.deduplication_id).unwrap();
            let copy = self.copy(letter.order, place.deduplication_id(&letter.id));
            self.queue.extend(copy);
        }
        if !dies {
            self.dead.drain(..letters.len());
        }
    }

    /// Lets everything succeed until both queues are empty, and checks that each order ran once, in its place.
    async fn settle(&mut self) {
        self.mend();
        for _ in 0..40 {
            while !self.queue.is_empty() {
                self.deliver(false).await;
            }
            if self.dead.is_empty() {
                break;
            }
            self.pass(DEDUPLICATED);
            self.redrive(usize::MAX, false);
        }
        let state = (&self.queue, &self.dead, self.block());
        assert!(self.queue.is_empty() && self.dead.is_empty(), "{state:?}");
        assert!(!self.is_blocked(), "{state:?}");
        let mut done = self.done.all();
        // A handler may run again if its completion was not written, but not after a later one.
        done.dedup();
        let expected: Vec<_> = (0..self.orders).map(|order| order.to_string()).collect();
        assert_eq!(done, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn what_follows_a_dead_letter_goes_behind_it_untried_and_comes_back_in_order() {
    let mut world = World::new();
    world.breaks(1);
    world.send(4);
    world.deliver(false).await;
    assert_eq!(world.done.take(), ["0"]);
    // The last delivery that counts.
    world.deliver(false).await;
    world.send(2);
    world.deliver(false).await;
    assert!(world.queue.is_empty());
    let lines = world.bench.lines();
    let behind = "terminal: behind-dead-letter";
    assert_eq!(codes(&lines[lines.len() - 2..]), [behind; 2].join(", "));
    let reasons = world.sqs.reasons();
    assert_contains!(reasons[0], "no luck");
    assert_eq!(
        reasons[1..],
        ["behind a dead letter of its message group"; 4]
    );
    assert!(world.is_blocked());

    world.mend();
    world.redrive(3, false);
    world.deliver(false).await;
    assert_eq!(world.done.take(), ["1", "2", "3"]);
    assert!(world.is_blocked(), "two are still behind");
    world.redrive(2, false);
    world.deliver(false).await;
    assert_eq!(world.done.take(), ["4", "5"]);
    assert!(!world.is_blocked());
    world.send(1);
    world.deliver(false).await;
    assert_eq!(world.done.take(), ["6"]);
}

#[tokio::test(start_paused = true)]
async fn one_that_comes_back_and_fails_is_the_new_head_also_before_those_still_in_the_dead_letter_queue()
 {
    let mut world = World::new();
    world.breaks(0);
    world.send(4);
    world.deliver(false).await;
    world.deliver(false).await;
    world.mend();
    world.breaks(1);
    // 2 and 3 stay in front of the new head.
    world.redrive(2, false);
    world.deliver(false).await;
    world.deliver(false).await;
    assert_eq!(world.done.all(), ["0"]);
    world.settle().await;
}

#[tokio::test(start_paused = true)]
async fn a_message_whose_deliveries_reached_no_code_moves_untried_and_blocks() {
    let mut world = World::new();
    world.send(2);
    world.queue[0].receives = DELIVERIES;
    world.deliver(false).await;
    assert_eq!(world.done.len(), 0);
    let expected = "terminal: deliveries-used-up, terminal: behind-dead-letter";
    assert_eq!(codes(&world.bench.lines()), expected);
    world.settle().await;
}

#[tokio::test(start_paused = true)]
async fn a_message_that_is_done_is_a_duplicate_however_often_it_was_delivered() {
    let mut world = World::new();
    world.send(2);
    for _ in 0..=DELIVERIES {
        world.deliver(true).await;
    }
    world.deliver(false).await;
    assert_eq!(world.done.take(), ["0", "1"]);
    assert!(world.queue.is_empty() && world.dead.is_empty());
}

#[tokio::test]
async fn each_message_of_a_blocked_group_has_its_own_route() {
    let (done, notes) = Notes::pair();
    let sqs = Sqs::delivering(DELIVERIES + 100);
    let queue = sqs.queue().dead_letter_queue(format!("{DLQ}.fifo"));
    let queue = queue.keep_order(NonZeroU32::MIN);
    let consumer = Consumer::new(router::charges_and_refunds(&notes)).queue(queue);
    let consumer = consumer.store(MemoryStore::new()).concurrency(1);
    let deliver = async |records: Vec<Value>| {
        let event = Event::from_json(json!({ "Records": records }).to_string());
        invoke(&consumer, &event, Context::default()).await
    };
    let message = |kind: &str, group: &str, id: &str| {
        let record = grouped(group, id);
        with_attribute(with(record, json!({ "messageId": id })), "type", kind)
    };
    // A refund without an amount.
    deliver([message("refund", "g", "r-1")].to_vec()).await;
    let moved = sqs.asked("SendMessage")[0]["MessageDeduplicationId"].clone();
    let place = Place::from_deduplication_id(moved.as_str().unwrap()).unwrap();
    let mut back = message("refund", "g", "r-1");
    let id = place.deduplication_id("copy");
    back["attributes"]["MessageDeduplicationId"] = id.into();
    // The block is known when the last group begins.
    let names: Vec<_> = (0..300).map(|at| format!("o-{at}")).collect();
    let others: Vec<_> = names
        .iter()
        .map(|name| message("charge", name, name))
        .collect();
    let last = [message("charge", "g", "c-1"), back];
    deliver([&others[..], &last[..]].concat()).await;
    let charged: Vec<_> = names.iter().map(|id| format!("charge {id}")).collect();
    assert_eq!(done.take(), charged);
}

#[tokio::test(start_paused = true)]
async fn without_an_answer_about_its_block_a_group_returns_untried_and_unclaimed() {
    let mut world = World::new();
    world.send(2);
    world
        .bench
        .store
        .fail("read", StoreErrorKind::Unanswered, 1);
    world.deliver(false).await;
    assert_eq!(world.done.len(), 0);
    let expected = "failed: order-unknown, failed: earlier-message";
    assert_eq!(codes(&world.bench.lines()), expected);
    assert!(world.bench.store.is_released("0"));
    world.settle().await;
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_sqs_could_empty_in_silence_is_refused() {
    let mut world = World::with(Sqs::delivering(DELIVERIES + 99));
    world.send(1);
    world.deliver(false).await;
    assert_eq!(world.done.len(), 0);
    assert_contains!(world.bench.lines()[0]["reason"], "can't keep the order");
}

#[tokio::test(start_paused = true)]
async fn a_batch_of_a_group_that_is_not_blocked_costs_one_read_more_and_no_time() {
    let mut world = World::new();
    world.send(1);
    let began = Instant::now();
    world.deliver(false).await;
    let calls = world.bench.store.take_calls();
    let reads = calls.iter().filter(|(call, _)| *call == "read").count();
    assert_eq!(reads, 1, "{calls:?}");
    // The claim and its answer, and the completion.
    assert_eq!(began.elapsed(), 3 * REQUEST);
    assert_eq!(world.done.take(), ["0"]);
}

/// What may happen.
#[derive(Clone, Debug)]
enum Step {
    Send(usize),
    Deliver {
        is_lost: bool,
        /// When the process dies, in milliseconds.
        dies: Option<u64>,
    },
    /// The store does not carry out, or not answer, the next requests of this kind.
    Fail {
        call: &'static str,
        answers_are_lost: bool,
    },
    Redrive {
        count: usize,
        dies: bool,
    },
    Break(usize),
    Mend,
    Pass,
}

fn step() -> impl Strategy<Value = Step> {
    let call = prop_oneof![Just("claim"), Just("settle"), Just("read")];
    prop_oneof![
        2 => (1..4usize).prop_map(Step::Send),
        6 => (prop::bool::weighted(0.2), prop::option::weighted(0.3, 0..60u64))
            .prop_map(|(is_lost, dies)| Step::Deliver { is_lost, dies }),
        1 => (call, any::<bool>()).prop_map(|(call, answers_are_lost)| Step::Fail { call, answers_are_lost }),
        3 => (1..5usize, prop::bool::weighted(0.2))
            .prop_map(|(count, dies)| Step::Redrive { count, dies }),
        2 => (0..12usize).prop_map(Step::Break),
        1 => Just(Step::Mend),
        1 => Just(Step::Pass),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn each_order_of_a_group_runs_once_and_after_all_earlier_ones_whatever_happens(
        steps in prop::collection::vec(step(), 1..40),
    ) {
        in_simulated_time(async {
            let mut world = World::new();
            for step in steps {
                match step {
                    Step::Send(count) => world.send(count),
                    Step::Deliver { is_lost, dies } => {
                        let dies = dies.map_or(Duration::MAX, Duration::from_millis);
                        world.deliver_until(is_lost, dies).await;
                    }
                    Step::Fail { call, answers_are_lost: false } => {
                        world.bench.store.fail(call, StoreErrorKind::Unanswered, 2);
                    }
                    Step::Fail { call, .. } => world.bench.store.lose_answer(call, 2),
                    Step::Redrive { count, dies } => world.redrive(count, dies),
                    Step::Break(order) => world.breaks(order),
                    Step::Mend => world.mend(),
                    Step::Pass => world.pass(DEDUPLICATED),
                }
            }
            world.settle().await;
        });
    }
}

#[tokio::test(start_paused = true)]
async fn it_needs_a_fifo_dead_letter_queue_and_single_messages() {
    let queue = || Sqs::default().queue().keep_order(NonZeroU32::MIN);
    let handler = || orders().call(async |_: Order| {});
    for (queue, problem) in [
        (queue(), "has no dead-letter queue"),
        (queue().dead_letter_queue(DLQ), "is no FIFO queue"),
    ] {
        let bench = Bench::new();
        let consumer = bench.consumer(handler()).queue(queue);
        let refused = consumer.init().await.err().unwrap();
        assert_contains!(refused.to_string(), problem);
    }
}
