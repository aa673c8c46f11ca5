//! The order in which records may start.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use crate::record::Message;

/// Decides which record may start next. In a FIFO queue one record of each message group runs at a time.
pub(crate) enum Lanes {
    Open {
        waiting: std::ops::Range<usize>,
    },
    Fifo {
        /// Each record's lane.
        lane_of: Vec<usize>,
        /// The waiting records of each lane, in order.
        lanes: Vec<VecDeque<usize>>,
        /// Lanes without a running record, in the order in which they became free.
        free: VecDeque<usize>,
    },
}

impl Lanes {
    pub(crate) fn open(records: usize) -> Self {
        Self::Open {
            waiting: 0..records,
        }
    }

    pub(crate) fn fifo(messages: &[Arc<Message>]) -> Self {
        let mut lanes: Vec<VecDeque<usize>> = Vec::new();
        let mut groups = HashMap::new();
        let mut lane_of = Vec::with_capacity(messages.len());
        for (index, message) in messages.iter().enumerate() {
            let lane = *groups.entry(message.group_id()).or_insert_with(|| {
                lanes.push(VecDeque::new());
                lanes.len() - 1
            });
            lanes[lane].push_back(index);
            lane_of.push(lane);
        }
        let free = (0..lanes.len()).collect();
        Self::Fifo {
            lane_of,
            lanes,
            free,
        }
    }

    /// Returns the next record that may start. Its lane stays occupied until [`Lanes::finish`].
    pub(crate) fn next(&mut self) -> Option<usize> {
        match self {
            Self::Open { waiting } => waiting.next(),
            Self::Fifo { lanes, free, .. } => {
                let lane = free.pop_front()?;
                lanes[lane].pop_front()
            }
        }
    }

    /// Frees the lane of a record that has ended, or removes and returns the rest of a group that stops.
    pub(crate) fn finish(&mut self, index: usize, group_goes_on: bool) -> Vec<usize> {
        let Self::Fifo {
            lane_of,
            lanes,
            free,
        } = self
        else {
            return Vec::new();
        };
        let lane = lane_of[index];
        if !group_goes_on {
            return lanes[lane].drain(..).collect();
        }
        if !lanes[lane].is_empty() {
            free.push_back(lane);
        }
        Vec::new()
    }

    /// Returns whether no record waits.
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Self::Open { waiting } => waiting.is_empty(),
            Self::Fifo { lanes, .. } => lanes.iter().all(VecDeque::is_empty),
        }
    }

    pub(crate) fn drain(&mut self) -> Vec<usize> {
        match self {
            Self::Open { waiting } => std::mem::replace(waiting, 0..0).collect(),
            Self::Fifo { lanes, free, .. } => {
                free.clear();
                let mut rest: Vec<_> = lanes.iter_mut().flat_map(|lane| lane.drain(..)).collect();
                rest.sort_unstable();
                rest
            }
        }
    }
}
