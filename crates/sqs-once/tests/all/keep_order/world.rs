//! A FIFO queue, its consumer, and its dead-letter queue.

use std::collections::{BTreeSet, HashMap};
use std::num::NonZeroU32;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use sqs_once::Consumer;
use sqs_once::store::{Owner, Seen as SeenItem};
use sqs_once::unstable::block::{Block, Place, item_id};
use tokio::time::timeout;

use super::shape::{Fate, Shape};
use crate::support::sqs::Sqs;
use crate::support::{
    Bench, DLQ, FIFO, Mode, Order, SECOND, Seen, body, deliver_until, grouped, in_group,
    in_simulated_time, with, with_attribute,
};

/// How often a message is tried.
pub(super) const DELIVERIES: u32 = 2;
/// How long a request takes. A claim is answered as much later.
pub(super) const REQUEST: Duration = Duration::from_millis(3);
/// How long SQS drops messages with a deduplication id that it knows.
pub(super) const DEDUPLICATED: u32 = 300;

pub(super) struct World {
    pub(super) bench: Bench,
    pub(super) sqs: Sqs,
    pub(super) done: Seen,
    pub(super) queue: Vec<Copy>,
    pub(super) dead: Vec<Copy>,
    shape: Shape,
    consumer: Consumer,
    /// Other environments, which the host has frozen with their batches.
    frozen: Vec<Frozen>,
    has_frozen: bool,
    /// How many message groups the orders are in, by turns.
    groups: usize,
    fate: Fate,
    /// Orders that are no JSON.
    garbage: BTreeSet<usize>,
    /// Orders of which the operator has dropped a message.
    dropped: BTreeSet<usize>,
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
pub(super) struct Copy {
    id: String,
    deduplication_id: String,
    order: usize,
    pub(super) receives: u32,
}

impl World {
    pub(super) fn new() -> Self {
        let sqs = Sqs::delivering(DELIVERIES + 100);
        Self::of(Shape::Handler(Mode::ClaimFirst), 1, sqs)
    }

    pub(super) fn of(shape: Shape, groups: usize, sqs: Sqs) -> Self {
        let bench = Bench::new();
        bench.store.claims_take(|_| REQUEST);
        bench.store.claims_answered(|_| Ok(REQUEST));
        bench.store.settlements_take(|_| REQUEST);
        bench.store.reads_take(|_| REQUEST);
        let fate = Fate::default();
        Self {
            consumer: environment(&bench, &sqs, shape, &fate),
            bench,
            sqs,
            done: fate.done.clone(),
            frozen: Vec::new(),
            has_frozen: false,
            queue: Vec::new(),
            dead: Vec::new(),
            shape,
            groups,
            fate,
            garbage: BTreeSet::new(),
            dropped: BTreeSet::new(),
            moved: 0,
            orders: 0,
            copies: 0,
            used: HashMap::new(),
            now: 0,
        }
    }

    pub(super) fn breaks(&self, order: usize) {
        self.fate.broken.lock().unwrap().insert(order);
    }

    pub(super) fn mend(&self) {
        self.fate.broken.lock().unwrap().clear();
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

    pub(super) fn send(&mut self, count: usize) {
        for _ in 0..count {
            let copy = self.copy(self.orders, format!("order-{}", self.orders));
            self.queue.extend(copy);
            self.orders += 1;
        }
    }

    pub(super) fn send_garbage(&mut self) {
        self.garbage.insert(self.orders);
        self.send(1);
    }

    /// Lets the producer send an order once more.
    pub(super) fn send_again(&mut self, order: usize) {
        if order < self.orders {
            let copy = self.copy(order, format!("again-{}", self.copies));
            self.queue.extend(copy);
        }
    }

    pub(super) async fn deliver(&mut self, is_lost: bool) {
        self.deliver_until(is_lost, Duration::MAX).await;
    }

    fn group(&self, order: usize) -> String {
        format!("g{}", order % self.groups)
    }

    fn record(&self, copy: &Copy) -> Value {
        let group = self.group(copy.order);
        let record = match self.garbage.contains(&copy.order) {
            true => in_group(&group, body(&format!("{{{}", copy.order))),
            false => grouped(&group, &copy.order.to_string()),
        };
        let record = with_attribute(record, "type", self.shape.route(copy.order));
        let mut record = with(record, json!({ "messageId": copy.id }));
        record["attributes"]["ApproximateReceiveCount"] = copy.receives.to_string().into();
        record["attributes"]["MessageDeduplicationId"] = copy.deduplication_id.clone().into();
        record
    }

    /// Receives the front of the queue. Returns the records, and how many they are.
    fn receive(&mut self) -> (usize, Vec<Value>) {
        let count = self.queue.len().min(10);
        for copy in &mut self.queue[..count] {
            copy.receives += 1;
        }
        let front = self.queue[..count].iter();
        (count, front.map(|copy| self.record(copy)).collect())
    }

    /// Delivers the front of the queue. All of it returns if the answer is lost, or the process dies before.
    pub(super) async fn deliver_until(&mut self, is_lost: bool, dies: Duration) {
        let (count, records) = self.receive();
        let returned = timeout(dies, self.bench.deliver(&self.consumer, records)).await;
        self.take_letters();
        if let (Ok(returned), false) = (returned, is_lost) {
            let (front, rest) = self.queue.split_at(count);
            let front = front.iter().filter(|copy| returned.contains(&copy.id));
            self.queue = front.chain(rest).cloned().collect();
        }
        // The visibility timeout, after which no lease lasts.
        self.pass(60);
    }

    /// Delivers the front of the queue to another environment, which is frozen after a while. All of it returns.
    pub(super) fn freeze(&mut self, after: Duration) {
        let (_, records) = self.receive();
        let consumer = environment(&self.bench, &self.sqs, self.shape, &self.fate);
        let deadline = self.bench.deadline().as_millis();
        self.frozen.push(Frozen::new(consumer, deadline, records));
        self.has_frozen = true;
        self.thaw(self.frozen.len() - 1, after);
        self.pass(60);
    }

    /// Lets a frozen environment go on for a while. Nobody hears its answer.
    pub(super) fn thaw(&mut self, at: usize, lasts: Duration) {
        if at < self.frozen.len() && self.frozen[at].ends_within(lasts) {
            self.frozen.remove(at);
        }
        self.take_letters();
    }

    pub(super) fn kill_frozen(&mut self) {
        self.frozen.clear();
    }

    /// Takes the new messages of the dead-letter queue.
    fn take_letters(&mut self) {
        let sent = self.sqs.sent();
        for letter in &sent[self.moved..] {
            let body = letter["MessageBody"].as_str().unwrap();
            let order = body.strip_prefix('{').filter(|rest| !rest.ends_with('}'));
            let order = match order {
                Some(garbage) => garbage.to_owned(),
                None => serde_json::from_str::<Order>(body).unwrap().id,
            };
            let id = letter["MessageDeduplicationId"].as_str().unwrap();
            let copy = self.copy(order.parse().unwrap(), id.to_owned());
            self.dead.extend(copy);
        }
        self.moved = sent.len();
    }

    pub(super) fn pass(&mut self, seconds: u32) {
        self.now += seconds;
        self.bench.clock.advance(seconds * SECOND);
    }

    fn block(&self, group: &str) -> Option<Block> {
        let item = self.bench.store.get(&item_id(FIFO, group))?;
        Block::from_item(&item)
    }

    pub(super) fn is_blocked(&self) -> bool {
        let mut groups = (0..self.groups).filter_map(|at| self.block(&self.group(at)));
        groups.any(|block| block.stands())
    }

    /// Sends the chosen ones of the first dead letters back. If the operator's program dies before it deletes them, they also
    /// stay.
    pub(super) fn redrive(&mut self, chosen: impl Fn(usize) -> bool, dies: bool) {
        let letters = std::mem::take(&mut self.dead).into_iter().enumerate();
        let (back, stay): (Vec<_>, Vec<_>) = letters.partition(|(at, _)| chosen(*at));
        let back = back.into_iter().map(|(_, letter)| letter);
        self.dead = stay.into_iter().map(|(_, letter)| letter).collect();
        for letter in back {
            let place = Place::from_deduplication_id(&letter.deduplication_id).unwrap();
            let copy = self.copy(letter.order, place.deduplication_id(&letter.id));
            self.queue.extend(copy);
            if dies {
                self.dead.push(letter);
            }
        }
    }

    /// Deletes a dead letter, as `cargo sqs-once dlq drop` does.
    pub(super) fn drop_letter(&mut self, at: usize) {
        if self.dead.is_empty() {
            return;
        }
        let letter = self.dead.remove(at % self.dead.len());
        self.dropped.insert(letter.order);
        let place = Place::from_deduplication_id(&letter.deduplication_id).unwrap();
        let store = &self.bench.store;
        let seen = store
            .get(&item_id(FIFO, &self.group(letter.order)))
            .unwrap();
        let block = Block::from_item(&seen).filter(|block| block.number == place.block);
        if let Some(block) = block.and_then(|block| block.after_end(place.place)) {
            let now = self.bench.clock.now();
            let claim = block.claim(Owner::from_bits(1), now, SeenItem::Item(seen.fence));
            store.inner.put(claim.write(Some(&seen)));
        }
    }

    /// Lets everything succeed until both queues are empty, and checks that each order ran once, in its place.
    pub(super) async fn settle(&mut self) {
        while !self.frozen.is_empty() {
            self.thaw(0, Duration::MAX);
        }
        self.mend();
        for _ in 0..40 {
            for _ in 0..200 {
                if self.queue.is_empty() {
                    break;
                }
                self.deliver(false).await;
            }
            let dead = self.dead.iter().map(|letter| letter.order);
            let useless = dead.enumerate().filter(|(_, it)| self.garbage.contains(it));
            let useless: Vec<_> = useless.map(|(at, _)| at).collect();
            for at in useless.into_iter().rev() {
                self.drop_letter(at);
            }
            if self.dead.is_empty() {
                break;
            }
            self.pass(DEDUPLICATED);
            self.redrive(|_| true, false);
        }
        let state = (&self.queue, &self.dead);
        assert!(self.queue.is_empty() && self.dead.is_empty(), "{state:?}");
        assert!(!self.is_blocked());
        let done = match self.shape {
            Shape::Writes => self.bench.store.written(),
            _ => self.done.all(),
        };
        for group in 0..self.groups {
            self.check(group, &done);
        }
    }

    fn check(&self, group: usize, done: &[String]) {
        let done = done.iter().map(|order| order.parse().unwrap());
        let is_kept = |order: &usize| {
            let is_its = order % self.groups == group;
            is_its && !self.dropped.contains(order) && !self.shape.ignores(*order)
        };
        let mut done: Vec<usize> = done.filter(is_kept).collect();
        match self.shape {
            // The effects commit once.
            Shape::Writes => {}
            // A handler may run again if its completion was not written, but not after a later one. Only a frozen
            // environment may not know yet that another one has completed its message.
            _ if self.has_frozen => {
                let mut known = BTreeSet::new();
                done.retain(|order| known.insert(*order));
            }
            _ => done.dedup(),
        }
        let expected: Vec<_> = (0..self.orders).filter(is_kept).collect();
        assert_eq!(done, expected);
    }
}

fn environment(bench: &Bench, sqs: &Sqs, shape: Shape, fate: &Fate) -> Consumer {
    let queue = sqs.queue().dead_letter_queue(format!("{DLQ}.fifo"));
    let queue = queue.keep_order(NonZeroU32::new(DELIVERIES).unwrap());
    let consumer = shape.consumer(fate.clone()).queue(queue);
    let consumer = consumer.store(bench.store.clone());
    consumer.clock(bench.clock.clone())
}

/// An environment with a batch. All of it stands still, except in the time that it is given.
struct Frozen {
    time: Sender<Duration>,
    has_ended: Receiver<bool>,
}

impl Frozen {
    fn new(consumer: Consumer, deadline: u64, records: Vec<Value>) -> Self {
        let (time, given) = mpsc::channel();
        let (ends, has_ended) = mpsc::channel();
        thread::spawn(move || {
            in_simulated_time(async {
                let mut batch = Box::pin(deliver_until(deadline, &consumer, records));
                for lasts in given {
                    let has_ended = timeout(lasts, &mut batch).await.is_ok();
                    ends.send(has_ended).unwrap();
                    if has_ended {
                        break;
                    }
                }
            });
        });
        Self { time, has_ended }
    }

    fn ends_within(&self, lasts: Duration) -> bool {
        self.time.send(lasts).unwrap();
        self.has_ended.recv().unwrap()
    }
}
