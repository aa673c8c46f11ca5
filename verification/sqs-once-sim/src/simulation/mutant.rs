//! Guards that can be missing.

use std::fmt;
use std::str::FromStr;

use super::options::{Way, named};
use super::property::Property;

/// A guard of the protocol that is switched off, to see that its absence is noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// A completion is written over whoever's claim stands there.
    CompleteOthers,
    /// A release lapses whoever's claim stands there.
    ReleaseOthers,
    /// A claim looks at the lease and not at the status.
    ClaimCompleted,
    /// A claim does not look at the lease.
    ClaimLeased,
    /// A claim that ended is admitted again when it comes late.
    ClaimOwnLapsed,
    /// A claim over an item looks at the fence alone.
    ClaimFenceAlone,
    /// A claim over an item looks at status and lease alone.
    ClaimStateAlone,
    /// A release deletes the item.
    ReleaseDeletes,
    /// A claim leaves the fence as it was.
    FenceStays,
    /// An attempt's own completion admits its commit.
    CommitTwice,
    /// A commit does not look at what stands there.
    CommitOverAll,
    /// A commit is written over whoever's claim stands there.
    CommitOverClaims,
    /// A key that another worker has counts as done.
    BusyIsDone,
    /// A claim without an answer counts as written.
    UnknownIsMine,
    /// A record without an answer counts as written.
    UnknownIsDone,
    /// A lost lease counts as recorded.
    LostIsDone,
    /// A claim that was sent twice does not know itself.
    NoSelfRecognition,
    /// What was looked up is not looked at.
    LookupIgnored,
    /// Leases end with the invocation.
    NoLeaseMargin,
    /// Handlers run until the invocation ends.
    NoDeadlineGuard,
    /// A process takes its next event while code of a handler still runs.
    NextEventTooEarly,
    /// A FIFO queue is handled as a standard one.
    NoFifo,
    /// Records of a batch don't know of each other.
    NoCoalescing,
    /// A dead letter counts as sent before SQS has it.
    AcknowledgeBeforeSend,
    /// What peers ship: no owner at all, an unconditional completion and an unconditional deletion after a failure.
    Peers,
}

impl Mutant {
    /// All of them.
    pub const ALL: [Self; 25] = [
        Self::CompleteOthers,
        Self::ReleaseOthers,
        Self::ClaimCompleted,
        Self::ClaimLeased,
        Self::ClaimOwnLapsed,
        Self::ClaimFenceAlone,
        Self::ClaimStateAlone,
        Self::ReleaseDeletes,
        Self::FenceStays,
        Self::CommitTwice,
        Self::CommitOverAll,
        Self::CommitOverClaims,
        Self::BusyIsDone,
        Self::UnknownIsMine,
        Self::UnknownIsDone,
        Self::LostIsDone,
        Self::NoSelfRecognition,
        Self::LookupIgnored,
        Self::NoLeaseMargin,
        Self::NoDeadlineGuard,
        Self::NextEventTooEarly,
        Self::NoFifo,
        Self::NoCoalescing,
        Self::AcknowledgeBeforeSend,
        Self::Peers,
    ];

    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::CompleteOthers => "complete-others",
            Self::ReleaseOthers => "release-others",
            Self::ClaimCompleted => "claim-completed",
            Self::ClaimLeased => "claim-leased",
            Self::ClaimOwnLapsed => "claim-own-lapsed",
            Self::ClaimFenceAlone => "claim-fence-alone",
            Self::ClaimStateAlone => "claim-state-alone",
            Self::ReleaseDeletes => "release-deletes",
            Self::FenceStays => "fence-stays",
            Self::CommitTwice => "commit-twice",
            Self::CommitOverAll => "commit-over-all",
            Self::CommitOverClaims => "commit-over-claims",
            Self::BusyIsDone => "busy-is-done",
            Self::UnknownIsMine => "unknown-is-mine",
            Self::UnknownIsDone => "unknown-is-done",
            Self::LostIsDone => "lost-is-done",
            Self::NoSelfRecognition => "no-self-recognition",
            Self::LookupIgnored => "lookup-ignored",
            Self::NoLeaseMargin => "no-lease-margin",
            Self::NoDeadlineGuard => "no-deadline-guard",
            Self::NextEventTooEarly => "next-event-too-early",
            Self::NoFifo => "no-fifo",
            Self::NoCoalescing => "no-coalescing",
            Self::AcknowledgeBeforeSend => "acknowledge-before-send",
            Self::Peers => "peers",
        }
    }

    /// What it must break; nothing else is judged.
    pub const fn breaks(self) -> Property {
        match self {
            Self::CompleteOthers | Self::ReleaseOthers | Self::CommitOverClaims => {
                Property::StaleChangesNothing
            }
            Self::ClaimCompleted | Self::ClaimFenceAlone | Self::LookupIgnored | Self::Peers => {
                Property::RecordedIsOver
            }
            Self::ClaimLeased
            | Self::UnknownIsMine
            | Self::NoLeaseMargin
            | Self::NextEventTooEarly => Property::OneOwner,
            Self::ClaimOwnLapsed | Self::ClaimStateAlone => Property::EndedStaysEnded,
            Self::ReleaseDeletes | Self::FenceStays => Property::FencesGrow,
            Self::CommitTwice | Self::CommitOverAll => Property::CommitsOnce,
            Self::BusyIsDone
            | Self::UnknownIsDone
            | Self::LostIsDone
            | Self::AcknowledgeBeforeSend => Property::NothingLost,
            Self::NoSelfRecognition => Property::OwnIsUsed,
            Self::NoDeadlineGuard => Property::AnswersInTime,
            Self::NoFifo => Property::OrderKept,
            Self::NoCoalescing => Property::RepeatsInWindows,
        }
    }

    /// Whether the guard matters only where leases don't hold.
    pub const fn is_hostile(self) -> bool {
        matches!(self, Self::LostIsDone)
    }

    /// The way of recording that has the guard.
    pub const fn way(self) -> Way {
        match self {
            Self::CommitTwice | Self::CommitOverAll => Way::Writes,
            Self::CommitOverClaims => Way::ClaimedWrites,
            Self::LookupIgnored | Self::NoCoalescing => Way::RecordAfter,
            _ => Way::ClaimFirst,
        }
    }
}

impl fmt::Display for Mutant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Mutant {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        named(name, Self::ALL, Self::name)
    }
}
