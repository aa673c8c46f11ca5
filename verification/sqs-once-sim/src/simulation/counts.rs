//! Counts of events, which show that a schedule without violations was not trivial.

use std::fmt;
use std::ops::AddAssign;

use super::network::{Fault, FaultCounts};

/// An event or state that is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Count {
    Schedules,
    Invocations,
    ColdStarts,
    Overlaps,
    Deliveries,
    DeliveredInFlight,
    DeliveredDeleted,
    Requests,
    Claims,
    TakenOver,
    Refused,
    Recognised,
    OwnRecognised,
    Handlers,
    Effects,
    Records,
    Commits,
    Releases,
    RefusedSettlements,
    Answers,
    AnswersLost,
    DeletesLost,
    Deleted,
    DeadLetters,
    SentToDlq,
    Redriven,
    Postponed,
    Crashes,
    Timeouts,
    LateKills,
    Freezes,
    ClockJumps,
    FailedHandlers,
    Panics,
    TerminalHandlers,
    Hangs,
    Blocks,
    KilledAtWork,
    WindowDied,
    WindowCancelled,
    WindowUnanswered,
    WindowFailed,
    WindowUnrecorded,
    WindowConcurrent,
    OldClaims,
    OldReturned,
    BeyondOwners,
    BeyondRepeats,
    BeyondEnds,
}

impl Count {
    /// Every count in the order of the report, with its name there.
    const ALL: [(Self, &'static str); 49] = [
        (Self::Schedules, "schedules"),
        (Self::Invocations, "invocations"),
        (Self::ColdStarts, "processes started"),
        (Self::Overlaps, "invocations beside another in one process"),
        (Self::Deliveries, "deliveries"),
        (Self::DeliveredInFlight, "deliveries of what is out already"),
        (
            Self::DeliveredDeleted,
            "deliveries of what is deleted already",
        ),
        (Self::Requests, "requests"),
        (Self::Claims, "claims written"),
        (Self::TakenOver, "claims taken over from a lapsed lease"),
        (Self::Refused, "claims refused: in progress"),
        (Self::Recognised, "duplicates recognised by the store"),
        (
            Self::OwnRecognised,
            "claims refused by themselves, sent twice",
        ),
        (Self::Handlers, "handlers started"),
        (Self::Effects, "effects"),
        (Self::Records, "effects recorded"),
        (Self::Commits, "effects committed with their record"),
        (Self::Releases, "claims released"),
        (Self::RefusedSettlements, "settlements refused: lease lost"),
        (Self::Answers, "batches answered"),
        (Self::AnswersLost, "answers lost on their way to SQS"),
        (Self::DeletesLost, "deletions lost"),
        (Self::Deleted, "messages deleted"),
        (
            Self::DeadLetters,
            "messages moved to the DLQ by redrive policy",
        ),
        (Self::SentToDlq, "messages sent to the DLQ by the consumer"),
        (Self::Redriven, "messages redriven from the DLQ"),
        (
            Self::Postponed,
            "visibility timeouts changed by the consumer",
        ),
        (Self::Crashes, "crashes outside of requests"),
        (Self::Timeouts, "processes killed at their deadline"),
        (Self::LateKills, "of these, killed late"),
        (Self::Freezes, "freezes"),
        (Self::ClockJumps, "clocks set back or forward"),
        (Self::FailedHandlers, "handlers that failed"),
        (Self::Panics, "handlers that panicked"),
        (Self::TerminalHandlers, "handlers that gave up for good"),
        (Self::Hangs, "handlers that hung"),
        (Self::Blocks, "handlers with code that can't be cancelled"),
        (
            Self::KilledAtWork,
            "processes killed at their deadline while such code ran",
        ),
        (
            Self::WindowDied,
            "effects repeated: process died before the record",
        ),
        (
            Self::WindowCancelled,
            "effects repeated: handler cancelled at the deadline",
        ),
        (
            Self::WindowUnanswered,
            "effects repeated: effect's own request unanswered",
        ),
        (
            Self::WindowFailed,
            "effects repeated: handler failed after its effect",
        ),
        (
            Self::WindowUnrecorded,
            "effects repeated: record could not be written in time",
        ),
        (
            Self::WindowConcurrent,
            "effects repeated: two deliveries at once, without a claim",
        ),
        (
            Self::OldClaims,
            "beside the old version: claims that it wrote",
        ),
        (
            Self::OldReturned,
            "beside the old version: late copies of its ended claims that hold their key",
        ),
        (Self::BeyondOwners, "beyond the margins: two live owners"),
        (
            Self::BeyondRepeats,
            "beyond the margins: effects repeated outside of every window",
        ),
        (
            Self::BeyondEnds,
            "beyond the margins: messages that never ended",
        ),
    ];
}

/// The counts of one schedule or of many.
#[derive(Clone, Debug)]
pub struct Counts {
    counts: [u64; Count::ALL.len()],
    faults: FaultCounts,
}

impl Default for Counts {
    fn default() -> Self {
        Self {
            counts: [0; Count::ALL.len()],
            faults: FaultCounts::default(),
        }
    }
}

impl Counts {
    pub(crate) fn add(&mut self, count: Count) {
        self.add_many(count, 1);
    }

    pub(crate) fn add_many(&mut self, count: Count, times: u64) {
        self.counts[count as usize] += times;
    }

    pub(crate) fn add_faults(&mut self, faults: FaultCounts) {
        for (count, more) in self.faults.iter_mut().zip(faults) {
            *count += more;
        }
    }

    /// Every count with its name in the report: events first, then faults.
    pub fn named(&self) -> impl Iterator<Item = (String, u64)> {
        let events = Count::ALL.map(|(count, name)| (name.to_owned(), self.counts[count as usize]));
        let faults = Fault::ALL.iter().zip(self.faults);
        events
            .into_iter()
            .chain(faults.map(|(fault, count)| (format!("fault: {fault}"), count)))
    }

    /// The number of schedules that ran.
    pub fn schedules(&self) -> u64 {
        self.counts[Count::Schedules as usize]
    }
}

impl AddAssign<&Self> for Counts {
    fn add_assign(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(other.counts) {
            *count += more;
        }
        self.add_faults(other.faults);
    }
}

/// A Markdown table.
impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| what | how often |\n|---|---:|")?;
        self.named()
            .try_for_each(|(name, count)| writeln!(f, "| {name} | {count} |"))
    }
}
