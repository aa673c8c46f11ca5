//! Wakes the runtime when a batch's answer is due.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::time::Instant;

/// The alarms of this process. One thread serves them all, because starting a thread for each batch costs as much CPU
/// time as handling several records.
static ALARMS: Mutex<Alarms> = Mutex::new(Alarms {
    set: Vec::new(),
    next: 0,
    thread: Thread::NotStarted,
});
static SET: Condvar = Condvar::new();

struct Alarms {
    set: Vec<(u64, Instant, Handle)>,
    next: u64,
    thread: Thread,
}

enum Thread {
    NotStarted,
    /// Waits until this time, or without limit. It then looks for later alarms, so setting one does not wake it.
    WaitsUntil(Option<Instant>),
}

/// Wakes a worker of the runtime when the answer is due, unless it is dropped first.
///
/// One Tokio worker drives timers and network for all workers. If it runs a task whose handler blocks, no timer fires and
/// no answer goes out until another thread wakes a second worker.
pub(super) struct Alarm {
    /// `None` in a runtime with one thread, which is either blocked or wakes by itself.
    id: Option<u64>,
}

impl Alarm {
    pub(super) fn at(due: Instant) -> Self {
        let runtime = Handle::current();
        if runtime.runtime_flavor() == RuntimeFlavor::CurrentThread {
            return Self { id: None };
        }
        let mut alarms = alarms();
        let id = alarms.next;
        alarms.next += 1;
        alarms.set.push((id, due, runtime));
        match alarms.thread {
            Thread::WaitsUntil(Some(until)) if until <= due => {}
            Thread::WaitsUntil(_) => SET.notify_one(),
            Thread::NotStarted => {
                let builder = thread::Builder::new().name("sqs-once-alarm".to_owned());
                // If the thread can't start, the answer is late only while a handler blocks.
                if builder.spawn(ring).is_ok() {
                    alarms.thread = Thread::WaitsUntil(None);
                }
            }
        }
        Self { id: Some(id) }
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        alarms().set.retain(|(id, ..)| Some(*id) != self.id);
    }
}

/// Rings each alarm when it is due. Never ends.
fn ring() {
    let mut alarms = alarms();
    loop {
        let now = Instant::now();
        for (_, _, runtime) in alarms.set.extract_if(.., |(_, due, _)| *due <= now) {
            runtime.spawn(async {});
        }
        let first = alarms.set.iter().map(|(_, due, _)| *due).min();
        alarms.thread = Thread::WaitsUntil(first);
        alarms = match first {
            None => SET.wait(alarms).unwrap_or_else(PoisonError::into_inner),
            Some(due) => {
                let left = due.saturating_duration_since(now);
                let waited = SET.wait_timeout(alarms, left);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        };
    }
}

fn alarms() -> MutexGuard<'static, Alarms> {
    // A panic can't leave the alarms half changed, because each change is one call.
    ALARMS.lock().unwrap_or_else(PoisonError::into_inner)
}
