//! A queue of work of which a limited number runs at once.

use std::collections::VecDeque;
use std::future::pending;
use std::num::NonZeroUsize;

use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};

type Start<'a, W, T> = Box<dyn Fn(W) -> BoxFuture<'a, T> + Send + Sync + 'a>;

pub(super) struct Limited<'a, W, T> {
    limit: NonZeroUsize,
    start: Start<'a, W, T>,
    waiting: VecDeque<W>,
    running: FuturesUnordered<BoxFuture<'a, T>>,
}

impl<'a, W, T> Limited<'a, W, T> {
    pub(super) fn new<F>(limit: NonZeroUsize, start: impl Fn(W) -> F + Send + Sync + 'a) -> Self
    where
        F: Future<Output = T> + Send + 'a,
    {
        Self {
            limit,
            start: Box::new(move |work| Box::pin(start(work))),
            waiting: VecDeque::new(),
            running: FuturesUnordered::new(),
        }
    }

    pub(super) fn push(&mut self, work: W) {
        self.waiting.push_back(work);
        self.start_waiting();
    }

    pub(super) fn is_idle(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len() + self.running.len()
    }

    pub(super) fn take_waiting(&mut self) -> VecDeque<W> {
        std::mem::take(&mut self.waiting)
    }

    /// Waits for the next work that ends. Pending forever if none runs.
    pub(super) async fn next(&mut self) -> T {
        let Some(ended) = self.running.next().await else {
            return pending().await;
        };
        self.start_waiting();
        ended
    }

    fn start_waiting(&mut self) {
        while self.running.len() < self.limit.get()
            && let Some(work) = self.waiting.pop_front()
        {
            self.running.push((self.start)(work));
        }
    }
}
