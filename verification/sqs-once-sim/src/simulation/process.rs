//! Processes: they die, freeze, and lose their network.

use std::fmt;
use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// A process: what it does ends when it dies, but not what it has sent. Clones are one process.
#[derive(Clone, Debug)]
pub(crate) struct Process {
    name: usize,
    is_old: bool,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    died: Notify,
}

#[derive(Debug, Default)]
struct State {
    died_at: Option<Instant>,
    cut_off: bool,
    frozen_until: Option<Instant>,
}

impl Process {
    pub(crate) fn new(name: usize, is_old: bool) -> Self {
        Self {
            name,
            is_old,
            shared: Arc::default(),
        }
    }

    /// Its number among the processes of its schedule.
    pub(crate) fn name(&self) -> usize {
        self.name
    }

    /// Whether it claims as the version before did.
    pub(crate) fn is_old(&self) -> bool {
        self.is_old
    }

    pub(crate) fn die(&self) {
        self.state().died_at.get_or_insert_with(Instant::now);
        self.shared.died.notify_waiters();
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.died_at().is_some()
    }

    pub(crate) fn died_at(&self) -> Option<Instant> {
        self.state().died_at
    }

    /// Ends when the process is dead.
    pub(crate) async fn died(&self) {
        let died = self.shared.died.notified();
        if !self.is_dead() {
            died.await;
        }
    }

    /// From now on nothing that it sends arrives.
    pub(crate) fn cut_off(&self) {
        self.state().cut_off = true;
    }

    pub(crate) fn is_cut_off(&self) -> bool {
        self.state().cut_off
    }

    /// It neither sends nor hears anything until then, and its handlers don't move. Its timers go off in time, as they
    /// would all at once when it goes on.
    pub(crate) fn freeze(&self, until: Instant) {
        self.state().frozen_until = Some(until);
    }

    /// Whether it was frozen at some time after this.
    pub(crate) fn is_frozen_after(&self, moment: Instant) -> bool {
        let until = self.state().frozen_until;
        until.is_some_and(|until| moment < until)
    }

    /// What a process that is dead does not get past, and one that is frozen only when it goes on.
    pub(crate) async fn goes_on(&self) {
        loop {
            let frozen_until = {
                let state = self.state();
                if state.died_at.is_some() {
                    None
                } else {
                    Some(state.frozen_until)
                }
            };
            match frozen_until {
                None => pending().await,
                Some(Some(until)) if Instant::now() < until => sleep_until(until).await,
                Some(_) => return,
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while the lock is held.
        self.shared
            .state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The name fills its column.
        f.pad(&format!("p{}", self.name))
    }
}
