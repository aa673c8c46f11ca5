//! Whole outages in simulated time: a queue with visibility timeouts and a redrive policy, environments, and a service that
//! is down for a while.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::LocalBoxFuture;
use proptest::prelude::*;
use proptest::test_runner::{TestRunner, contextualize_config};
use serde::Serialize;
use serde_json::json;
use sqs_once::Consumer;
use sqs_once::consumer::Queue;
use sqs_once::store::{Item, Status, Timestamp};
use sqs_once::telemetry::Outcome;
use sqs_once::testing::{Answer, Bench, Event};
use sqs_once::unstable::breaker::item_id;

use super::{Hang, Service};
use crate::support::{DLQ, SECOND, in_simulated_time, named};

const HOUR: Duration = Duration::from_secs(3600);
/// The template's redrive policy.
const MAX_RECEIVE_COUNT: u32 = 5;
/// SQS's limit, less what the library assumes to have passed before the function got the message.
const LONGEST_DELAY: Duration = Duration::from_secs(12 * 3600 - 16 * 60);
/// From the shortest outage to the longest, in seconds.
const LENGTHS: [u64; 5] = [60, 600, 3600, 6 * 3600, 24 * 3600];
/// The time of an open breaker, and a second for the calls.
const LEASE: Duration = Duration::from_secs(31);
/// Lambda's longest timeout of a function.
const TIMEOUT: Duration = Duration::from_secs(15 * 60);

#[derive(Clone, Debug)]
struct Outage {
    lasts: Duration,
    environments: usize,
    /// For each message: when it is sent after the outage began, and how often it had been received before.
    messages: Vec<(Duration, u32)>,
    /// Whether each environment dies after its turn, so that the next one is new.
    dies: bool,
    /// The turns with a single message whose call takes this long, and is then answered as if the service were available.
    hangs: BTreeMap<usize, Duration>,
}

/// What a mutant of the library would do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mutant {
    None,
    /// Messages come back after a minute, whatever they have left.
    IgnoresTheBudget,
    /// Every environment is the probe.
    ElectsNobody,
    /// The time of the open breaker does not pass.
    NeverLapses,
    /// The store does not compare owners, so that an outdated probe closes the breaker.
    ComparesNoOwner,
}

#[derive(Debug, Default)]
struct Result {
    /// Messages that SQS moved, without a reason.
    buried: Vec<usize>,
    /// Messages that the library moved, with a reason.
    marked: Vec<usize>,
    /// When each other message was delivered for the last time.
    done: BTreeMap<usize, Duration>,
    /// The end of the outage. A probe that hangs prolongs it up to the end of its lease.
    ended: Duration,
    /// The turns and the calls while the service was down.
    turns: usize,
    calls: usize,
    /// Calls that hung, and succeeded after another environment had changed the breaker.
    outdated: usize,
    /// How many of them changed the breaker.
    overwritten: usize,
}

/// A turn whose call hangs.
struct Hanging {
    environment: usize,
    message: usize,
    since: Timestamp,
    until: Timestamp,
    /// The breaker when the call began.
    saw: Option<Item>,
    call: Hang,
    turn: Turn,
}

type Turn = LocalBoxFuture<'static, Answer>;

struct World<'a> {
    outage: &'a Outage,
    mutant: Mutant,
    service: Service,
    /// Has the store and the clock of all environments.
    first: Bench,
    began: Timestamp,
    environments: Vec<Rc<Bench>>,
    /// When each message is visible, and how often it was received.
    queue: BTreeMap<usize, (Timestamp, u32)>,
    hanging: Vec<Hanging>,
    turns: usize,
    result: Result,
}

impl<'a> World<'a> {
    fn new(outage: &'a Outage, mutant: Mutant) -> Self {
        let service = Service::down();
        let first = service.bench_with_dead_letters().timeout(TIMEOUT);
        let began = first.clock().now();
        let new = |_| Rc::new(first.beside(consumer(&service)));
        let visible = |(sent, received): &(Duration, u32)| (began + *sent, *received);
        Self {
            outage,
            mutant,
            began,
            environments: (0..outage.environments).map(new).collect(),
            queue: outage.messages.iter().map(visible).enumerate().collect(),
            service,
            first,
            hanging: Vec::new(),
            turns: 0,
            result: Result {
                ended: outage.lasts,
                ..Result::default()
            },
        }
    }

    fn now(&self) -> Timestamp {
        self.first.clock().now()
    }

    fn breaker(&self) -> Option<Item> {
        self.first.store().memory().get(&item_id("payments"))
    }

    fn put(&self, breaker: Item) {
        self.first.store().memory().put(breaker);
    }

    async fn run(mut self) -> Result {
        let lasts = self.outage.lasts;
        while let Some(next) = self.queue.values().map(|(visible, _)| *visible).min() {
            self.first.clock().advance(next.since(self.now()));
            let now = self.now();
            let elapsed = now.since(self.began);
            if elapsed > 40 * lasts + 200 * HOUR {
                break;
            }
            if elapsed >= lasts {
                self.recover();
            }
            match self.hanging.iter().position(|one| one.until <= now) {
                Some(at) => self.answer(at).await,
                None => self.turn().await,
            }
        }
        self.recover();
        self.result
    }

    fn recover(&mut self) {
        if self.service.is_down.swap(false, Ordering::SeqCst) {
            self.result.turns = self.turns;
            self.result.calls = self.service.calls();
        }
    }

    /// Delivers a batch to an environment.
    async fn turn(&mut self) {
        let (now, count) = (self.now(), self.environments.len());
        // One environment stays free for other turns.
        let hangs = self.outage.hangs.get(&self.turns);
        let hangs = hangs.filter(|_| self.hanging.len() + 1 < count);
        let due = self
            .queue
            .iter()
            .filter(|(_, (visible, _))| *visible <= now);
        let most = if hangs.is_some() { 1 } else { 10 };
        let due: Vec<usize> = due.map(|(message, _)| *message).take(most).collect();
        let (mut batch, mut records) = (Vec::new(), Vec::new());
        for message in due {
            let entry = self.queue.get_mut(&message).unwrap();
            entry.1 += 1;
            if entry.1 > MAX_RECEIVE_COUNT {
                self.queue.remove(&message);
                self.result.buried.push(message);
                continue;
            }
            records.push(named(message.to_string()).receive_count(entry.1));
            batch.push(message);
        }
        if batch.is_empty() {
            return;
        }
        let is_busy = |at: &usize| self.hanging.iter().any(|one| one.environment == *at);
        let environment = (self.turns..)
            .map(|turn| turn % count)
            .find(|at| !is_busy(at));
        let environment = environment.unwrap();
        self.turns += 1;
        if self.outage.dies {
            let new = self.first.beside(consumer(&self.service));
            new.init().await;
            self.environments[environment] = Rc::new(new);
        }
        if self.mutant == Mutant::ElectsNobody {
            self.first.store().memory().remove(&item_id("payments"));
        }
        let bench = Rc::clone(&self.environments[environment]);
        let mut turn: Turn = Box::pin(async move { bench.run(Event::new(records)).await });
        let call = Hang::default();
        self.service.hang(hangs.map(|_| call.clone()));
        tokio::select! {
            biased;
            answer = &mut turn => self.answered(&batch, now, &answer),
            () = call.begun.notified() => {
                let (message, since, until) = (batch[0], now, now + *hangs.unwrap());
                self.queue.get_mut(&message).unwrap().0 = until;
                let saw = self.breaker();
                if let Some(Item { status: Status::InProgress, lease_until, .. }) = saw {
                    let lapses = lease_until.unwrap().since(self.began);
                    self.result.ended = self.result.ended.max(lapses);
                }
                self.hanging.push(Hanging { environment, message, since, until, saw, call, turn });
            }
        }
    }

    async fn answer(&mut self, at: usize) {
        let hanging = self.hanging.swap_remove(at);
        let (mut found, is_outdated) = (self.breaker(), self.breaker() != hanging.saw);
        if self.mutant == Mutant::ComparesNoOwner
            && let (Some(found), Some(saw)) = (&mut found, &hanging.saw)
        {
            found.owner = saw.owner;
            self.put(found.clone());
        }
        hanging.call.answered.notify_one();
        let answer = hanging.turn.await;
        if is_outdated {
            self.result.outdated += 1;
            self.result.overwritten += usize::from(self.breaker() != found);
        }
        self.answered(&[hanging.message], hanging.since, &answer);
    }

    /// Hides, moves or deletes the messages of a batch that was delivered at this time.
    fn answered(&mut self, batch: &[usize], at: Timestamp, answer: &Answer) {
        if self.mutant == Mutant::NeverLapses
            && let Some(mut item) = self.breaker()
            && item.status == Status::InProgress
        {
            item.lease_until = Some(Timestamp::from_millis(u64::MAX));
            self.put(item);
        }
        let now = self.now();
        for message in batch {
            let id = message.to_string();
            if answer.retried().contains(&id) {
                let delay = match self.mutant {
                    Mutant::IgnoresTheBudget => 60 * SECOND,
                    _ => answer.delay(&id).unwrap_or(180 * SECOND),
                };
                assert!(delay <= LONGEST_DELAY, "SQS refuses {delay:?}");
                self.queue.get_mut(message).unwrap().0 = now + delay;
                continue;
            }
            self.queue.remove(message);
            match answer.outcome(&id) {
                Outcome::Terminal => self.result.marked.push(*message),
                _ => {
                    let done = at.since(self.began);
                    self.result.done.insert(*message, done);
                }
            }
        }
    }
}

pub(super) fn consumer(service: &Service) -> Consumer {
    service
        .consumer()
        .queue(Queue::any().dead_letter_queue(DLQ))
}

/// Short and long outages, and messages before and after their end.
fn outages() -> impl Strategy<Value = Outage> {
    let lasts = (1..LENGTHS.len()).prop_flat_map(|at| LENGTHS[at - 1]..=LENGTHS[at]);
    // Each time is a share of the outage.
    let messages = prop::collection::vec((0.0..1.25, 0..MAX_RECEIVE_COUNT), 1..40);
    let hangs = prop::collection::btree_map(0..40usize, 20..14u64 * 60, 0..4);
    let all = (lasts, 1..6usize, messages, any::<bool>(), hangs);
    all.prop_map(|(lasts, environments, messages, dies, hangs)| {
        let lasts = Duration::from_secs(lasts);
        let sent = |(share, received)| (lasts.mul_f64(share), received);
        let hanging = |(turn, secs)| (turn, Duration::from_secs(secs));
        Outage {
            lasts,
            environments,
            messages: messages.into_iter().map(sent).collect(),
            dies,
            hangs: hangs.into_iter().map(hanging).collect(),
        }
    })
}

fn simulate(outage: &Outage, mutant: Mutant) -> Result {
    in_simulated_time(World::new(outage, mutant).run())
}

/// The deliveries that a message has left after its first one in the outage.
fn left(received: u32) -> u32 {
    MAX_RECEIVE_COUNT - received - 1
}

/// Whether the deliveries of a message outlast the outage.
fn survives(received: u32, result: &Result) -> bool {
    match left(received) {
        // Two waits are a little less than a day.
        2 => result.ended < 23 * HOUR,
        left => left > 2 && result.ended <= 24 * HOUR,
    }
}

/// What an outage of up to a day must not do.
fn check(outage: &Outage, result: &Result) -> std::result::Result<(), String> {
    for (message, (sent, received)) in outage.messages.iter().enumerate() {
        if result.buried.contains(&message) {
            return Err(format!("SQS moved {message} without a reason"));
        }
        let is_marked = result.marked.contains(&message);
        if is_marked && survives(*received, result) {
            return Err(format!("{message} had {} deliveries left", left(*received)));
        }
        if is_marked && *sent > result.ended + LEASE {
            return Err(format!("{message} came after the outage"));
        }
        if !is_marked && !result.done.contains_key(&message) {
            return Err(format!("{message} never ended"));
        }
    }
    if result.overwritten > 0 {
        return Err("an outdated probe changed the breaker".to_owned());
    }
    // The first failures of each environment, and a probe every 30 s. A success closes the breaker.
    let openings = outage.environments * 10 * (1 + outage.hangs.len());
    let probes = outage.lasts.as_secs() as usize / 30 + 1;
    // Environments that die before their third failure open no breaker.
    let early_deaths = if outage.dies { 2 * result.turns } else { 0 };
    if result.calls > openings + probes + early_deaths {
        return Err(format!("{} calls while the service was down", result.calls));
    }
    // The worst case is a message that comes half an hour into an outage for the third time: it must wait for half a day.
    let longest = LONGEST_DELAY.min(24 * (result.ended + LEASE)) + LEASE;
    for (message, delay) in delays(outage, result) {
        if delay > longest {
            return Err(format!("{message} came {delay:?} after the outage"));
        }
    }
    Ok(())
}

/// The delays of the messages that are first delivered during the outage, from its end to their last delivery.
fn delays(outage: &Outage, result: &Result) -> impl Iterator<Item = (usize, Duration)> {
    let messages = outage.messages.iter().enumerate();
    messages.filter_map(|(message, (sent, received))| {
        let done = result.done.get(&message).filter(|_| *received == 0)?;
        Some((message, done.saturating_sub(result.ended.max(*sent))))
    })
}

/// What came of the outages of one length. `.ci/long outages` publishes the figures.
#[derive(Default, Serialize)]
struct Figures {
    outages: usize,
    messages: usize,
    /// Those whose deliveries outlast the outage, and how many of these ended in the dead-letter queue.
    surviving: usize,
    lost: usize,
    /// The others in the dead-letter queue: with a reason, and without.
    marked: usize,
    buried: usize,
    calls: usize,
    outdated: usize,
    overwritten: usize,
    longest_delay: u64,
}

impl Figures {
    fn add(&mut self, outage: &Outage, result: &Result) {
        let survives = |message: &usize| survives(outage.messages[*message].1, result);
        let lost = result.marked.iter().filter(|it| survives(it)).count();
        let delays = delays(outage, result).map(|(_, delay)| delay.as_secs());
        self.outages += 1;
        self.messages += outage.messages.len();
        self.surviving += (0..outage.messages.len()).filter(survives).count();
        self.lost += lost;
        self.marked += result.marked.len() - lost;
        self.buried += result.buried.len();
        self.calls += result.calls;
        self.outdated += result.outdated;
        self.overwritten += result.overwritten;
        self.longest_delay = delays.fold(self.longest_delay, u64::max);
    }
}

#[test]
#[expect(clippy::print_stdout, reason = "`.ci/long outages` reads the figures")]
fn an_outage_of_a_day_buries_no_message_with_three_deliveries_left() {
    // By the longest outage.
    let figures = RefCell::new(BTreeMap::<u64, Figures>::new());
    let config = contextualize_config(ProptestConfig {
        cases: 64,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let outcome = TestRunner::new(config).run(&outages(), |outage| {
        let result = simulate(&outage, Mutant::None);
        prop_assert_eq!(check(&outage, &result), Ok(()), "{:?}", result);
        let lasts = outage.lasts.as_secs();
        let length = LENGTHS.into_iter().find(|length| lasts <= *length);
        let mut figures = figures.borrow_mut();
        let of_length = figures.entry(length.unwrap()).or_default();
        of_length.add(&outage, &result);
        Ok(())
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
    println!("\n{}", json!(figures));
}

#[test]
fn a_library_without_one_of_its_guards_is_noticed() {
    let outage = Outage {
        lasts: 2 * HOUR,
        environments: 4,
        messages: (0..300).map(|at| (at * 30 * SECOND, 0)).collect(),
        dies: false,
        hangs: BTreeMap::new(),
    };
    let hangs = (10..100).step_by(10).map(|turn| (turn, 300 * SECOND));
    let slow = Outage {
        hangs: hangs.collect(),
        ..outage.clone()
    };
    for outage in [&outage, &slow] {
        check(outage, &simulate(outage, Mutant::None)).unwrap();
    }
    for (outage, mutant) in [
        (&outage, Mutant::IgnoresTheBudget),
        (&outage, Mutant::ElectsNobody),
        (&outage, Mutant::NeverLapses),
        (&slow, Mutant::ComparesNoOwner),
    ] {
        let result = simulate(outage, mutant);
        assert!(check(outage, &result).is_err(), "{mutant:?}: {result:?}");
    }
}
