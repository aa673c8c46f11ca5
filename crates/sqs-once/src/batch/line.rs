//! Records that wait in line for the same thing.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use crate::handler::Running;

/// A line in which only the first may take what all wait for, so that no record overtakes another.
///
/// Records of a batch do not wait for each other with Tokio's primitives. Those use up the task's budget, and without a
/// budget a record that is ready looks as if it waited.
pub(super) struct Line {
    /// How many routes its records may have. The first record of each route may take, in the order of all.
    routes: usize,
    places: Mutex<Places>,
}

#[derive(Default)]
struct Places {
    last: u64,
    waiting: VecDeque<Waiting>,
}

struct Waiting {
    number: u64,
    route: usize,
    waker: Waker,
}

impl Line {
    pub(super) fn new(routes: usize) -> Self {
        Self {
            routes,
            places: Mutex::default(),
        }
    }

    /// Waits until `take` returns something. Each call tells it whether its caller is the first of its route in line.
    pub(super) async fn wait<T>(&self, route: usize, mut take: impl FnMut(bool) -> Option<T>) -> T {
        let mut place = Place {
            line: self,
            route,
            number: None,
        };
        poll_fn(|context| match take(place.is_first()) {
            Some(taken) => Poll::Ready(taken),
            None => {
                place.keep(context.waker());
                Poll::Pending
            }
        })
        .await
    }

    /// Returns whether no record of a route waits.
    pub(super) fn is_empty(&self, route: usize) -> bool {
        let places = self.places();
        places.waiting.iter().all(|one| one.route != route)
    }

    /// Call it when there may be something to take.
    pub(super) fn wake_first(&self) {
        if self.routes == 1 {
            let first = self.places().waiting.front().map(|one| one.waker.clone());
            first.into_iter().for_each(Waker::wake);
            return;
        }
        let mut seen: Vec<usize> = Vec::new();
        let mut first = Vec::new();
        for one in &self.places().waiting {
            if !seen.contains(&one.route) {
                seen.push(one.route);
                first.push(one.waker.clone());
                if seen.len() == self.routes {
                    break;
                }
            }
        }
        first.into_iter().for_each(Waker::wake);
    }

    /// Call it when those behind the first may have to leave the line.
    pub(super) fn wake_all(&self) {
        let waiting = &self.places().waiting;
        let all: Vec<_> = waiting.iter().map(|one| one.waker.clone()).collect();
        all.into_iter().for_each(Waker::wake);
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place in line, from the first poll that found nothing to take.
struct Place<'a> {
    line: &'a Line,
    route: usize,
    number: Option<u64>,
}

impl Place<'_> {
    fn is_first(&self) -> bool {
        let places = self.line.places();
        let mut of_route = places.waiting.iter().filter(|one| one.route == self.route);
        let first = of_route.next().map(|one| one.number);
        first == self.number
    }

    fn keep(&mut self, waker: &Waker) {
        let mut places = self.line.places();
        let Some(number) = self.number else {
            places.last += 1;
            self.number = Some(places.last);
            let place = Waiting {
                number: places.last,
                route: self.route,
                waker: waker.clone(),
            };
            places.waiting.push_back(place);
            return;
        };
        // The numbers are sorted.
        if let Ok(at) = places
            .waiting
            .binary_search_by_key(&number, |one| one.number)
        {
            places.waiting[at].waker.clone_from(waker);
        }
    }
}

/// A record that leaves wakes the next, because more than one thing may have become free at once.
impl Drop for Place<'_> {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            let mut places = self.line.places();
            if let Ok(at) = places
                .waiting
                .binary_search_by_key(&number, |one| one.number)
            {
                places.waiting.remove(at);
            }
            drop(places);
            self.line.wake_first();
        }
    }
}

/// A number of turns that records take, in the order in which they asked.
pub(super) struct Limit {
    turns: usize,
    taken: Mutex<Taken>,
    pub(super) line: Line,
}

#[derive(Default)]
struct Taken {
    /// Calls that have not ended have these.
    running: usize,
    /// Blocking code has these that goes on after its call was cancelled.
    overrunning: usize,
}

/// One of a limited number of turns, until it is dropped.
pub(super) struct Turn {
    limit: Arc<Limit>,
    overruns: bool,
}

impl Limit {
    pub(super) fn new(turns: NonZeroUsize, routes: usize) -> Arc<Self> {
        Arc::new(Self {
            turns: turns.get(),
            taken: Mutex::default(),
            line: Line::new(routes),
        })
    }

    /// Waits for a turn, or until `stopped` returns a reason to stop waiting.
    pub(super) async fn take<E>(
        self: &Arc<Self>,
        stopped: impl Fn() -> Option<E>,
    ) -> Result<Turn, E> {
        self.line
            .wait(0, |is_first| match stopped() {
                Some(why) => Some(Err(why)),
                None if is_first => self.try_take().map(Ok),
                None => None,
            })
            .await
    }

    pub(super) fn try_take(self: &Arc<Self>) -> Option<Turn> {
        // Only the batch takes turns. Code of other tasks only gives them back.
        self.is_free().then(|| {
            self.taken().running += 1;
            Turn {
                limit: Arc::clone(self),
                overruns: false,
            }
        })
    }

    pub(super) fn is_free(&self) -> bool {
        let taken = self.taken();
        taken.running + taken.overrunning < self.turns
    }

    /// Returns how many turns are taken by calls that have not ended.
    pub(super) fn running(&self) -> usize {
        self.taken().running
    }

    /// Returns whether code of cancelled calls has all turns, so that none may become free.
    pub(super) fn is_overrun(&self) -> bool {
        self.taken().overrunning >= self.turns
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Turn {
    /// Keeps the turn, and what else `held` is, until the blocking code of its cancelled call has ended.
    pub(super) fn keep(mut self, code: Running, held: impl Send + 'static) {
        {
            let mut taken = self.limit.taken();
            taken.running -= 1;
            taken.overrunning += 1;
            self.overruns = true;
        }
        // Those that wait may now wait for nothing.
        self.limit.line.wake_all();
        tokio::spawn(async move {
            code.ended().await;
            drop((held, self));
        });
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut taken = self.limit.taken();
        match self.overruns {
            true => taken.overrunning -= 1,
            false => taken.running -= 1,
        }
        drop(taken);
        self.limit.line.wake_first();
    }
}
