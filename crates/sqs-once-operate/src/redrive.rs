//! Processes a dead-letter queue: visits each message once and releases those that stay.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use futures_util::future::join_all;
use sqs_once::store::Timestamp;
use tokio::time::Instant;

use crate::dead_letters::{BATCH, without_slash};
use crate::letter::{DeadLetter, Standing};
use crate::{DeadLetters, Error};

/// How far the clocks of SQS and of this machine may be apart.
const CLOCKS: Duration = Duration::from_secs(60);

/// Selects messages.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Selected message IDs. Empty selects all.
    pub ids: BTreeSet<String>,
    /// Selected standings. Empty selects any.
    pub standings: Vec<Standing>,
    /// Selected groups, by their IDs. Empty selects any.
    pub groups: BTreeSet<String>,
    /// Selected message groups of SQS. Empty selects any.
    pub message_groups: BTreeSet<String>,
    /// Selected reasons, by their text before a colon: `unavailable` selects `unavailable: payments: …`. Empty selects
    /// any.
    pub reasons: Vec<String>,
    /// Selected source queues, by their names. Empty selects any.
    pub sources: BTreeSet<String>,
    /// Whether `sources` also selects messages whose source queue is unknown.
    pub unknown_source: bool,
}

impl Selection {
    fn has(&self, letter: &DeadLetter) -> bool {
        (self.ids.is_empty() || self.ids.contains(letter.id()))
            && (self.standings.is_empty() || self.standings.contains(&letter.standing))
            && (self.groups.is_empty() || self.groups.contains(&letter.group().id))
            && (self.message_groups.is_empty() || self.has_message_group_of(letter))
            && (self.reasons.is_empty() || self.has_reason_of(letter))
            && (self.sources.is_empty() || self.has_source_of(letter))
    }

    fn has_message_group_of(&self, letter: &DeadLetter) -> bool {
        let group = letter.system("MessageGroupId");
        group.is_some_and(|group| self.message_groups.contains(group))
    }

    fn has_source_of(&self, letter: &DeadLetter) -> bool {
        let is_selected = |name| self.sources.contains(name);
        letter.source().map_or(self.unknown_source, is_selected)
    }

    fn has_reason_of(&self, letter: &DeadLetter) -> bool {
        let reason = letter.reason().unwrap_or_default();
        self.reasons.iter().any(|word| {
            let rest = reason.strip_prefix(word.trim_end_matches([':', ' ']));
            rest.is_some_and(|rest| rest.starts_with(':'))
        })
    }
}

/// The result for one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The message stays: it is not selected.
    NotSelected,
    /// The message stays: its effect is done.
    Refused,
    /// The message stays: it is the report of an event bus, and no event.
    BusFailure,
    /// The message stays: an earlier message of its message group stays.
    Behind,
    /// The message stays: this run already sent it, and it failed again.
    CameBack,
    /// The message stays: SQS does not accept its copy, or it can't be restarted.
    Unsendable,
    /// The message was sent and deleted here.
    Redriven,
}

/// The progress of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Messages visited.
    pub seen: usize,
    /// Messages sent.
    pub redriven: usize,
    /// Messages that stay because their effect is done.
    pub refused: usize,
    /// Messages that stay because they are reports of an event bus.
    pub bus_failures: usize,
    /// Messages that stay because an earlier message of their message group stays.
    pub behind: usize,
    /// Messages that this run sent, that failed again, and that stay now.
    pub came_back: usize,
    /// Messages that stay because they can't be sent, by their IDs, each with the reason.
    pub unsendable: BTreeMap<String, String>,
    /// Whether the run was stopped before the end.
    pub stopped: bool,
    /// Selected IDs that the run did not find.
    pub missing: BTreeSet<String>,
}

impl Tally {
    fn of(selection: &Selection) -> Self {
        Self {
            missing: selection.ids.clone(),
            ..Self::default()
        }
    }
}

/// Messages that a run has received and not released, by ID, with their latest receipts.
#[derive(Default)]
struct Held {
    order: Vec<String>,
    receipts: HashMap<String, String>,
}

impl Held {
    /// Adds a message. Returns `false` if it was present: its visibility timeout ended and SQS delivered it again.
    fn add(&mut self, letter: &DeadLetter) -> bool {
        let receipt = letter.receipt().to_owned();
        let before = self.receipts.insert(letter.id().to_owned(), receipt);
        let is_new = before.is_none();
        self.order.extend(is_new.then(|| letter.id().to_owned()));
        is_new
    }

    async fn put_back(&self, queue: &DeadLetters) -> Result<(), Error> {
        let receipts = self.order.iter().filter_map(|id| self.receipts.get(id));
        queue.put_back(receipts.map(String::as_str)).await
    }
}

/// Message groups of a FIFO queue of which a message stays, each with the source queues of such messages, if known.
struct Stuck {
    is_fifo: bool,
    groups: HashMap<String, HashSet<Option<String>>>,
}

impl Stuck {
    fn of(queue: &DeadLetters) -> Self {
        Self {
            is_fifo: queue.is_fifo(),
            groups: HashMap::new(),
        }
    }

    fn group<'a>(&self, letter: &'a DeadLetter) -> Option<&'a str> {
        letter.system("MessageGroupId").filter(|_| self.is_fifo)
    }

    fn add(&mut self, letter: &DeadLetter) {
        if let Some(group) = self.group(letter) {
            let queues = self.groups.entry(group.to_owned()).or_default();
            queues.insert(letter.source_arn().map(str::to_owned));
        }
    }

    /// Whether an earlier message of its group and queue stays. A message of an unknown queue may be of this one.
    fn holds(&self, letter: &DeadLetter) -> bool {
        let queues = self.group(letter).and_then(|group| self.groups.get(group));
        let source = letter.source_arn().map(str::to_owned);
        queues.is_some_and(|queues| {
            source.is_none() || queues.contains(&None) || queues.contains(&source)
        })
    }
}

impl DeadLetters {
    /// Passes each selected message to `each`, until `each` returns `false` or `stop` returns `true`. All messages are
    /// released at the end. Only their receive counts change.
    ///
    /// # Errors
    /// [`Error::Queue`] and [`Error::Store`] if SQS or the table does not answer. Received messages are released in
    /// this case too.
    pub async fn look(
        &self,
        selection: &Selection,
        stop: &(dyn Fn() -> bool + Sync),
        mut each: impl FnMut(&DeadLetter) -> bool,
    ) -> Result<Tally, Error> {
        let mut held = Held::default();
        let mut tally = Tally::of(selection);
        let walked: Result<(), Error> = async {
            while let Some(letters) = self.next(selection, stop, &mut tally).await? {
                for letter in letters {
                    if !held.add(&letter) || tally.stopped {
                        continue;
                    }
                    tally.seen += 1;
                    tally.missing.remove(letter.id());
                    tally.stopped = selection.has(&letter) && !each(&letter);
                }
            }
            Ok(())
        }
        .await;
        let put_back = held.put_back(self).await;
        walked.and(put_back)?;
        Ok(tally)
    }

    /// Receives the selected messages and keeps them invisible, in order to drop them. Stops after half of
    /// [`HOLD`](Self::HOLD), which leaves time to drop them.
    ///
    /// # Errors
    /// [`Error::Queue`] and [`Error::Store`], as in [`look`](Self::look).
    pub async fn hold(
        &self,
        selection: &Selection,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<(Vec<DeadLetter>, Tally), Error> {
        let began = Instant::now();
        let stop = || stop() || began.elapsed() > Self::HOLD / 2;
        let (mut chosen, mut others) = (Vec::<DeadLetter>::new(), Held::default());
        let mut known = HashSet::new();
        let mut tally = Tally::of(selection);
        let walked: Result<(), Error> = async {
            while let Some(letters) = self.next(selection, &stop, &mut tally).await? {
                for letter in letters {
                    tally.missing.remove(letter.id());
                    let is_new = known.insert(letter.id().to_owned());
                    tally.seen += usize::from(is_new);
                    if !selection.has(&letter) {
                        others.add(&letter);
                    } else if is_new {
                        chosen.push(letter);
                    } else if let Some(same) = chosen.iter_mut().find(|one| one.id() == letter.id())
                    {
                        *same = letter;
                    }
                }
            }
            Ok(())
        }
        .await;
        let put_back = others.put_back(self).await;
        if let Err(error) = walked {
            // Report the first error, which is the cause.
            let _ = self.release(&chosen).await;
            return Err(error);
        }
        put_back?;
        Ok((chosen, tally))
    }

    /// Releases held messages.
    ///
    /// # Errors
    /// [`Error::Queue`] if SQS does not answer. SQS then delivers the messages again after [`HOLD`](Self::HOLD).
    pub async fn release(&self, letters: &[DeadLetter]) -> Result<(), Error> {
        self.put_back(letters.iter().map(DeadLetter::receipt)).await
    }

    /// Deletes held messages permanently, until `stop` returns `true` or `before`, which is called before each, returns
    /// `false`. Releases the remaining messages, and those that it could not delete. Returns the number of deleted messages.
    ///
    /// # Errors
    /// [`Error::Queue`] if SQS does not answer, and [`Error::HeldTooLong`] if [`HOLD`](Self::HOLD) is almost over. The
    /// number is returned in these cases too.
    pub async fn drop_held(
        &self,
        letters: &[DeadLetter],
        stop: &(dyn Fn() -> bool + Sync),
        mut before: impl FnMut(&DeadLetter) -> bool,
        mut each: impl FnMut(&DeadLetter),
    ) -> (usize, Result<(), Error>) {
        for (at, letter) in letters.iter().enumerate() {
            // SQS confirms a deletion by an old receipt, but may keep the message.
            if !letter.is_held() {
                let released = self.release(&letters[at..]).await;
                return (at, released.and(Err(Error::HeldTooLong)));
            }
            if stop() || !before(letter) {
                return (at, self.release(&letters[at..]).await);
            }
            // A message that stays although its place has ended runs late if it is redriven, and can be dropped again.
            let ended = self.end_place(letter).await;
            let deleted = match ended {
                Ok(()) => self.delete(letter).await,
                Err(error) => Err(error),
            };
            if let Err(error) = deleted {
                // Report the first error, which is the cause.
                let _ = self.release(&letters[at..]).await;
                return (at, Err(error));
            }
            each(letter);
        }
        (letters.len(), Ok(()))
    }

    /// Sends messages to another queue, and deletes each one here after SQS has confirmed its copy. A run may be
    /// interrupted at any point and started again: two copies of a message have the same business key. Messages of a
    /// FIFO queue are sent one by one, in order.
    ///
    /// Completed messages stay, unless `even_completed` is set, or their message group waits for them. So do reports of
    /// an event bus, and messages that SQS does not accept in the other queue. In a FIFO queue, a message that stays keeps
    /// all later messages of its group. A message that fails again and returns during the run is not sent again, since the
    /// run might never end.
    ///
    /// `before` gets the messages that are sent next, at most ten. If it returns `false`, they stay and the run stops.
    ///
    /// # Errors
    /// [`Error::Queue`] and [`Error::Store`] if SQS or the table does not answer. The tally is returned in this case
    /// too.
    pub async fn redrive(
        &self,
        to: &str,
        selection: &Selection,
        even_completed: bool,
        stop: &(dyn Fn() -> bool + Sync),
        mut before: impl FnMut(&[&DeadLetter]) -> bool,
        mut each: impl FnMut(&DeadLetter, Fate),
    ) -> (Tally, Result<(), Error>) {
        let to = without_slash(to);
        let mut held = Held::default();
        let mut tally = Tally::of(selection);
        let walked: Result<(), Error> = async {
            if self.is_at(to) {
                return Err(Error::SameQueue);
            }
            let (mut stuck, mut unsendable) = (Stuck::of(self), Stuck::of(self));
            let mut sent: HashSet<String> = HashSet::new();
            // Of messages that may come back without their ID.
            let (hasher, mut bodies) = (RandomState::new(), HashSet::new());
            let began = Timestamp::now();
            while let Some(letters) = self.next(selection, stop, &mut tally).await? {
                let mut chosen = Vec::new();
                for letter in &letters {
                    if !held.add(letter) {
                        continue;
                    }
                    tally.seen += 1;
                    tally.missing.remove(letter.id());
                    let came_back = match letter.id_before() {
                        Some(id) => sent.contains(id),
                        None => {
                            let sent_at = letter.sent_at();
                            let is_new = sent_at.is_none_or(|at| at + CLOCKS > began);
                            is_new && bodies.contains(&hasher.hash_one(letter.body()))
                        }
                    };
                    let fate = match letter.standing {
                        _ if came_back => Fate::CameBack,
                        _ if !selection.has(letter) => Fate::NotSelected,
                        _ if letter.bus_failure().is_some() => Fate::BusFailure,
                        // Its group waits for its place, and it is a duplicate.
                        Standing::Completed if !even_completed && letter.place().is_none() => {
                            Fate::Refused
                        }
                        _ if stuck.holds(letter) => Fate::Behind,
                        _ => Fate::Redriven,
                    };
                    if fate == Fate::Redriven {
                        chosen.push(letter);
                        continue;
                    }
                    stuck.add(letter);
                    tally.refused += usize::from(fate == Fate::Refused);
                    tally.bus_failures += usize::from(fate == Fate::BusFailure);
                    tally.behind += usize::from(fate == Fate::Behind);
                    tally.came_back += usize::from(fate == Fate::CameBack);
                    each(letter, fate);
                }
                // Send one at a time if the queue has an order.
                let together = if self.is_fifo() { 1 } else { BATCH };
                for chunk in chosen.chunks(together) {
                    if let [letter] = chunk
                        && unsendable.holds(letter)
                    {
                        tally.behind += 1;
                        each(letter, Fate::Behind);
                        continue;
                    }
                    if stop() || !before(chunk) {
                        tally.stopped = true;
                        break;
                    }
                    let moves = chunk.iter().map(async |letter| {
                        let copy = self.send(letter, to).await?;
                        self.delete(letter).await?;
                        Ok::<_, Error>(copy)
                    });
                    let mut failed = Ok(());
                    for (letter, moved) in chunk.iter().zip(join_all(moves).await) {
                        match moved {
                            Ok(copy) => {
                                held.receipts.remove(letter.id());
                                sent.insert(copy);
                                bodies.insert(hasher.hash_one(letter.body()));
                                tally.redriven += 1;
                                each(letter, Fate::Redriven);
                            }
                            Err(error) if error.is_of_message() => {
                                unsendable.add(letter);
                                let id = letter.id().to_owned();
                                tally.unsendable.insert(id, error.to_string());
                                each(letter, Fate::Unsendable);
                            }
                            Err(error) => failed = failed.and(Err(error)),
                        }
                    }
                    failed?;
                }
            }
            Ok(())
        }
        .await;
        let put_back = held.put_back(self).await;
        (tally, walked.and(put_back))
    }

    /// The next messages. `None` at the end: stopped, all selected IDs found, or no message left.
    async fn next(
        &self,
        selection: &Selection,
        stop: &(dyn Fn() -> bool + Sync),
        tally: &mut Tally,
    ) -> Result<Option<Vec<DeadLetter>>, Error> {
        let found_all = !selection.ids.is_empty() && tally.missing.is_empty();
        tally.stopped |= stop();
        if tally.stopped || found_all {
            return Ok(None);
        }
        let letters = self.receive().await?;
        Ok(Some(letters).filter(|letters| !letters.is_empty()))
    }
}
