//! Ends a process whose code would outlive the lease of its key.

use std::process::exit;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tracing::{error, warn};

use crate::telemetry::flush;
use crate::time::{Clock, Timestamp};

use super::held::Held;

/// How often the leases are compared with the wall clock. A thread does so, because every thread of the runtime may be blocked, and
/// its timers stand still while the process is frozen.
const PERIOD: Duration = Duration::from_millis(100);

/// How long an answer takes to Lambda.
const SENDING: Duration = Duration::from_secs(1);

static WATCHDOG: Mutex<Watchdog> = Mutex::new(Watchdog {
    is_on: false,
    has_thread: false,
    watched: Vec::new(),
    answered: None,
});
static ADDED: Condvar = Condvar::new();
static DRAINS: AtomicBool = AtomicBool::new(false);

struct Watchdog {
    is_on: bool,
    has_thread: bool,
    /// The batches that are not answered, and those whose code goes on.
    watched: Vec<Arc<Watched>>,
    /// When the last batch was answered.
    answered: Option<Instant>,
}

struct Watched {
    held: Held,
    clock: Arc<dyn Clock>,
    /// When code on these claims must have ended, in milliseconds.
    ends_by: AtomicU64,
    is_answered: AtomicBool,
}

/// A batch under the watchdog, until it is answered and its code has ended.
pub(super) struct Watch(Option<Arc<Watched>>);

/// Lets the watchdog end this process. Only [`run`](crate::run) does so: any other program decides itself when it ends.
pub(crate) fn turn_on() {
    watchdog().is_on = true;
}

/// Returns whether the process takes no further event, because code can't keep its key. It ends when it is idle.
pub(crate) fn is_draining() -> bool {
    DRAINS.load(Ordering::SeqCst)
}

impl Watch {
    /// Watches a batch whose claims last until shortly after `ends_by`.
    pub(super) fn begin(held: &Held, clock: &Arc<dyn Clock>, ends_by: Timestamp) -> Self {
        let mut watchdog = watchdog();
        if !watchdog.is_on {
            return Self(None);
        }
        let watched = Arc::new(Watched {
            held: held.clone(),
            clock: Arc::clone(clock),
            ends_by: AtomicU64::new(ends_by.as_millis()),
            is_answered: AtomicBool::new(false),
        });
        watchdog.watched.push(Arc::clone(&watched));
        if !watchdog.has_thread {
            let builder = thread::Builder::new().name("sqs-once-watchdog".to_owned());
            watchdog.has_thread = builder.spawn(watch).is_ok();
        }
        ADDED.notify_one();
        Self(Some(watched))
    }

    /// Notes that the leases of all claims were renewed.
    pub(super) fn renewed(&self, ends_by: Timestamp) {
        if let Some(watched) = &self.0 {
            watched.ends_by.store(ends_by.as_millis(), Ordering::SeqCst);
        }
    }

    /// Notes that the answer is out.
    pub(super) fn answered(&self) {
        if let Some(watched) = &self.0
            && !watched.is_answered.swap(true, Ordering::SeqCst)
        {
            watchdog().answered = Some(Instant::now());
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.answered();
    }
}

impl Watched {
    fn is_in_flight(&self) -> bool {
        !self.is_answered.load(Ordering::SeqCst)
    }

    fn has_lapsed(&self) -> bool {
        let ends_by = Timestamp::from_millis(self.ends_by.load(Ordering::SeqCst));
        self.clock.now() >= ends_by && !self.held.running().is_empty()
    }
}

/// Looks at the leases while there are batches. Never ends, unless it ends the process.
fn watch() {
    let mut watchdog = watchdog();
    loop {
        let are_sent = watchdog.answered.is_none_or(|at| at.elapsed() >= SENDING);
        let watched = &mut watchdog.watched;
        watched.retain(|one| one.is_in_flight() || !one.held.running().is_empty());
        let (lapsed, others): (Vec<_>, Vec<_>) = watched.iter().partition(|one| one.has_lapsed());
        if !lapsed.is_empty() || (is_draining() && others.is_empty()) {
            end(!are_sent || others.iter().any(|one| one.is_in_flight()));
        }
        watchdog = match watchdog.watched.is_empty() && !is_draining() {
            true => ADDED.wait(watchdog).unwrap_or_else(PoisonError::into_inner),
            false => {
                let waited = ADDED.wait_timeout(watchdog, PERIOD);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        };
    }
}

/// Ends the process, or lets it take no further event if other batches are in flight.
fn end(others_are_in_flight: bool) {
    if others_are_in_flight {
        if !DRAINS.swap(true, Ordering::SeqCst) {
            warn!(
                "code can't keep the lease of its key: this process takes no other event, and ends when the others are answered"
            );
            flush();
        }
        return;
    }
    error!(
        "code can't keep the lease of its key: this process ends itself, so that no other worker runs the key beside it"
    );
    flush();
    exit(1);
}

fn watchdog() -> MutexGuard<'static, Watchdog> {
    // A panic can't leave the list half changed, because each change is one call.
    WATCHDOG.lock().unwrap_or_else(PoisonError::into_inner)
}
