//! Processes, which die, freeze, and lose their network.

use std::fmt;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::ids::Ids;
use super::watchdog::Watchdog;

/// How much earlier than its code the watchdog of a process that thaws looks at the clock.
const EARLIER: Duration = Duration::from_millis(1);

/// A process. When it dies, its code stops, but requests that it sent still arrive. All clones are one process.
#[derive(Clone, Debug)]
pub(crate) struct Process {
    pub(crate) name: usize,
    /// Whether it runs the previous version.
    pub(crate) is_old: bool,
    ids: [Ids; 2],
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    died: Notify,
    watchdog: Watchdog,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    died_at: Option<Instant>,
    cut_off: bool,
    is_slow: bool,
    frozen_until: Option<Instant>,
    troubled_at: Option<Instant>,
}

impl Process {
    /// `ids` are its own ids for the keys, and those that it also reads: if these are the same, it reads only its own.
    pub(crate) fn new(name: usize, is_old: bool, ids: [Ids; 2]) -> Self {
        Self {
            name,
            is_old,
            ids,
            shared: Arc::default(),
        }
    }

    pub(crate) fn ids(&self) -> Ids {
        self.ids[0]
    }

    /// The ids that it reads after it has claimed or read its own, if any.
    pub(crate) fn also_reads(&self) -> Option<Ids> {
        let [own, other] = self.ids;
        (own != other).then_some(other)
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

    pub(crate) async fn died(&self) {
        let died = self.shared.died.notified();
        if !self.is_dead() {
            died.await;
        }
    }

    /// From now on, requests of the process don't arrive.
    pub(crate) fn cut_off(&self) {
        self.state().cut_off = true;
    }

    pub(crate) fn is_cut_off(&self) -> bool {
        self.state().cut_off
    }

    /// From now on, many requests of the process are late.
    pub(crate) fn slow_down(&self) {
        self.state().is_slow = true;
    }

    pub(crate) fn is_slow(&self) -> bool {
        self.state().is_slow
    }

    /// Freezes the process: until then it neither sends nor receives anything, and its handlers stop. Its timers still
    /// fire in time; those of a real process would all fire when it continues.
    pub(crate) fn freeze(&self, until: Instant) {
        self.troubled();
        let mut state = self.state();
        state.frozen_until = state.frozen_until.max(Some(until));
    }

    pub(crate) fn is_frozen(&self) -> bool {
        self.is_frozen_after(Instant::now())
    }

    /// Whether the process was frozen at some time after this.
    pub(crate) fn is_frozen_after(&self, moment: Instant) -> bool {
        let until = self.state().frozen_until;
        until.is_some_and(|until| moment < until)
    }

    /// Waits while the process is frozen. Never returns once it is dead.
    pub(crate) async fn goes_on(&self) {
        self.awaken(Duration::ZERO).await;
    }

    /// Waits while the process is frozen, and returns before any of its code goes on.
    pub(crate) async fn thaws(&self) {
        if !self.is_dead() {
            self.awaken(EARLIER).await;
        }
    }

    async fn awaken(&self, earlier: Duration) {
        loop {
            let State {
                died_at,
                frozen_until,
                ..
            } = *self.state();
            match frozen_until {
                _ if died_at.is_some() => pending().await,
                Some(until) if Instant::now() + earlier < until => {
                    sleep_until(until - earlier).await;
                }
                _ => return,
            }
        }
    }

    /// Something disturbs the process, which may keep it from renewing a lease.
    pub(crate) fn troubled(&self) {
        self.state().troubled_at = Some(Instant::now());
    }

    pub(crate) fn has_been_troubled_after(&self, moment: Instant) -> bool {
        let State {
            troubled_at,
            cut_off,
            ..
        } = *self.state();
        cut_off || troubled_at.is_some_and(|at| moment <= at)
    }

    pub(crate) fn watchdog(&self) -> &Watchdog {
        &self.shared.watchdog
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock()
    }
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // `pad` respects the width of the column.
        f.pad(&format!("p{}", self.name))
    }
}
