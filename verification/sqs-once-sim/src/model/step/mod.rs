//! The effect of each action. Workers behave as the consumer's batches do.

mod ages;
mod other_id;
mod store;

use super::action::Action;
use super::config::Config;
use super::decisions::{self, Ending, Verdict};
use super::fence::Run;
use super::request::{Ask, Request, Saw};
use super::state::{Delivery, End, Item, Message, Place, Role, Stage, Worker, World};
use crate::simulation::Mutant;
use crate::way::Way;

/// Returns the state after an action.
pub(super) fn after(config: &Config, world: &World, action: Action) -> World {
    let mut step = Step {
        config,
        world: world.clone(),
    };
    step.take(action);
    step.world.canonicalize();
    step.world
}

/// The request as the worker would send it now.
pub(super) fn ask_for(config: &Config, world: &World, delivery: Delivery, ask: Ask) -> Ask {
    let Some(index) = world.worker_at(delivery) else {
        return ask;
    };
    let worker = world.workers[index];
    let (now, lease) = (worker.role.skew, lease_of(config, &worker));
    match ask {
        Ask::Claim { seen, .. } => Ask::Claim { now, lease, seen },
        // The retry begins with the claim.
        Ask::ReadOther { run } | Ask::TakeOver { run, .. } | Ask::CarryOver { run, .. } => {
            let seen = match run.over {
                true => Saw::Stale,
                false => Saw::Nothing,
            };
            Ask::Claim { now, lease, seen }
        }
        Ask::Begin { .. } => Ask::Begin { now, lease },
        Ask::Read { .. } => Ask::Read { now },
        Ask::Settle(Ending::Renew(_)) => Ask::Settle(Ending::Renew(lease + 1)),
        // Retries of settlements are identical.
        settlement => settlement,
    }
}

/// When a worker's claims end: the deadline on the worker's own clock, plus the margin.
fn lease_of(config: &Config, worker: &Worker) -> i8 {
    worker.left + worker.role.skew + config.lease_margin()
}

struct Step<'a> {
    config: &'a Config,
    world: World,
}

impl Step<'_> {
    fn take(&mut self, action: Action) {
        match action {
            Action::Tick => self.tick(),
            Action::Deliver {
                message,
                count,
                role,
            } => self.deliver(message, count, role),
            Action::DeliverAgain { message, role } => {
                self.world.trouble.duplicates -= 1;
                self.deliver(message, 1, role);
            }
            Action::CarryOut(request) => {
                let sent = self.world.requests.iter().position(|one| *one == request);
                if let Some(sent) = sent {
                    self.world.requests.remove(sent);
                    self.carry_out(request);
                }
            }
            Action::RollBack(key) => self.roll_back(usize::from(key)),
            Action::Resend { delivery, fresh } => self.resend(delivery, fresh),
            Action::GiveUp(delivery) => {
                self.world.trouble.silences -= 1;
                let end = match self.config.has(Mutant::UnknownIsDone) {
                    true => End::Done,
                    false => End::Failed(0),
                };
                self.leave(delivery, end);
            }
            Action::Renew(delivery) => {
                self.world.trouble.renewals -= 1;
                self.stop_waiting(delivery);
                let renewal = Ask::Settle(Ending::Renew(0));
                let renewal = ask_for(self.config, &self.world, delivery, renewal);
                self.send(delivery, renewal, true);
            }
            Action::Forget(key) => self.forget(usize::from(key)),
            Action::Succeed(delivery) => self.succeed(delivery),
            Action::Fail(delivery) => {
                self.world.trouble.failures -= 1;
                self.stop_waiting(delivery);
                if self.config.flow.claims_before() {
                    self.send(delivery, Ask::Settle(Ending::Release), false);
                }
                self.end(delivery, End::Failed(0));
            }
            Action::Cancel(delivery) => {
                self.world.trouble.cancels -= 1;
                self.leave(delivery, End::Failed(0));
                fail_rest(self.worker_of(delivery), 0);
            }
            Action::Answer(delivery) => self.answer(delivery),
            Action::Crash(delivery) => self.crash(delivery),
        }
    }

    fn tick(&mut self) {
        let world = &mut self.world;
        for item in world.items.iter_mut().chain(&mut world.open).flatten() {
            item.lease = item.lease.map(|lease| lease - 1);
        }
        for request in &mut world.requests {
            request.ask.times().for_each(|time| *time -= 1);
        }
        if self.config.has_ages() {
            world.grow_older();
        }
        for worker in &mut world.workers {
            if worker.stage != Stage::Idle {
                world.trouble.overruns -= u8::from(worker.left == 0);
                worker.left -= 1;
            }
        }
        for number in 0..self.world.messages.len() {
            if let Place::Away(left) = self.world.messages[number].place {
                self.come_back(number, left - 1);
            }
        }
    }

    /// Makes a message visible again, keeps it hidden for `left` more ticks, or moves it to the dead-letter queue.
    fn come_back(&mut self, number: usize, left: u8) {
        let message = &mut self.world.messages[number];
        message.place = match left {
            0 if message.receives >= self.config.receives => Place::Dead,
            0 => Place::Visible,
            left => Place::Away(left),
        };
    }

    fn deliver(&mut self, message: u8, count: u8, role: Role) {
        let mut batch = [None; 2];
        for (entry, number) in batch.iter_mut().zip(message..message + count) {
            let message = &mut self.world.messages[usize::from(number)];
            message.receives += 1;
            if message.place != Place::Acknowledged {
                message.place = Place::Away(Config::VISIBILITY);
            }
            let delivery = Delivery {
                message: number,
                receive: message.receives,
            };
            *entry = Some((delivery, End::Open));
        }
        let idle = Worker::idle(role);
        let mut workers = self.world.workers.iter_mut();
        if let Some(worker) = workers.find(|worker| **worker == idle) {
            worker.batch = batch;
            worker.left = Config::INVOCATION;
            worker.stage = Stage::Asking;
        }
        if let Some((delivery, _)) = batch[0] {
            self.start(delivery);
        }
    }

    /// Starts the next record of a batch.
    fn start(&mut self, delivery: Delivery) {
        let flow = self.config.flow;
        self.worker_of(delivery).stage = match flow {
            Way::Writes => Stage::Running,
            _ => Stage::Asking,
        };
        if self.config.has(Mutant::OtherIdReadFirst) && self.also_reads(delivery) {
            let run = Run::default();
            return self.send(delivery, Ask::ReadOther { run }, true);
        }
        self.ask_first(delivery);
    }

    /// Sends the request that decides whether the record may run.
    fn ask_first(&mut self, delivery: Delivery) {
        let ask = match self.config.flow {
            Way::ClaimFirst | Way::ClaimedWrites => Ask::Claim {
                now: 0,
                lease: 0,
                seen: Saw::Nothing,
            },
            Way::RecordAfter => Ask::Read { now: 0 },
            Way::Transaction => Ask::Begin { now: 0, lease: 0 },
            Way::Writes => return,
        };
        let ask = ask_for(self.config, &self.world, delivery, ask);
        self.send(delivery, ask, true);
    }

    fn send(&mut self, owner: Delivery, ask: Ask, awaited: bool) {
        let own = self.item_of(owner);
        let request = Request {
            owner,
            item: match ask {
                Ask::ReadOther { .. } | Ask::TakeOver { .. } => 1 - own,
                _ => own,
            },
            ask,
            awaited,
        };
        self.world.requests.push(request);
    }

    fn resend(&mut self, delivery: Delivery, fresh: bool) {
        self.world.trouble.resends -= 1;
        let mut requests = self.world.requests.iter();
        let sent = requests.find(|one| one.awaited && one.owner == delivery);
        let Some(ask) = sent.map(|one| one.ask) else {
            return;
        };
        let again = match fresh {
            true => ask_for(self.config, &self.world, delivery, ask),
            false => ask,
        };
        self.stop_waiting(delivery);
        self.send(delivery, again, true);
    }

    /// The worker stops waiting for answers to this delivery's requests.
    fn stop_waiting(&mut self, owner: Delivery) {
        let requests = &mut self.world.requests;
        // A read that has no waiting sender changes nothing, so it can be dropped.
        let is_read = |ask| matches!(ask, Ask::Read { .. } | Ask::ReadOther { .. });
        requests.retain(|one| one.owner != owner || !is_read(one.ask));
        for request in requests.iter_mut().filter(|one| one.owner == owner) {
            request.awaited = false;
            request.ask.forget_run();
        }
    }

    /// Rolls a transaction back, together with its commit in flight.
    fn roll_back(&mut self, key: usize) {
        if let Some(open) = self.world.open[key].take() {
            let requests = &mut self.world.requests;
            requests.retain(|one| one.owner != open.owner || one.ask != Ask::CommitTransaction);
        }
    }

    fn forget(&mut self, item: usize) {
        self.world.trouble.forgets -= 1;
        let claims = |awaited| {
            let requests = self.world.requests.iter();
            let claims = requests
                .filter(|one| one.awaited == awaited && usize::from(one.item) == item)
                .filter_map(Request::claimant);
            claims.fold(0, |all, one| all | one.bit())
        };
        // A worker that still waits may claim the key once more.
        let (late, waiting) = (claims(false), claims(true));
        let standing = self.world.items[item];
        let account = &mut self.world.accounts[self.config.key_of_item(item)];
        account.spent = (account.spent | late) & !waiting;
        let owner = standing.map(|item| item.owner);
        let owner = owner.filter(|owner| owner.is_real());
        account.forgotten |= owner.map_or(0, Delivery::bit);
        let (written, is_raised) = decisions::forget(self.config, standing);
        self.world.items[item] = written;
        if is_raised {
            self.raise_fence(item);
        }
        if self.config.has_ages() {
            self.start_anew(item);
        }
    }

    fn succeed(&mut self, delivery: Delivery) {
        self.stop_waiting(delivery);
        let worker = self.worker_of(delivery);
        worker.stage = Stage::Settling;
        let (now, is_late) = (worker.role.skew, worker.left < 0);
        let key = self.config.key_of(delivery);
        if !self.config.flow.is_atomic() {
            // After the deadline, another worker may take the key at any time.
            self.world.accounts[key].windows += u8::from(is_late);
            self.effect(delivery);
        } else if self.config.has(Mutant::EffectApart) {
            self.effect(delivery);
        }
        let ask = match self.config.flow {
            Way::ClaimFirst => Ask::Settle(Ending::Complete),
            Way::RecordAfter => Ask::Settle(Ending::Record(now)),
            Way::Writes | Way::ClaimedWrites => Ask::Settle(Ending::Commit(now)),
            Way::Transaction => Ask::CommitTransaction,
        };
        self.send(delivery, ask, true);
    }

    fn effect(&mut self, delivery: Delivery) {
        let key = self.config.key_of(delivery);
        if self.config.fifo && self.world.accounts[key].effects == 0 {
            let before = self.world.messages.iter().zip(&self.config.keys);
            let mut before = before.take(usize::from(delivery.message));
            let accounts = &self.world.accounts;
            let is_skipped = |(message, key): (&Message, &u8)| {
                accounts[usize::from(*key)].effects == 0 && message.place != Place::Dead
            };
            self.world.seen.out_of_order |= before.any(is_skipped);
        }
        self.world.accounts[key].effects += 1;
    }

    /// Ends a record without the answer that it waited for.
    fn leave(&mut self, delivery: Delivery, end: End) {
        self.count_window(delivery);
        self.stop_waiting(delivery);
        self.end(delivery, end);
    }

    /// Counts a worker that stops between an effect and its record.
    fn count_window(&mut self, delivery: Delivery) {
        let key = self.config.key_of(delivery);
        let is_own = |item: Item| item.completed && item.owner == delivery;
        let item = usize::from(self.item_of(delivery));
        let is_recorded = self.world.items[item].is_some_and(is_own);
        let settles = self.worker_of(delivery).stage == Stage::Settling;
        let account = &mut self.world.accounts[key];
        let is_counted = is_recorded || account.has_forgotten(delivery);
        if settles && !is_counted && !self.config.flow.is_atomic() {
            account.windows += 1;
        }
    }

    /// Stores a record's result, then starts the next record of the batch if the group continues.
    fn end(&mut self, delivery: Delivery, end: End) {
        let group_goes_on = end == End::Done || self.config.has(Mutant::GroupGoesOn);
        let worker = self.worker_of(delivery);
        for (of, record_end) in worker.batch.iter_mut().flatten() {
            if *of == delivery {
                *record_end = end;
            }
        }
        if let (End::Failed(wait), false) = (end, group_goes_on) {
            fail_rest(worker, wait);
        }
        match worker.current() {
            Some(next) => self.start(next),
            None => worker.stage = Stage::Answering,
        }
    }

    fn answer(&mut self, first: Delivery) {
        let worker = self.worker_of(first);
        let batch = std::mem::replace(worker, Worker::idle(worker.role)).batch;
        for (delivery, end) in batch.into_iter().flatten() {
            let number = usize::from(delivery.message);
            let message = &mut self.world.messages[number];
            let is_latest = message.receives == delivery.receive;
            let is_away = matches!(message.place, Place::Away(_));
            match end {
                End::Done | End::Terminal if message.place == Place::Dead => {}
                End::Terminal if message.place != Place::Acknowledged => {
                    message.place = Place::Dead;
                }
                // A FIFO queue ignores deletions with an old receipt handle.
                End::Done if is_latest || !self.config.fifo => {
                    message.place = Place::Acknowledged;
                }
                End::Failed(wait) if is_latest && is_away => self.come_back(number, wait),
                _ => {}
            }
        }
    }

    fn crash(&mut self, first: Delivery) {
        self.world.trouble.crashes -= 1;
        if let Some(delivery) = self.worker_of(first).current() {
            self.count_window(delivery);
            self.stop_waiting(delivery);
        }
        let worker = self.worker_of(first);
        *worker = Worker::idle(worker.role);
    }

    fn answered(&mut self, delivery: Delivery, verdict: Verdict, was_recorded: bool) {
        let busy_is_done = self.config.has(Mutant::BusyIsDone);
        let has_ages = self.config.has_ages();
        let worker = self.worker_of(delivery);
        let skew = worker.role.skew;
        match verdict {
            Verdict::Run(run) => {
                if has_ages && worker.stage == Stage::Asking {
                    return self.run(delivery, run, was_recorded);
                }
                worker.stage = Stage::Running;
                self.world.seen.started_after_record |= was_recorded;
            }
            // The next request is already in flight.
            Verdict::Again => {}
            Verdict::Done => {
                // The record may belong to another worker that did the same work.
                self.count_window(delivery);
                self.end(delivery, End::Done);
            }
            Verdict::Busy(_) if busy_is_done => self.end(delivery, End::Done),
            // The message stays hidden until that lease ends, by this worker's clock.
            Verdict::Busy(lease) => {
                let left = lease.map_or(-1, |lease| lease - skew) + 1;
                self.end(delivery, End::Failed(u8::try_from(left).unwrap_or(0)));
            }
            Verdict::Failed => self.leave(delivery, End::Failed(0)),
        }
    }

    /// The item that the worker of this delivery claims.
    fn item_of(&mut self, delivery: Delivery) -> u8 {
        let key = self.config.keys[usize::from(delivery.message)];
        key + self.worker_of(delivery).role.version.own
    }

    fn also_reads(&mut self, delivery: Delivery) -> bool {
        self.worker_of(delivery).role.version.also_reads
    }

    /// Whether a key is recorded, under any id.
    fn is_recorded(&self, key: usize) -> bool {
        let items = self.world.items.iter().enumerate();
        let mut items = items.filter(|(item, _)| self.config.key_of_item(*item) == key);
        items.any(|(_, item)| item.is_some_and(|item| item.completed))
    }

    /// The worker whose batch has this delivery. Every step of a delivery has one.
    fn worker_of(&mut self, delivery: Delivery) -> &mut Worker {
        let has =
            |worker: &&mut Worker| worker.batch.iter().flatten().any(|(of, _)| *of == delivery);
        let worker = self.world.workers.iter_mut().find(has);
        worker.unwrap_or_else(|| unreachable!("no worker has {delivery}"))
    }
}

/// Fails the records after a failed one.
fn fail_rest(worker: &mut Worker, wait: u8) {
    for (_, end) in worker.batch.iter_mut().flatten() {
        if *end == End::Open {
            *end = End::Failed(wait);
        }
    }
    worker.stage = Stage::Answering;
}
