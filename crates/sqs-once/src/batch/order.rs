//! Keeps the order of FIFO message groups that have dead letters: which messages go behind one, and when a group goes on.
//!
//! Only one batch has messages of a group at a time, until its deadline: SQS delivers none of the group while one is in
//! flight. So the block that was read at the start holds until then, except for what this batch writes.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use futures_util::future::join;
use tokio::sync::OnceCell;
use tracing::error;

use crate::failed::{Cause, SILENT_DELIVERIES};
use crate::idempotency::block::{Block, Place, Turn, item_id};
use crate::idempotency::{Retries, answers_until, contended, first_of};
use crate::key::ItemId;
use crate::report::{Code, Report, Untried};
use crate::store::{Claimed, Item, Seen, StoreError, StoreErrorKind};
use crate::time::Timestamp;

use super::engine::Engine;
use super::ledger::Ledger;
use super::record::Record;
use super::run::Batch;

const BEHIND: &str = "behind a dead letter of its message group";
const USED_UP: &str = "its deliveries are used up, and the last one ended without a result";

/// The blocked groups of one batch, if its queues keep order.
pub(super) struct Order {
    groups: Vec<Group>,
    /// The group of each record.
    of: Vec<Option<usize>>,
    read: OnceCell<()>,
}

/// Why a record may not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoTurn {
    /// Nobody can tell whether its group is blocked.
    Unknown,
    /// Those before it have not ended.
    Behind,
    /// It was delivered as often as its queue allows, without a result.
    UsedUp,
}

struct Group {
    queue: String,
    name: String,
    id: ItemId,
    /// How often its messages are tried.
    deliveries: u32,
    /// One of its records, by which its queue is asked.
    first: usize,
    state: Mutex<State>,
}

#[derive(Clone)]
enum State {
    /// The block and what the next write of it has to replace, if there is one.
    Known(Option<Block>, Seen),
    /// Nobody can tell whether the group is blocked.
    Unknown,
}

impl Order {
    /// Returns `None` if no message is of a queue that keeps order.
    pub(super) fn of(engine: &Engine, ledger: &Ledger) -> Option<Self> {
        let (mut groups, mut places) = (Vec::new(), HashMap::new());
        let messages = ledger.messages.iter().enumerate();
        let of = messages.map(|(at, message)| {
            let keeps_order = engine.failed.ways_for(message).keep_order;
            let deliveries = keeps_order.filter(|_| message.is_fifo())?.get();
            let (queue, name) = (message.queue_arn()?, message.group_id()?);
            let place = *places.entry((queue, name)).or_insert_with(|| {
                groups.push(Group {
                    queue: queue.to_owned(),
                    name: name.to_owned(),
                    id: item_id(queue, name),
                    deliveries,
                    first: at,
                    state: Mutex::new(State::Unknown),
                });
                groups.len() - 1
            });
            Some(place)
        });
        let of = of.collect();
        (!groups.is_empty()).then(|| Self {
            groups,
            of,
            read: OnceCell::new(),
        })
    }

    fn group(&self, at: usize) -> Option<&Group> {
        Some(&self.groups[self.of[at]?])
    }
}

impl Group {
    fn state(&self) -> State {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.clone()
    }

    fn set(&self, state: State) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = state;
    }
}

impl State {
    fn of(item: Option<&Item>) -> Result<Self, StoreError> {
        let Some(item) = item else {
            return Ok(Self::Known(None, Seen::Nothing));
        };
        let unreadable = || {
            let id = item.id.as_str();
            let message = format!("the item {id} is no block of a message group");
            StoreError::new(StoreErrorKind::BadItem, message)
        };
        let block = Block::from_item(item).ok_or_else(unreadable)?;
        Ok(Self::Known(Some(block), Seen::Item(item.fence)))
    }
}

impl Batch<'_> {
    fn group(&self, at: usize) -> Option<&Group> {
        self.order.as_ref()?.group(at)
    }

    /// Returns whether the batch keeps the order of a record's group.
    pub(super) fn keeps_order(&self, at: usize) -> bool {
        self.group(at).is_some()
    }

    /// Reads the blocks of all groups, beside the first claims.
    pub(super) async fn read_blocks(&self) {
        let Some(order) = &self.order else { return };
        let read = order.read.get_or_init(|| async {
            // All messages of a batch are of one queue.
            let first = &self.ledger.messages[order.groups[0].first];
            let (states, limits) = join(self.states(order), self.queue_limits(first)).await;
            if limits.is_none() {
                let deliveries = order.groups[0].deliveries;
                error!(
                    queue = first.queue_arn(),
                    "the order of its groups can't be kept, and its messages are returned: the queue does not tell its \
                     settings, or its maxReceiveCount is below {}",
                    deliveries.saturating_add(SILENT_DELIVERIES)
                );
                return;
            }
            for (group, state) in order.groups.iter().zip(states) {
                group.set(state);
            }
        });
        read.await;
    }

    /// Reads the blocks of all groups, and repeats the read of those without an answer: if a block stays unknown, its
    /// messages return, and have used up a delivery.
    async fn states(&self, order: &Order) -> Vec<State> {
        // No handler starts later, and the claims beside it have to be released.
        let (driver, until) = (self.engine.driver(), self.deadline.cancel_at);
        let mut retries = Retries::new(until);
        let mut states = vec![State::Unknown; order.groups.len()];
        loop {
            let unknown = (0..states.len()).filter(|at| matches!(states[*at], State::Unknown));
            let unknown: Vec<_> = unknown.collect();
            let ids: Vec<_> = unknown
                .iter()
                .map(|at| order.groups[*at].id.clone())
                .collect();
            self.ledger.tally().store_requests += 1;
            let answers = answers_until(until, ids.len(), driver.store.read(&ids)).await;
            let errors = answers.iter().filter(|answer| answer.is_err()).count();
            self.ledger.tally().store_errors += errors as u64;
            let mut failed = Ok(());
            for (at, answer) in unknown.into_iter().zip(answers) {
                match answer.and_then(|item| State::of(item.as_ref())) {
                    Ok(state) => states[at] = state,
                    // A transient error is worth another request.
                    Err(error) if failed.is_ok() || error.is_transient() => failed = Err(error),
                    Err(_) => {}
                }
            }
            let pause = retries.after_error(&failed);
            match (failed, pause) {
                (Ok(()), _) => return states,
                (Err(_), Some(pause)) => pause.ends(driver.random.bits()).await,
                (Err(error), None) => {
                    self.ledger.log_once(&error);
                    return states;
                }
            }
        }
    }

    /// Waits until the block of a record's group is known. Returns why the record may not run, if it may not.
    pub(super) async fn waits_for_turn(&self, at: usize) -> Option<NoTurn> {
        let group = self.group(at)?;
        self.read_blocks().await;
        let message = &self.ledger.messages[at];
        match self.known_turn(at) {
            None => Some(NoTurn::Unknown),
            Some(Turn::Behind) => Some(NoTurn::Behind),
            Some(Turn::Runs) if message.receive_count().unwrap_or(1) > group.deliveries => {
                Some(NoTurn::UsedUp)
            }
            Some(Turn::Runs) => None,
        }
    }

    /// Returns whether a record may run, as far as its group's block is known already.
    fn known_turn(&self, at: usize) -> Option<Turn> {
        let State::Known(block, _) = self.group(at)?.state() else {
            return None;
        };
        let message = &self.ledger.messages[at];
        Some(Block::turn(
            block.as_ref(),
            Place::of(message),
            message.id(),
        ))
    }

    /// Ends a record that may not run.
    pub(super) async fn end_without_turn(&self, record: &Record, why: NoTurn) -> Report {
        let reason = match why {
            NoTurn::Unknown => return Report::untried(Untried::OrderUnknown),
            NoTurn::Behind => Code::BehindDeadLetter.because(BEHIND),
            NoTurn::UsedUp => Code::DeliveriesUsedUp.because(USED_UP),
        };
        self.end_terminal(record, Cause::from(reason)).await
    }

    /// Returns whether it is known already that a record goes behind a dead letter, so that it need not be claimed.
    pub(super) fn is_behind(&self, at: usize) -> bool {
        self.known_turn(at) == Some(Turn::Behind)
    }

    /// Counts the groups that are blocked after the batch.
    pub(super) fn count_blocks(&self) {
        let now = self.engine.driver().clock.now();
        let groups = self.order.iter().flat_map(|order| &order.groups);
        let ages = groups.filter_map(|group| match group.state() {
            State::Known(Some(block), _) if block.stands() => {
                Some(now.since(Timestamp::from_millis(block.since)))
            }
            _ => None,
        });
        self.ledger.tally().blocked = ages.collect();
    }

    /// Gives a place to a record that becomes a dead letter, or goes behind one. It may move only after that. `Err` if it may
    /// not.
    pub(super) async fn take_place(
        &self,
        record: &Record,
        code: Code,
    ) -> Result<Option<Place>, ()> {
        let Some(group) = self.group(record.at) else {
            return Ok(None);
        };
        self.read_blocks().await;
        let message = &self.ledger.messages[record.at];
        let (place, id) = (Place::of(message), message.id());
        let now = self.engine.driver().clock.now();
        // The effect for its key is on record, so that no message has to wait for it.
        let blocks = code != Code::PayloadMismatch;
        // It may have been lifted meanwhile. Then it is the record's turn, with its next delivery.
        let follows = code == Code::BehindDeadLetter;
        let written = self.write(group, |block| {
            let standing = block.filter(|block| block.stands());
            match standing {
                None if !blocks || follows => None,
                None => Some(Block::begin(block, (&group.queue, &group.name), now).with(id)),
                Some(block) if block.place_of(place, id).is_some() => None,
                Some(block) => Some(block.clone().with(id)),
            }
        });
        let block = written
            .await
            .map_err(|error| self.ledger.log_once(&error))?;
        let own = block.filter(|block| block.stands()).and_then(|block| {
            Some(Place {
                block: block.number,
                place: block.place_of(place, id)?,
            })
        });
        match own {
            None if follows => Err(()),
            own => Ok(own),
        }
    }

    /// Notes that a record of a blocked group has had its turn. Returns its report, which fails if that can't be noted: its
    /// next delivery notes it.
    pub(super) async fn note_turn(&self, record: &Record, report: Report) -> Report {
        let is_dead = matches!(&report, Report::Terminal { reason, .. } if reason.code != Code::PayloadMismatch);
        let group = self.group(record.at);
        let Some(group) = group.filter(|_| report.is_acknowledged() && !is_dead) else {
            return report;
        };
        self.read_blocks().await;
        let message = &self.ledger.messages[record.at];
        let place = Place::of(message);
        let is_first = message.receive_count().unwrap_or(1) == 1;
        let now = self.engine.driver().clock.now();
        let ended = self.write(group, |block| match block.filter(|it| it.stands()) {
            // A message that was not moved may have a place too.
            Some(standing) => standing.after_end(standing.place_of(place, message.id())?),
            None if is_first => None,
            // An earlier attempt may have begun a block with a request that comes late. This block, which blocks nobody,
            // lets that request fail.
            None => Some(Block::begin(block, (&group.queue, &group.name), now)),
        });
        match ended.await {
            Ok(_) => report,
            Err(error) => {
                self.ledger.log_once(&error);
                let reason = format!("its end could not be noted for its group: {}", error.kind());
                Report::failed(Code::OrderUnknown.because(reason))
            }
        }
    }

    /// Writes the block that `change` makes of the last one, or leaves that if it makes none. Returns the block then.
    async fn write(
        &self,
        group: &Group,
        change: impl Fn(Option<&Block>) -> Option<Block>,
    ) -> Result<Option<Block>, StoreError> {
        let mut retries = Retries::new(self.deadline.requests_by);
        let driver = self.engine.driver();
        let unknown = |why| StoreError::new(StoreErrorKind::Unanswered, why);
        loop {
            // After a freeze, another environment may have ended the message. A place for it would never end.
            if self.until(self.deadline.requests_by).has_come() {
                return Err(unknown("its time is over"));
            }
            let State::Known(block, seen) = group.state() else {
                return Err(unknown("its block is not known"));
            };
            let Some(next) = change(block.as_ref()) else {
                return Ok(block);
            };
            let claim = next.claim(self.next_owner(), driver.clock.now(), seen);
            let answer = loop {
                let claims = std::slice::from_ref(&claim);
                self.ledger.tally().store_requests += 1;
                let answers =
                    answers_until(self.deadline.requests_by, 1, driver.store.claim(claims));
                let answer = first_of(answers.await);
                self.ledger.tally().store_errors += u64::from(answer.is_err());
                match retries.after_error(&answer) {
                    // If the claim was written, the next one finds its own item.
                    Some(pause) => pause.ends(driver.random.bits()).await,
                    None => break answer?,
                }
            };
            match answer {
                Claimed::Written { fence } => {
                    let seen = Seen::Item(Some(fence));
                    group.set(State::Known(Some(next.clone()), seen));
                    return Ok(Some(next));
                }
                Claimed::Refused(item) => {
                    group.set(State::of(Some(&item))?);
                    if item.owner == Some(claim.owner) {
                        return Ok(Some(next));
                    }
                    if !retries.at_once() {
                        return Err(contended());
                    }
                }
            }
        }
    }
}
