//! Decides when there are too many lines to read.

use std::collections::VecDeque;
use std::time::{Duration, SystemTime};

/// The time over which lines are counted, so that a short burst is still shown.
const WINDOW: Duration = Duration::from_secs(5);
/// The most lines in that time.
pub(super) const MOST: usize = 100;

/// Counts the lines about messages by the times of their events.
#[derive(Default)]
pub(super) struct Pace {
    recent: VecDeque<SystemTime>,
    is_high: bool,
}

impl Pace {
    pub(super) fn is_high(&self) -> bool {
        self.is_high
    }

    /// Adds lines. A high pace stays high until it has halved, so that it does not flip.
    pub(super) fn add(&mut self, lines: usize, at: SystemTime) {
        self.recent.extend(std::iter::repeat_n(at, lines));
        while self
            .recent
            .pop_front_if(|one| *one + WINDOW <= at)
            .is_some()
        {}
        let most = if self.is_high { MOST / 2 } else { MOST };
        self.is_high = self.recent.len() > most;
    }
}
