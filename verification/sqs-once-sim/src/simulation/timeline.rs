//! What happened in one schedule, line by line.

use std::fmt::Display;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::time::Instant;

/// Clones write to one timeline.
#[derive(Clone, Debug)]
pub(crate) struct Timeline {
    started: Instant,
    /// None in a schedule that nobody reads about.
    lines: Option<Arc<Mutex<Vec<String>>>>,
}

impl Timeline {
    /// Begins now. One that does not record costs nothing.
    pub(crate) fn new(records: bool) -> Self {
        Self {
            started: Instant::now(),
            lines: records.then(Arc::default),
        }
    }

    /// Adds a line, with the true time and who it is about.
    pub(crate) fn note(&self, who: impl Display, what: impl Display) {
        let Some(lines) = &self.lines else { return };
        let at = self.seconds(Instant::now());
        let line = format!("{at:>10.3} s  {who:<8} {what}");
        let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.push(line);
    }

    /// A moment, as the lines have it.
    pub(crate) fn seconds(&self, moment: Instant) -> f64 {
        moment.duration_since(self.started).as_secs_f64()
    }

    /// The lines so far.
    pub(crate) fn lines(&self) -> Vec<String> {
        let lines = self.lines.iter();
        lines
            .flat_map(|lines| lines.lock().unwrap_or_else(PoisonError::into_inner).clone())
            .collect()
    }
}
