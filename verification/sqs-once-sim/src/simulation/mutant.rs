//! Guards that can be switched off.

use std::fmt;
use std::str::FromStr;

use super::options::{Way, named};
use super::property::Property;

/// A protocol guard that is switched off, to test that the simulation detects its absence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// A completion overwrites any owner's claim.
    CompleteOthers,
    /// A release ends any owner's claim.
    ReleaseOthers,
    /// A claim checks the lease and not the status.
    ClaimCompleted,
    /// A claim does not check the lease.
    ClaimLeased,
    /// A late copy of a claim that ended is admitted again.
    ClaimOwnLapsed,
    /// A claim over an item checks only the fence.
    ClaimFenceAlone,
    /// A claim over an item checks only status and lease.
    ClaimStateAlone,
    /// A release deletes the item.
    ReleaseDeletes,
    /// A claim does not raise the fence.
    FenceStays,
    /// An attempt's own completion admits its commit.
    CommitTwice,
    /// A commit does not check the item.
    CommitOverAll,
    /// A commit overwrites any owner's claim.
    CommitOverClaims,
    /// A key that another worker holds counts as done.
    BusyIsDone,
    /// A claim without an answer counts as written.
    UnknownIsMine,
    /// A record without an answer counts as written.
    UnknownIsDone,
    /// A lost lease counts as recorded.
    LostIsDone,
    /// A claim that was sent twice does not recognise its first copy.
    NoSelfRecognition,
    /// The result of a lookup is ignored.
    LookupIgnored,
    /// Leases end with the invocation.
    NoLeaseMargin,
    /// Handlers run until the invocation ends.
    NoDeadlineGuard,
    /// A process takes its next event while handler code still runs.
    NextEventTooEarly,
    /// A FIFO queue is handled as a standard queue.
    NoFifo,
    /// Records of one batch that share a key are handled independently.
    NoCoalescing,
    /// A dead letter counts as sent before SQS has accepted it.
    AcknowledgeBeforeSend,
    /// What other libraries do: no owner, an unconditional completion, and an unconditional deletion after a failure.
    Peers,
}

impl Mutant {
    /// Every mutant.
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

    /// The property that the mutant must break. A run with the mutant checks no other property.
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

    /// Whether the guard matters only if leases don't hold.
    pub const fn is_hostile(self) -> bool {
        matches!(self, Self::LostIsDone)
    }

    /// The way of recording that uses the guard.
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
