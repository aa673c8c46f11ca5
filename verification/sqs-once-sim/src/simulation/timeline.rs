//! The events of one schedule, one per line.

use std::fmt::Display;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::time::Instant;

/// All clones write to one timeline.
#[derive(Clone, Debug)]
pub(crate) struct Timeline {
    started: Instant,
    /// `None` if the schedule is not recorded.
    lines: Option<Arc<Mutex<Vec<String>>>>,
}

impl Timeline {
    /// Starts now. Without recording, it costs nothing.
    pub(crate) fn new(records: bool) -> Self {
        Self {
            started: Instant::now(),
            lines: records.then(Arc::default),
        }
    }

    /// Adds a line with the true time and its subject.
    pub(crate) fn note(&self, who: impl Display, what: impl Display) {
        let Some(lines) = &self.lines else { return };
        let at = self.seconds(Instant::now());
        let line = format!("{at:>10.3} s  {who:<8} {what}");
        lines.lock().push(line);
    }

    /// A moment, in the format of the lines.
    pub(crate) fn seconds(&self, moment: Instant) -> f64 {
        moment.duration_since(self.started).as_secs_f64()
    }

    /// A moment, for the judge.
    pub(crate) fn nanos(&self, moment: Instant) -> u64 {
        moment.duration_since(self.started).as_nanos() as u64
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        let lines = self.lines.iter();
        lines.flat_map(|lines| lines.lock().clone()).collect()
    }
}
