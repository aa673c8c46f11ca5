//! What handlers note, and how many of them run at once.

use std::future::{Ready, ready};
use std::sync::{Arc, Mutex};

use sqs_once::HandlerError;

/// Notes in order. Clones share them.
#[derive(Debug)]
pub(crate) struct Notes<T>(Arc<Mutex<Vec<T>>>);

impl<T> Clone for Notes<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Default for Notes<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T> Notes<T> {
    /// The notes, for a test to read, and for its consumer to add to.
    pub(crate) fn pair() -> (Self, Self) {
        let notes = Arc::default();
        (Self(Arc::clone(&notes)), Self(notes))
    }

    pub(crate) fn add(&self, note: T) {
        self.0.lock().unwrap().push(note);
    }

    pub(crate) fn take(&self) -> Vec<T> {
        std::mem::take(&mut self.0.lock().unwrap())
    }

    pub(crate) fn len(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

impl<T: Ord> Notes<T> {
    pub(crate) fn take_sorted(&self) -> Vec<T> {
        let mut notes = self.take();
        notes.sort();
        notes
    }
}

/// The end of a handler or hook that notes something.
pub(crate) type Noted = Ready<Result<(), HandlerError>>;

impl<T: Send + 'static> Notes<T> {
    /// A handler, or a hook, that notes this of its argument.
    pub(crate) fn of<A>(
        self,
        what: impl Fn(A) -> T + Clone + Send + Sync + 'static,
    ) -> impl Fn(A) -> Noted + Clone + Send + Sync + 'static {
        move |it| {
            self.add(what(it));
            ready(Ok(()))
        }
    }

    /// A handler that notes this of its payload and an extractor.
    pub(crate) fn of_both<A, B>(
        self,
        what: impl Fn(A, B) -> T + Clone + Send + Sync + 'static,
    ) -> impl Fn(A, B) -> Noted + Clone + Send + Sync + 'static {
        move |payload, extracted| {
            self.add(what(payload, extracted));
            ready(Ok(()))
        }
    }
}

impl<T: Clone> Notes<T> {
    pub(crate) fn all(&self) -> Vec<T> {
        self.0.lock().unwrap().clone()
    }
}

/// The IDs of the orders that a handler received.
pub(crate) type Seen = Notes<String>;

/// The number of things that exist at the same time. Clones count together.
#[derive(Clone, Default)]
pub(crate) struct AtOnce(Arc<Mutex<(usize, usize)>>);

impl AtOnce {
    /// Counts one more, until the result is dropped.
    pub(crate) fn enter(&self) -> Counted {
        let mut count = self.0.lock().unwrap();
        *count = (count.0 + 1, count.1.max(count.0 + 1));
        Counted(self.clone())
    }

    /// Counts one more while this runs.
    pub(crate) fn during<F: Future>(&self, run: F) -> impl Future<Output = F::Output> + use<F> {
        let counted = self.enter();
        async move {
            let _counted = counted;
            run.await
        }
    }

    pub(crate) fn now(&self) -> usize {
        self.0.lock().unwrap().0
    }

    pub(crate) fn most(&self) -> usize {
        self.0.lock().unwrap().1
    }
}

pub(crate) struct Counted(AtOnce);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.0.lock().unwrap().0 -= 1;
    }
}
