//! Collects the entries of many records into few requests.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::poll_fn;
use std::mem;
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use slab::Slab;
use tokio::time::{Instant, sleep_until};

/// How long an entry may wait before no further handler starts, so that those that run end and its request is sent.
const OVERDUE: Duration = Duration::from_millis(20);

/// How long an entry may wait for the answer to an earlier request. One that takes longer may never be answered.
const SILENT: Duration = Duration::from_millis(250);

/// What a batcher sends, and how.
pub(super) trait Requests {
    type Entry;
    type Answer;
    /// Entries with different needs do not share a request.
    type Needs: PartialEq;

    fn needs(&self, entry: &Self::Entry) -> Self::Needs;

    /// Returns how many entries fill a request like that of this entry.
    fn full(&self, entry: &Self::Entry) -> usize;

    /// Returns whether an entry waits for others to join it. Must not call the batcher.
    fn waits(&self, entry: &Self::Entry, load: Load) -> bool;

    /// Called in the driver's poll after a request was sent, when the records have received the answers so far.
    fn sent(&self) {}

    /// Sends a request. Returns an answer to each entry, in order.
    fn send(&self, entries: Vec<Self::Entry>) -> impl Future<Output = Vec<Self::Answer>> + Send;

    /// Returns random bits for the pause before an entry is sent again, if it is.
    fn bits(&self) -> u128;

    /// Returns whether an entry with this answer may be sent again after a pause.
    fn may_pause(answer: &Self::Answer) -> bool;
}

/// A batcher's open work.
#[derive(Clone, Copy)]
pub(super) struct Load {
    /// The requests in flight.
    in_flight: usize,
    /// The entries without an answer.
    pub(super) unanswered: usize,
    /// Whether the entry has waited long enough for the answers to the requests in flight.
    is_silent: bool,
}

impl Load {
    /// Returns whether an answer may soon let records add to a request.
    pub(super) fn is_answered_soon(self) -> bool {
        self.in_flight > 0 && !self.is_silent
    }
}

/// The answer to an entry.
pub(super) struct Answered<A> {
    pub(super) answer: A,
    /// Random bits that all entries of a request share, so that those which are sent again after a pause share the next
    /// one.
    pub(super) bits: u128,
}

/// Entries that wait for a request.
///
/// The batch polls the driver after its records. So all records that are ready have added their entry when a request is
/// built. `next_group` decides when one is sent:
///
/// - A full request is sent at once. So is any other if so many entries wait that no further record starts.
/// - Any other is sent when no record is ready, unless more entries may come: see [`Requests::waits`]. Directly after an
///   answer, records may be about to be ready.
pub(super) struct Batcher<E, A> {
    /// The most requests in flight.
    most: usize,
    state: Mutex<State<E, A>>,
}

struct State<E, A> {
    waiting: VecDeque<Waiting<E>>,
    asking: Slab<Asking<A>>,
    in_flight: usize,
    unanswered: usize,
    /// Whether a request was sent in the driver's last poll. Its answer may be there in the next.
    is_sending: bool,
}

struct Waiting<E> {
    entry: E,
    /// The place of its record among those that ask.
    asker: usize,
    since: Instant,
}

/// A record that asks. Its place stays taken if it goes, because then the whole batch does.
enum Asking<A> {
    Waits(Waker),
    Answered(Answered<A>),
}

impl<E, A> Batcher<E, A> {
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            state: Mutex::new(State {
                waiting: VecDeque::new(),
                asking: Slab::new(),
                in_flight: 0,
                unanswered: 0,
                is_sending: false,
            }),
        }
    }

    /// Sends an entry with those of other records.
    pub(super) fn ask(&self, entry: E) -> impl Future<Output = Answered<A>> {
        let mut entry = Some(entry);
        let mut place = None;
        poll_fn(move |context| {
            let waker = context.waker();
            let mut state = self.state();
            if let Some(entry) = entry.take() {
                let asker = state.asking.insert(Asking::Waits(waker.clone()));
                let since = Instant::now();
                state.waiting.push_back(Waiting {
                    entry,
                    asker,
                    since,
                });
                state.unanswered += 1;
                place = Some(asker);
                return Poll::Pending;
            }
            let asking = place.and_then(|place| state.asking.get_mut(place));
            if let Some(Asking::Waits(earlier)) = asking {
                earlier.clone_from(waker);
                return Poll::Pending;
            }
            match place
                .take()
                .and_then(|place| state.asking.try_remove(place))
            {
                Some(Asking::Answered(answered)) => Poll::Ready(answered),
                // It was polled after its answer.
                _ => Poll::Pending,
            }
        })
    }

    /// Hands a record its answer.
    fn answer(&self, asker: usize, answered: Answered<A>) {
        let mut state = self.state();
        state.unanswered -= 1;
        let asking = state.asking.get_mut(asker);
        let asking = asking.map(|asking| mem::replace(asking, Asking::Answered(answered)));
        drop(state);
        if let Some(Asking::Waits(waker)) = asking {
            waker.wake();
        }
    }

    /// Returns whether a record waits for its answer, or has not seen it yet.
    pub(super) fn is_asked(&self) -> bool {
        !self.state().asking.is_empty()
    }

    /// Returns how many more entries fill all requests that may be in flight, if `full` entries fill one.
    pub(super) fn room(&self, full: usize) -> usize {
        let state = self.state();
        let free = self.most.saturating_sub(state.in_flight);
        free.saturating_mul(full)
            .saturating_sub(state.waiting.len())
    }

    /// Returns whether a request is due, so that no further handler may delay it: it is full, or its first entry waits for
    /// long. A handler that never waits would also keep the answer to a request that was just sent from being seen.
    pub(super) fn is_due(&self, full: usize) -> bool {
        let state = self.state();
        let is_overdue = |one: &Waiting<E>| one.since.elapsed() >= OVERDUE;
        let waits_for_long =
            || state.in_flight == 0 && state.waiting.front().is_some_and(is_overdue);
        let is_waiting = state.waiting.len() >= full || waits_for_long();
        state.is_sending || (state.in_flight < self.most && is_waiting)
    }

    /// Returns whether the entries of a request wait to be sent.
    pub(super) fn has(&self, full: usize) -> bool {
        self.state().waiting.len() >= full
    }

    /// Sends requests, and hands their answers to the records. Never ends.
    pub(super) async fn drive<R>(&self, requests: &R) -> Infallible
    where
        R: Requests<Entry = E, Answer = A>,
    {
        let mut in_flight = FuturesUnordered::new();
        let mut silent = pin!(sleep_until(Instant::now()));
        poll_fn(|context| {
            let (mut is_sent, mut is_answered) = (false, false);
            loop {
                // After an answer, its record may have more to add to a request that is not full.
                while in_flight.len() < self.most
                    && let Some(group) = self.next_group(requests, in_flight.len(), is_answered)
                {
                    let (entries, askers): (Vec<_>, Vec<_>) = group
                        .into_iter()
                        .map(|waiting| (waiting.entry, waiting.asker))
                        .unzip();
                    in_flight.push(async move { (askers, requests.send(entries).await) });
                    is_sent = true;
                }
                self.state().in_flight = in_flight.len();
                let Poll::Ready(Some((askers, answers))) = in_flight.poll_next_unpin(context)
                else {
                    break;
                };
                is_answered = true;
                let bits = match answers.iter().any(R::may_pause) {
                    true => requests.bits(),
                    false => 0,
                };
                for (asker, answer) in askers.into_iter().zip(answers) {
                    self.answer(asker, Answered { answer, bits });
                }
            }
            self.state().in_flight = in_flight.len();
            let was_sent = mem::replace(&mut self.state().is_sending, is_sent);
            if was_sent {
                requests.sent();
            }
            let first = self.state().waiting.front().map(|one| one.since + SILENT);
            if let Some(first) = first
                && !in_flight.is_empty()
            {
                if silent.deadline() != first {
                    silent.as_mut().reset(first);
                }
                let _ = silent.as_mut().poll(context);
            }
            if is_answered || is_sent {
                context.waker().wake_by_ref();
            }
            Poll::Pending
        })
        .await
    }

    /// Takes the entries of the next request to send.
    fn next_group<R>(
        &self,
        requests: &R,
        in_flight: usize,
        only_full: bool,
    ) -> Option<Vec<Waiting<E>>>
    where
        R: Requests<Entry = E, Answer = A>,
    {
        let mut state = self.state();
        let mut passed: Vec<R::Needs> = Vec::new();
        for at in 0..state.waiting.len() {
            let Waiting {
                entry: first,
                since,
                ..
            } = &state.waiting[at];
            let load = Load {
                in_flight,
                unanswered: state.unanswered,
                is_silent: since.elapsed() >= SILENT,
            };
            let needs = requests.needs(first);
            if passed.contains(&needs) {
                continue;
            }
            let full = requests.full(first);
            let is_alike = |one: &Waiting<E>| requests.needs(&one.entry) == needs;
            let alike = state.waiting.range(at..).filter(|one| is_alike(one));
            let count = alike.take(full).count();
            let waits = only_full || requests.waits(first, load);
            if count == full || !waits || state.waiting.len() >= full {
                let mut group = Vec::with_capacity(count);
                let mut at = at;
                while group.len() < count {
                    match is_alike(&state.waiting[at]) {
                        true => group.extend(state.waiting.remove(at)),
                        false => at += 1,
                    }
                }
                return Some(group);
            }
            passed.push(needs);
        }
        None
    }

    fn state(&self) -> MutexGuard<'_, State<E, A>> {
        // A panic can't leave the state half changed, because each change is one call.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
