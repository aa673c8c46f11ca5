//! Counts of events, which show that a schedule without violations was not trivial.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::AddAssign;

use clap::ValueEnum;

use super::network::Fault;
use crate::way::name;

/// An event or state that is counted, with its name in the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Count {
    #[value(name = "schedules")]
    Schedules,
    #[value(name = "schedules of a router with two routes")]
    RoutedSchedules,
    #[value(name = "schedules of a batch handler")]
    BatchedSchedules,
    #[value(name = "schedules with the rules of PostgreSQL")]
    PostgresSchedules,
    #[value(name = "keys with effects in both routes")]
    KeysOfBothRoutes,
    #[value(name = "invocations")]
    Invocations,
    #[value(name = "processes started")]
    ColdStarts,
    #[value(name = "invocations beside another in one process")]
    Overlaps,
    #[value(name = "deliveries")]
    Deliveries,
    #[value(name = "deliveries of what is out already")]
    DeliveredInFlight,
    #[value(name = "deliveries of what is deleted already")]
    DeliveredDeleted,
    #[value(name = "requests")]
    Requests,
    #[value(name = "claims written")]
    Claims,
    #[value(name = "claims taken over from a lapsed lease")]
    TakenOver,
    #[value(name = "claims refused: in progress")]
    Refused,
    #[value(name = "duplicates recognised by the store")]
    Recognised,
    #[value(name = "duplicates whose fingerprint has another scheme")]
    OtherSchemes,
    #[value(name = "claims refused by themselves, sent twice")]
    OwnRecognised,
    #[value(name = "handlers started")]
    Handlers,
    #[value(name = "effects")]
    Effects,
    #[value(name = "effects recorded")]
    Records,
    #[value(name = "effects committed with their record")]
    Commits,
    #[value(name = "claims released")]
    Releases,
    #[value(name = "leases renewed")]
    Renewals,
    #[value(name = "handlers whose code ran on under a renewed lease")]
    Outlived,
    #[value(name = "keys forgotten by an operator")]
    Forgotten,
    #[value(name = "settlements refused: lease lost")]
    RefusedSettlements,
    #[value(name = "batches answered")]
    Answers,
    #[value(name = "answers lost on their way to SQS")]
    AnswersLost,
    #[value(name = "deletions lost")]
    DeletesLost,
    #[value(name = "messages deleted")]
    Deleted,
    #[value(name = "messages moved to the DLQ by redrive policy")]
    DeadLetters,
    #[value(name = "messages sent to the DLQ by the consumer")]
    SentToDlq,
    #[value(name = "messages redriven from the DLQ")]
    Redriven,
    #[value(name = "visibility timeouts changed by the consumer")]
    Postponed,
    #[value(name = "crashes outside of requests")]
    Crashes,
    #[value(name = "processes killed at their deadline")]
    Timeouts,
    #[value(name = "of these, killed late")]
    LateKills,
    #[value(name = "processes frozen at their deadline and thawed later")]
    FrozenAtDeadline,
    #[value(name = "processes that lived on after their deadline")]
    LivedOn,
    #[value(name = "answers after the deadline, from processes that survived it")]
    LateAnswers,
    #[value(name = "processes that ended themselves: code could not keep its lease")]
    EndedThemselves,
    #[value(name = "freezes in which the monotonic clock stood still")]
    StoodStill,
    #[value(name = "freezes")]
    Freezes,
    #[value(name = "clocks set back or forward")]
    ClockJumps,
    #[value(name = "handlers that failed")]
    FailedHandlers,
    #[value(name = "handlers that panicked")]
    Panics,
    #[value(name = "handlers that gave up for good")]
    TerminalHandlers,
    #[value(name = "handlers that hung")]
    Hangs,
    #[value(name = "handlers with code that can't be cancelled")]
    Blocks,
    #[value(name = "records that a layer ended")]
    LayerEndings,
    #[value(name = "records that a decoder ended or held up for good")]
    DecoderEndings,
    #[value(name = "hooks of successes and duplicates")]
    Hooks,
    #[value(name = "hooks that failed or never ended")]
    HookEndings,
    #[value(name = "payload mismatches")]
    Mismatches,
    #[value(name = "records whose retention ended")]
    Expired,
    #[value(name = "expired items that the table deleted")]
    DeletedItems,
    #[value(name = "processes killed at their deadline while such code ran")]
    KilledAtWork,
    #[value(name = "effects repeated: process died before the record")]
    WindowDied,
    #[value(name = "effects repeated: handler cancelled at the deadline")]
    WindowCancelled,
    #[value(name = "effects repeated: effect's own request unanswered")]
    WindowUnanswered,
    #[value(name = "effects repeated: handler failed after its effect")]
    WindowFailed,
    #[value(name = "effects repeated: record could not be written in time")]
    WindowUnrecorded,
    #[value(name = "effects repeated: two deliveries at once, without a claim")]
    WindowConcurrent,
    #[value(name = "effects repeated: the key was forgotten, or its record had expired")]
    WindowForgotten,
    #[value(name = "beside the old version: claims that it wrote")]
    OldClaims,
    #[value(name = "beside the old version: late copies of its ended claims that hold their key")]
    OldReturned,
    #[value(name = "beside other batches: processes that must end, and take no other event before")]
    Drained,
    #[value(name = "beside other batches of a process that must end: two live owners")]
    BesideDraining,
    #[value(name = "beyond the margins: two live owners")]
    BeyondOwners,
    #[value(name = "beyond the margins: effects repeated outside of every window")]
    BeyondRepeats,
    #[value(name = "beyond the margins: messages that never ended")]
    BeyondEnds,
}

/// The counts of one schedule or of many.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    counts: BTreeMap<Count, u64>,
    faults: BTreeMap<Fault, u64>,
}

impl Counts {
    pub(crate) fn add(&mut self, count: Count) {
        self.add_many(count, 1);
    }

    pub(crate) fn add_many(&mut self, count: Count, times: u64) {
        *self.counts.entry(count).or_default() += times;
    }

    pub(crate) fn add_faults(&mut self, faults: &BTreeMap<Fault, u64>) {
        for (fault, more) in faults {
            *self.faults.entry(*fault).or_default() += more;
        }
    }

    /// Every count with its name in the report: events first, then faults.
    pub fn named(&self) -> impl Iterator<Item = (String, u64)> {
        let times = |count: Option<&u64>| count.copied().unwrap_or_default();
        let events = Count::value_variants().iter();
        let events = events.map(move |count| (name(count), times(self.counts.get(count))));
        let faults = Fault::value_variants().iter();
        let faults =
            faults.map(move |fault| (format!("fault: {fault}"), times(self.faults.get(fault))));
        events.chain(faults)
    }

    /// The number of schedules that ran.
    pub fn schedules(&self) -> u64 {
        self.counts
            .get(&Count::Schedules)
            .copied()
            .unwrap_or_default()
    }
}

impl AddAssign<&Self> for Counts {
    fn add_assign(&mut self, other: &Self) {
        for (count, more) in &other.counts {
            self.add_many(*count, *more);
        }
        self.add_faults(&other.faults);
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| what | how often |\n|---|---:|")?;
        self.named()
            .try_for_each(|(name, count)| writeln!(f, "| {name} | {count} |"))
    }
}
