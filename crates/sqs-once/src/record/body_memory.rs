//! How much memory fetched bodies may take.

use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

/// The memory that the fetched bodies of all batches may take together.
#[derive(Debug)]
pub(crate) struct BodyMemory {
    total: usize,
    /// What a body may take at most. It is reserved before a body is fetched, because its size is not known before.
    body: usize,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    /// Bodies that are here take this.
    held: usize,
    /// Bodies that are being fetched take this at most.
    reserved: usize,
    waiting: Vec<Waker>,
}

/// The part of a body, until it is dropped with the body.
#[derive(Debug)]
pub(crate) struct HeldMemory {
    memory: Arc<BodyMemory>,
    bytes: usize,
    is_fetched: bool,
}

/// Whether a body may be fetched now.
pub(crate) enum Reserved {
    Now(HeldMemory),
    /// When bodies that are being fetched turn out to be smaller.
    MayCome,
    /// Only when a body is dropped.
    Full,
}

impl BodyMemory {
    /// A body that is larger than `body`, or than all of the memory, is not fetched.
    #[cfg_attr(not(feature = "s3"), expect(dead_code, reason = "nothing is fetched"))]
    pub(crate) fn new(total: usize, body: usize) -> Arc<Self> {
        Arc::new(Self {
            total,
            body: body.min(total),
            taken: Mutex::default(),
        })
    }

    /// Reserves memory for a body if there is enough. Otherwise the waker is called when there may be.
    pub(crate) fn reserve(self: &Arc<Self>, waker: &Waker) -> Reserved {
        let mut taken = self.taken();
        if taken.held + taken.reserved + self.body <= self.total {
            taken.reserved += self.body;
            return Reserved::Now(HeldMemory {
                memory: Arc::clone(self),
                bytes: self.body,
                is_fetched: false,
            });
        }
        taken.waiting.push(waker.clone());
        match taken.held + self.body <= self.total {
            true => Reserved::MayCome,
            false => Reserved::Full,
        }
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Taken)) {
        let mut taken = self.taken();
        change(&mut taken);
        let waiting = mem::take(&mut taken.waiting);
        drop(taken);
        waiting.into_iter().for_each(Waker::wake);
    }
}

impl HeldMemory {
    /// Keeps what a body takes that has been fetched.
    pub(super) fn fetched(mut self, bytes: usize) -> Self {
        let reserved = mem::replace(&mut self.bytes, bytes);
        self.is_fetched = true;
        self.memory.change(|taken| {
            taken.reserved -= reserved;
            taken.held += bytes;
        });
        self
    }
}

impl Drop for HeldMemory {
    fn drop(&mut self) {
        self.memory.change(|taken| match self.is_fetched {
            true => taken.held -= self.bytes,
            false => taken.reserved -= self.bytes,
        });
    }
}
