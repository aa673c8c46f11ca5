//! One schedule, from its first message until every message has finished.

use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use sqs_once::key::ItemId;
use sqs_once_judge::Event;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};

use crate::chance::Chance;

use super::clock::ProcessClock;
use super::counts::Count;
use super::ids::{Ids, ROUTES};
use super::lambda::Warm;
use super::mutant::Mutant;
use super::network::Network;
use super::operator::forget;
use super::options::{Depth, Options};
use super::plan::Plan;
use super::process::Process;
use super::property::Property;
use super::queue::{Delivery, Message, Place, Queue};
use super::sdk::{self, Dynamo};
use super::store::{Backend, TableClient, Watched};
use super::table::Table;
use super::timeline::Timeline;
use super::witness::Witness;

/// The longest time until a delayed request arrives or a lease lapses.
const SETTLED: Duration = Duration::from_secs(150);
/// The longest time until the claim of a dead process expires.
const EXPIRED: Duration = Duration::from_secs(16 * 60);
/// The longest time that a schedule may need once the weather is fair: 240 messages of one group, each delivered eight times.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

pub(crate) struct World {
    pub(crate) plan: Plan,
    pub(crate) chance: Chance,
    pub(crate) network: Network,
    pub(crate) started: Instant,
    pub(crate) changed: Notify,
    queue: Mutex<Queue>,
    witness: Mutex<Witness>,
    backend: Box<Backend>,
    /// The table that an operator changes, at the `Store` trait.
    table: Arc<Table>,
    options: Options,
    is_fair: AtomicBool,
}

impl World {
    pub(crate) fn new(seed: u64, options: &Options, records: bool) -> Arc<Self> {
        let chance = Chance::from_seed(seed);
        let plan = Plan::draw(seed, &chance, options);
        let timeline = Timeline::new(records);
        timeline.note("plan", format_args!("{plan:?}"));
        let table = Arc::new(Table::new(plan.keys, options.mutant));
        Arc::new(Self {
            queue: Mutex::new(Queue::new(plan.is_fifo, plan.visibility, plan.max_receives)),
            network: Network::new(plan.weather, chance.clone(), timeline.clone()),
            started: Instant::now(),
            changed: Notify::new(),
            witness: Mutex::new(Witness::new(&plan, options, timeline)),
            backend: match options.depth {
                Depth::Trait => TableClient::backend(Arc::clone(&table)),
                Depth::Sdk => sdk::backend(Dynamo::new(plan.keys, options.mutant)),
            },
            table,
            options: *options,
            is_fair: AtomicBool::new(false),
            plan,
            chance,
        })
    }

    pub(crate) fn witness(&self) -> MutexGuard<'_, Witness> {
        self.witness.lock()
    }

    pub(crate) fn count(&self, count: Count) {
        self.count_many(count, 1);
    }

    fn count_many(&self, count: Count, times: u64) {
        self.witness().counts.add_many(count, times);
    }

    /// Adds a line to the timeline.
    pub(crate) fn note(&self, who: impl Display, what: impl Display) {
        self.network.timeline().note(who, what);
    }

    pub(crate) fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock()
    }

    pub(crate) fn mutant(&self) -> Option<Mutant> {
        self.options.mutant
    }

    pub(crate) fn is_old(&self, process: usize) -> bool {
        self.options.versions.is_old(process, self.plan.processes)
    }

    /// The ids that the process with this number uses, and those that it also reads.
    pub(crate) fn ids(&self, process: usize) -> [Ids; 2] {
        let [even, odd] = self.plan.ids;
        match process.is_multiple_of(2) {
            true => [even, odd],
            false => [odd, even],
        }
    }

    /// The store id of a key, where all processes use the same.
    pub(crate) fn id_of(&self, key: usize) -> &'static ItemId {
        self.plan.ids[0].id_of(key)
    }

    pub(crate) fn store(self: &Arc<Self>, process: &Process) -> Watched {
        Watched {
            store: (self.backend)(self, process),
            world: Arc::clone(self),
            process: process.clone(),
            read_first: Mutex::default(),
        }
    }

    pub(crate) fn is_hostile(&self) -> bool {
        self.options.is_hostile
    }

    /// Whether anything other than requests may fail.
    pub(crate) fn is_troubled(&self) -> bool {
        self.plan.is_troubled && !self.is_fair.load(Ordering::Relaxed)
    }

    pub(crate) fn crash(&self, process: &Process) {
        self.count(Count::Crashes);
        self.note(process, "crashes");
        process.die();
    }

    /// Waits until the process crashes during an invocation. Usually never returns.
    pub(crate) async fn crashes(&self, ends_at: Instant) {
        if !self.is_troubled() || !self.chance.once_in(20) {
            std::future::pending().await
        }
        let left = ends_at.saturating_duration_since(Instant::now());
        let within = u64::try_from(left.as_millis()).unwrap_or(0).max(1);
        sleep(self.chance.millis(0..within)).await;
    }

    pub(crate) fn freeze(&self, process: &Process) {
        self.count(Count::Freezes);
        let time = self.chance.millis(100..30_000);
        self.note(process, format_args!("freezes for {time:?}"));
        process.freeze(Instant::now() + time);
    }

    /// A process thaws after a random time.
    pub(crate) fn frozen_for(&self) -> Duration {
        self.chance.millis(100..60_000)
    }

    /// A clock error, in milliseconds. In fair weather it is zero if errors may exceed what leases allow for.
    pub(crate) fn ahead(&self) -> i64 {
        match self.is_hostile() && self.is_fair.load(Ordering::Relaxed) {
            true => 0,
            false => self.plan.ahead(&self.chance),
        }
    }

    pub(crate) fn set_clock(&self, process: &Process, clock: &ProcessClock) {
        let ahead = self.ahead();
        if ahead != clock.ahead() {
            self.count(Count::ClockJumps);
            self.note(process, format_args!("its clock is now {ahead} ms ahead"));
            clock.set(ahead);
            process.troubled();
        }
    }

    /// SQS receives an answer, and deletes the messages that it does not name.
    pub(crate) fn take_back(&self, batch: &[Delivery], failures: &[usize]) {
        let now = Instant::now();
        for delivery in batch {
            let (message, receipt) = (delivery.message, delivery.receipt);
            if failures.contains(&message) {
                let is_fair = self.is_fair.load(Ordering::Relaxed);
                if self.plan.returns_at_once && !is_fair {
                    self.queue().change_visibility(message, receipt, now);
                }
                continue;
            }
            self.witness().judge(Event::Acknowledged(message));
            if self.is_troubled() && self.chance.once_in(30) {
                self.count(Count::DeletesLost);
                self.note("sqs", format_args!("the deletion of m{message} is lost"));
                continue;
            }
            if self.queue().delete(*delivery, now) {
                self.count(Count::Deleted);
                self.witness().judge(Event::Left(message));
                self.note("sqs", format_args!("m{message} is deleted"));
            }
        }
    }

    /// Checks the order of the group after a message's effect.
    pub(crate) fn judge_order(&self, message: Option<usize>) {
        if let Some(message) = message {
            self.witness().judge(Event::EffectOf(message));
        }
    }

    /// The messages from this number on have been sent.
    pub(crate) fn sent(&self, from: usize) {
        let queue = self.queue();
        for one in &queue.messages[from..] {
            let group = self.plan.is_fifo.then_some(one.group);
            let (key, payload) = (one.key, one.payload);
            self.witness().judge(Event::Sent {
                key,
                payload,
                group,
            });
        }
    }

    pub(crate) async fn run(self: &Arc<Self>) {
        for one in &self.plan.messages {
            let group = one.key % self.plan.groups;
            let at = self.started + one.sent_after;
            let what = (one.key, one.payload);
            self.queue().send(what, group, at, Place::Queue);
        }
        self.sent(0);
        let mut lambda = Lambda::new(self);
        while self.witness().violation.is_none() && !lambda.step().await {}
        // Wait until every request in flight has arrived.
        if self.witness().violation.is_none() {
            sleep(SETTLED).await;
        }
        let mut witness = self.witness();
        witness.judge_repeats();
        witness.counts.add(Count::Schedules);
        for (is_one, count) in [
            (self.plan.is_batched, Count::BatchedSchedules),
            (self.plan.is_postgres, Count::PostgresSchedules),
        ] {
            witness.counts.add_many(count, u64::from(is_one));
        }
        if self.plan.is_routed {
            witness.counts.add(Count::RoutedSchedules);
            let of_both = (0..self.plan.keys).step_by(ROUTES.len()).filter(|&first| {
                let mut both = first..(first + ROUTES.len()).min(self.plan.keys);
                both.len() == ROUTES.len() && both.all(|key| witness.has_happened(key))
            });
            let of_both = of_both.count() as u64;
            witness.counts.add_many(Count::KeysOfBothRoutes, of_both);
        }
        witness
            .counts
            .add_many(Count::Requests, self.network.requests());
        witness.counts.add_faults(&self.network.faults());
    }
}

/// The event source mapping and its execution environments.
struct Lambda<'a> {
    world: &'a Arc<World>,
    environments: Vec<Warm>,
    started: usize,
    /// Messages from this number on were sent in fair weather.
    fair_from: Option<usize>,
}

impl<'a> Lambda<'a> {
    fn new(world: &'a Arc<World>) -> Self {
        let environments = (0..world.plan.processes).map(|name| Warm::start(world, name));
        Self {
            world,
            environments: environments.collect(),
            started: world.plan.processes,
            fair_from: None,
        }
    }

    /// Advances to the next event. Returns true once every message has finished.
    async fn step(&mut self) -> bool {
        let world = self.world;
        let now = Instant::now();
        let clears_at = world.started + world.plan.clears_after;
        let is_fair = now >= clears_at;
        if is_fair && !world.is_fair.swap(true, Ordering::Relaxed) {
            world.network.clear_up();
            world.note("weather", "is fair from now on");
            if world.is_hostile() {
                self.environments.iter().for_each(Warm::set_clock);
            }
        }
        self.replace_dead();
        if !is_fair && world.plan.has_forgets && world.chance.once_in(12) {
            tokio::spawn(forget(Arc::clone(world), Arc::clone(&world.table)));
        }
        if world.plan.deletes_expired && world.chance.once_in(2) {
            world.table.delete_expired(world);
        }
        self.redrive(now);
        self.deliver(now);
        let is_idle = self.environments.iter().all(Warm::is_idle);
        if is_idle && !world.queue().has(Place::Queue) {
            if !world.queue().has(Place::DeadLetters) {
                return true;
            }
            // Claims of dead processes usually lapse before an operator redrives messages.
            if !is_fair && world.chance.once_in(2) {
                sleep_until(clears_at).await;
                return false;
            }
            // A claim that was never settled expires at the end of the last renewal that it could have had.
            let expired = world.plan.deletes_expired && world.chance.once_in(2);
            sleep(if expired { SETTLED + EXPIRED } else { SETTLED }).await;
            let sent = world.queue().messages.len();
            if is_fair {
                self.fair_from.get_or_insert(sent);
            }
            let drops = |dead: &Message| world.witness().is_other(dead.key, dead.payload);
            let redriven = world.queue().redrive_dead_letters(Instant::now(), drops);
            world.sent(sent);
            world.count_many(Count::Redriven, redriven as u64);
            world.note("sqs", format_args!("{redriven} messages are redriven"));
            return false;
        }
        if now > clears_at + LONGEST {
            let what = "a message is neither done nor a dead letter".to_owned();
            world.witness().violated(Property::AllEnds, what);
            return true;
        }
        let mut next = world.queue().next_visible().filter(|_| self.has_room());
        if let Some(at) = next.filter(|at| *at <= now) {
            // The message was visible but not received.
            next = Some(at.max(now) + world.chance.millis(1..1000));
        }
        if !is_fair {
            let soon = now + world.chance.millis(100..5000);
            next = Some(next.map_or(soon, |next| next.min(soon)).min(clears_at));
        }
        tokio::select! {
            biased;
            () = world.changed.notified() => {}
            () = sleep_until(next.unwrap_or(now + LONGEST)), if next.is_some() || self.has_room() => {}
        }
        false
    }

    fn has_room(&self) -> bool {
        self.environments.iter().any(Warm::is_free)
    }

    fn replace_dead(&mut self) {
        for warm in &mut self.environments {
            if warm.is_dead() && warm.is_idle() {
                *warm = Warm::start(self.world, self.started);
                self.started += 1;
            }
        }
    }

    fn redrive(&mut self, now: Instant) {
        let moved = self.world.queue().redrive(now);
        // Two versions with different ids may release one key at once, and do so again in each delivery. If records expire
        // soon, the next message with their key may find another one in progress in each delivery.
        let [even, odd] = self.world.plan.ids;
        let ends = even == odd && self.world.plan.retention.is_none();
        let fair_from = self.fair_from.filter(|_| ends);
        for message in moved {
            let what = format_args!("m{message} is moved to the DLQ");
            self.world.note("sqs", what);
            let mut witness = self.world.witness();
            witness.counts.add(Count::DeadLetters);
            witness.judge(Event::Left(message));
            let Message { key, payload, .. } = self.world.queue().messages[message];
            let is_other = witness.is_other(key, payload);
            if !is_other && fair_from.is_some_and(|from| message >= from) {
                let what = format!("m{message} became a dead letter in fair weather");
                witness.violated(Property::AllEnds, what);
            }
        }
    }

    fn deliver(&mut self, now: Instant) {
        let world = self.world;
        let free: Vec<_> = self
            .environments
            .iter()
            .filter(|one| one.is_free() && !one.is_dead())
            .collect();
        for warm in free {
            let most = 1 + world.chance.index(world.plan.batch);
            let trouble = world.is_troubled();
            let received = world.queue().receive(now, &world.chance, trouble, most);
            if received.is_empty() {
                continue;
            }
            let mut witness = world.witness();
            witness
                .counts
                .add_many(Count::Deliveries, received.len() as u64);
            let odd = received.iter().filter_map(|(_, odd)| *odd);
            odd.for_each(|count| witness.counts.add(count));
            for (delivery, _) in &received {
                if delivery.receives == world.plan.max_receives {
                    witness.judge(Event::LastDelivery(delivery.message));
                }
            }
            drop(witness);
            warm.invoke(received.into_iter().map(|(delivery, _)| delivery).collect());
        }
    }
}
