//! Looks after batches from a thread of its own: wakes a runtime whose answer is due, and ends a process whose code would
//! outlive the lease of its key.

use std::process::exit;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::time::Instant;
use tracing::{error, warn};

use crate::idempotency::Deadline;
use crate::telemetry::flush;
use crate::time::{Clock, Timestamp};

use super::held::Held;

/// How often the thread looks. One thread serves all batches, because starting one costs as much CPU time as handling
/// several records. A task could not do this: handlers may block every thread of the runtime, and its timers stop while the
/// process is frozen.
const PERIOD: Duration = Duration::from_millis(100);

/// The looks in a row after which a runtime that has run nothing in between counts as blocked. Not a time, because the
/// process may be frozen between two looks.
const BLOCKED: u32 = 10;

/// How long the process waits for its last line.
const LAST_LINE: Duration = Duration::from_millis(500);

static WATCHDOG: Mutex<Watchdog> = Mutex::new(Watchdog {
    is_on: false,
    has_thread: false,
    silent: 0,
    watched: Vec::new(),
});
static ADDED: Condvar = Condvar::new();
static DRAINS: AtomicBool = AtomicBool::new(false);
/// Whether the runtime has run something since the last look.
static AWAKE: AtomicBool = AtomicBool::new(false);
/// The invocations whose answers Lambda does not have.
static IN_FLIGHT: AtomicUsize = AtomicUsize::new(0);

struct Watchdog {
    /// Whether it may end the process.
    is_on: bool,
    has_thread: bool,
    /// The looks in a row after which the runtime had not run what woke it.
    silent: u32,
    /// The batches that are not answered, and those whose code goes on.
    watched: Vec<Arc<Watched>>,
}

struct Watched {
    held: Held,
    clock: Arc<dyn Clock>,
    runtime: Handle,
    answer_by: Instant,
    /// When code on these claims must have ended, in milliseconds.
    ends_by: AtomicU64,
    is_answered: AtomicBool,
}

/// A batch under the watchdog, until it is answered and its code has ended.
pub(super) struct Watch(Option<Arc<Watched>>);

/// An invocation, until Lambda has its answer.
pub(crate) struct InFlight(());

/// Lets the watchdog end this process. Only [`run`](crate::run) does so: any other program decides itself when it ends.
pub(crate) fn turn_on() {
    watchdog().is_on = true;
}

/// Counts an invocation from the moment at which its event is there. `None` if the process takes no further event: SQS
/// delivers this one again.
pub(crate) fn invoked() -> Option<InFlight> {
    IN_FLIGHT.fetch_add(1, Ordering::SeqCst);
    let in_flight = InFlight(());
    (!is_draining()).then_some(in_flight)
}

impl Drop for InFlight {
    fn drop(&mut self) {
        IN_FLIGHT.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Returns whether the process takes no further event, because code can't keep its key. It ends when it is idle.
pub(crate) fn is_draining() -> bool {
    DRAINS.load(Ordering::SeqCst)
}

impl Watch {
    /// Watches a batch whose code must end in time, unless its leases are renewed.
    pub(super) fn begin(held: &Held, clock: &Arc<dyn Clock>, deadline: &Deadline) -> Self {
        let runtime = Handle::current();
        // A runtime with one thread is either blocked or wakes by itself.
        let needs_waking = runtime.runtime_flavor() != RuntimeFlavor::CurrentThread;
        let mut watchdog = watchdog();
        if !watchdog.is_on && !needs_waking {
            return Self(None);
        }
        if !watchdog.has_thread {
            let builder = thread::Builder::new().name("sqs-once-watchdog".to_owned());
            // Without it, the answer is late while a handler blocks.
            watchdog.has_thread = builder.spawn(watch).is_ok();
            if !watchdog.has_thread {
                return Self(None);
            }
        }
        let watched = Arc::new(Watched {
            held: held.clone(),
            clock: Arc::clone(clock),
            runtime,
            answer_by: deadline.answer_by,
            ends_by: AtomicU64::new(deadline.code_ends_by().as_millis()),
            is_answered: AtomicBool::new(false),
        });
        watchdog.watched.push(Arc::clone(&watched));
        if watchdog.watched.len() == 1 {
            ADDED.notify_one();
        }
        Self(Some(watched))
    }

    /// Notes that the leases of all claims were renewed.
    pub(super) fn renewed(&self, ends_by: Timestamp) {
        if let Some(watched) = &self.0 {
            watched.ends_by.store(ends_by.as_millis(), Ordering::SeqCst);
        }
    }

    /// Notes that the batch has its answer.
    pub(super) fn answered(&self) {
        if let Some(watched) = &self.0 {
            watched.is_answered.store(true, Ordering::SeqCst);
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.answered();
    }
}

impl Watched {
    fn is_answered(&self) -> bool {
        self.is_answered.load(Ordering::SeqCst)
    }

    /// Wakes a worker of the runtime once the answer is due, and while leases are renewed.
    ///
    /// One Tokio worker drives timers and network for all workers. If it runs a task whose handler blocks, no timer fires
    /// and no answer goes out until another thread wakes a second worker.
    fn wake(&self, now: Instant) {
        if now >= self.answer_by {
            self.runtime
                .spawn(async { AWAKE.store(true, Ordering::SeqCst) });
        }
    }

    fn has_lapsed(&self) -> bool {
        let ends_by = Timestamp::from_millis(self.ends_by.load(Ordering::SeqCst));
        self.clock.now() >= ends_by && self.held.is_running()
    }
}

/// What the leases require.
enum Needs {
    Nothing,
    /// The process takes no further event, and ends later.
    Drain,
    End,
}

impl Watchdog {
    fn needs(&mut self, now: Instant) -> Needs {
        self.watched
            .retain(|one| !one.is_answered() || one.held.is_running());
        if !self.is_on {
            return Needs::Nothing;
        }
        let is_woken = self.watched.iter().any(|one| now >= one.answer_by);
        self.silent = match is_woken && !AWAKE.swap(false, Ordering::SeqCst) {
            true => self.silent + 1,
            false => 0,
        };
        let lapsed: Vec<_> = self.watched.iter().filter(|one| one.has_lapsed()).collect();
        if lapsed.is_empty() && !is_draining() {
            return Needs::Nothing;
        }
        // Code that blocks every thread holds up its own answer, and those of the others.
        let unanswered = lapsed.iter().filter(|one| !one.is_answered()).count();
        let is_blocked = !lapsed.is_empty() && self.silent >= BLOCKED;
        match !is_blocked && IN_FLIGHT.load(Ordering::SeqCst) > unanswered {
            true => Needs::Drain,
            false => Needs::End,
        }
    }
}

/// Looks at the leases while there are batches. Never ends, unless it ends the process.
fn watch() {
    loop {
        let mut watchdog = watchdog();
        while watchdog.watched.is_empty() && !is_draining() {
            watchdog = ADDED.wait(watchdog).unwrap_or_else(PoisonError::into_inner);
        }
        let now = Instant::now();
        let needs = watchdog.needs(now);
        watchdog.watched.iter().for_each(|one| one.wake(now));
        let due = watchdog.watched.iter().map(|one| one.answer_by);
        let next = due.filter(|due| *due > now).min();
        drop(watchdog);
        match needs {
            Needs::Nothing => {}
            Needs::Drain if DRAINS.swap(true, Ordering::SeqCst) => {}
            Needs::Drain => drop(told(|| {
                warn!(
                    "code can't keep the lease of its key: this process takes no other event, and ends when the others are answered"
                );
            })),
            Needs::End => {
                let told = told(|| {
                    error!(
                        "code can't keep the lease of its key: this process ends itself, so that no other worker runs the key beside it"
                    );
                });
                let _ = told.recv_timeout(LAST_LINE);
                exit(1);
            }
        }
        let left = next.map_or(PERIOD, |due| due.duration_since(now));
        thread::sleep(left.min(PERIOD));
    }
}

/// Logs in a thread of its own: the code that blocks may be a log's, and would block the watchdog too. The receiver gets
/// something when the line is written.
fn told(log: impl FnOnce() + Send + 'static) -> Receiver<()> {
    let (tell, told) = channel();
    // Without a thread, the receiver is told that nothing will come.
    let _ = thread::Builder::new().spawn(move || {
        log();
        flush();
        let _ = tell.send(());
    });
    told
}

fn watchdog() -> MutexGuard<'static, Watchdog> {
    // A panic can't leave the list half changed, because each change is one call.
    WATCHDOG.lock().unwrap_or_else(PoisonError::into_inner)
}
