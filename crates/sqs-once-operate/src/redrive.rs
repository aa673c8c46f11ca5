//! Going through a dead-letter queue: every message once, and all that stay are put back.

use std::collections::{BTreeSet, HashMap, HashSet};

use futures_util::future::join_all;

use crate::dead_letters::BATCH;
use crate::letter::{DeadLetter, Standing};
use crate::{DeadLetters, Error};

/// Which messages are meant.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// These, by their message ids; empty for all.
    pub ids: BTreeSet<String>,
    /// Those of this standing; empty for any.
    pub standings: Vec<Standing>,
}

impl Selection {
    fn has(&self, letter: &DeadLetter) -> bool {
        (self.ids.is_empty() || self.ids.contains(letter.id()))
            && (self.standings.is_empty() || self.standings.contains(&letter.standing))
    }
}

/// What becomes of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is not one of those that are meant, and stays.
    NotSelected,
    /// It stays: its effect is done.
    Refused,
    /// It stays, because one before it in its message group does.
    Behind,
    /// This run has sent it on, and it has failed again: it stays.
    CameBack,
    /// It was sent on, and deleted.
    Redriven,
}

/// How far a run came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// How many messages were looked at.
    pub seen: usize,
    /// How many were sent on.
    pub redriven: usize,
    /// How many stayed because their effect is done.
    pub refused: usize,
    /// How many stayed because one before them in their message group did.
    pub behind: usize,
    /// How many were sent on, failed again, and stayed then.
    pub came_back: usize,
    /// Whether it was stopped before the end.
    pub stopped: bool,
    /// Those of the ids asked for that were not there.
    pub missing: BTreeSet<String>,
}

/// The messages that a run has received and not yet let go of, by their ids, with their last receipts.
#[derive(Default)]
struct Held {
    order: Vec<String>,
    receipts: HashMap<String, String>,
}

impl Held {
    /// Notes a message; `false` if it was there before: its time had run out, and it came once more.
    fn add(&mut self, letter: &DeadLetter) -> bool {
        let receipt = letter.receipt().to_owned();
        let before = self.receipts.insert(letter.id().to_owned(), receipt);
        if before.is_none() {
            self.order.push(letter.id().to_owned());
        }
        before.is_none()
    }

    fn remove(&mut self, letter: &DeadLetter) {
        self.receipts.remove(letter.id());
    }

    async fn put_back(&self, queue: &DeadLetters) -> Result<(), Error> {
        let receipts = self.order.iter().filter_map(|id| self.receipts.get(id));
        queue.put_back(receipts.map(String::as_str)).await
    }
}

impl DeadLetters {
    /// Shows every message that is selected to `each`, until that says no or `stop` says yes, and puts all
    /// back: in the end nothing has changed but their receive counts.
    ///
    /// # Errors
    /// [`Error::Queue`] and [`Error::Store`] when SQS or the table gives no answer; what was received is put
    /// back then, too.
    pub async fn look(
        &self,
        selection: &Selection,
        stop: &(dyn Fn() -> bool + Sync),
        mut each: impl FnMut(&DeadLetter) -> bool,
    ) -> Result<Tally, Error> {
        let mut held = Held::default();
        let mut tally = Tally::default();
        let walked: Result<_, Error> = async {
            let mut left = selection.ids.clone();
            while let Some(letters) = self.next(selection, &left, stop, &mut tally).await? {
                for letter in letters {
                    let is_new = held.add(&letter);
                    if !is_new || tally.stopped {
                        continue;
                    }
                    tally.seen += 1;
                    left.remove(letter.id());
                    tally.stopped = selection.has(&letter) && !each(&letter);
                }
                if tally.stopped {
                    break;
                }
            }
            Ok(left)
        }
        .await;
        let put_back = held.put_back(self).await;
        tally.missing = walked?;
        put_back?;
        Ok(tally)
    }

    /// Receives the messages that are selected and keeps them invisible: for dropping them.
    ///
    /// # Errors
    /// [`Error::Queue`] and [`Error::Store`], as for [`look`](Self::look).
    pub async fn hold(
        &self,
        selection: &Selection,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<(Vec<DeadLetter>, Tally), Error> {
        let (mut chosen, mut others) = (Vec::<DeadLetter>::new(), Held::default());
        let mut known = HashSet::new();
        let mut tally = Tally::default();
        let walked: Result<_, Error> = async {
            let mut left = selection.ids.clone();
            while let Some(letters) = self.next(selection, &left, stop, &mut tally).await? {
                for letter in letters {
                    left.remove(letter.id());
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
            Ok(left)
        }
        .await;
        let put_back = others.put_back(self).await;
        match walked {
            Ok(left) => tally.missing = left,
            Err(error) => {
                // The first error says more than one of putting back.
                let _ = self.release(&chosen).await;
                return Err(error);
            }
        }
        put_back?;
        Ok((chosen, tally))
    }

    /// Puts messages back that are held.
    ///
    /// # Errors
    /// [`Error::Queue`] when SQS gives no answer; they come back by themselves after [`HOLD`](Self::HOLD).
    pub async fn release(&self, letters: &[DeadLetter]) -> Result<(), Error> {
        self.put_back(letters.iter().map(DeadLetter::receipt)).await
    }

    /// Deletes messages that are held, for good, until `stop` says yes; the rest, and those that could not be
    /// deleted, are put back.
    ///
    /// # Errors
    /// [`Error::Queue`] when SQS gives no answer. How many are gone is told in any case.
    pub async fn drop_held(
        &self,
        letters: &[DeadLetter],
        stop: &(dyn Fn() -> bool + Sync),
        mut each: impl FnMut(&DeadLetter),
    ) -> (usize, Result<(), Error>) {
        for (at, letter) in letters.iter().enumerate() {
            if stop() {
                return (at, self.release(&letters[at..]).await);
            }
            if let Err(error) = self.delete(letter).await {
                // The first error says more than one of putting back.
                let _ = self.release(&letters[at..]).await;
                return (at, Err(error));
            }
            each(letter);
        }
        (letters.len(), Ok(()))
    }

    /// Sends messages to another queue and deletes them here, each only after it was sent: a run may be
    /// interrupted anywhere, and run again. What it sent twice then has one business key. Those of a FIFO queue
    /// go one by one, in their order.
    ///
    /// What is completed stays, unless `even_completed`. In a FIFO queue the messages of a group that are behind
    /// one that stays do so as well. What fails again while this runs, and comes back, is not sent once more: the run
    /// would have no end.
    ///
    /// # Errors
    /// [`Error::Queue`] and [`Error::Store`] when SQS or the table gives no answer; how far it came is told in
    /// any case.
    pub async fn redrive(
        &self,
        to: &str,
        selection: &Selection,
        even_completed: bool,
        stop: &(dyn Fn() -> bool + Sync),
        mut each: impl FnMut(&DeadLetter, Fate),
    ) -> (Tally, Result<(), Error>) {
        let mut held = Held::default();
        let mut tally = Tally::default();
        let walked: Result<_, Error> = async {
            if self.is_at(to) {
                return Err(Error::SameQueue);
            }
            let mut left = selection.ids.clone();
            // A group goes on only as long as everything of it does.
            let mut stuck: HashSet<String> = HashSet::new();
            let mut sent: HashSet<String> = HashSet::new();
            while let Some(letters) = self.next(selection, &left, stop, &mut tally).await? {
                let fresh: Vec<_> = letters.iter().filter(|one| held.add(one)).collect();
                let mut chosen = Vec::new();
                for letter in fresh {
                    tally.seen += 1;
                    left.remove(letter.id());
                    let group = letter.system("MessageGroupId").filter(|_| self.is_fifo());
                    let fate = match letter.standing {
                        _ if sent.contains(letter.id_before()) => Fate::CameBack,
                        _ if !selection.has(letter) => Fate::NotSelected,
                        Standing::Completed if !even_completed => Fate::Refused,
                        _ if group.is_some_and(|group| stuck.contains(group)) => Fate::Behind,
                        _ => Fate::Redriven,
                    };
                    if fate == Fate::Redriven {
                        chosen.push(letter);
                        continue;
                    }
                    stuck.extend(group.map(str::to_owned));
                    tally.refused += usize::from(fate == Fate::Refused);
                    tally.behind += usize::from(fate == Fate::Behind);
                    tally.came_back += usize::from(fate == Fate::CameBack);
                    each(letter, fate);
                }
                // One after the other, where there is an order to keep.
                let together = if self.is_fifo() { 1 } else { BATCH };
                for chunk in chosen.chunks(together) {
                    if stop() {
                        tally.stopped = true;
                        break;
                    }
                    let moves = chunk.iter().map(|letter| self.move_on(letter, to));
                    let mut failed = None;
                    for (letter, moved) in chunk.iter().zip(join_all(moves).await) {
                        match moved {
                            Ok(copy) => {
                                held.remove(letter);
                                sent.insert(copy);
                                tally.redriven += 1;
                                each(letter, Fate::Redriven);
                            }
                            Err(error) => failed = failed.or(Some(error)),
                        }
                    }
                    if let Some(error) = failed {
                        return Err(error);
                    }
                }
            }
            Ok(left)
        }
        .await;
        let put_back = held.put_back(self).await;
        match walked {
            Ok(left) => {
                tally.missing = left;
                (tally, put_back)
            }
            Err(error) => (tally, Err(error)),
        }
    }

    async fn move_on(&self, letter: &DeadLetter, to: &str) -> Result<String, Error> {
        let copy = self.send(letter, to).await?;
        self.delete(letter).await?;
        Ok(copy)
    }

    /// The next messages; `None` when it is over: stopped, everything found, or nothing left.
    async fn next(
        &self,
        selection: &Selection,
        left: &BTreeSet<String>,
        stop: &(dyn Fn() -> bool + Sync),
        tally: &mut Tally,
    ) -> Result<Option<Vec<DeadLetter>>, Error> {
        let found_all = !selection.ids.is_empty() && left.is_empty();
        if stop() {
            tally.stopped = true;
        }
        if tally.stopped || found_all {
            return Ok(None);
        }
        let letters = self.receive().await?;
        Ok(Some(letters).filter(|letters| !letters.is_empty()))
    }
}
