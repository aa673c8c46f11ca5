//! Guards that can be switched off, in the simulation and in the model.

use std::fmt;

use clap::ValueEnum;
use sqs_once::store::{Claim, Item, Seen, Settlement, Settling, Status, Timestamp};

use super::options::Versions;
use super::property::Property;
use crate::way::{Way, name};

/// A protocol guard that is switched off, to test that the properties detect its absence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
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
    /// The other id of a key is read before the key is claimed.
    OtherIdReadFirst,
    /// The fence of a key's other id is ignored.
    OtherFenceIgnored,
    /// A lapsed claim under a key's other id stays with its owner.
    OtherIdLeft,
    /// Leases have the shortest margin that a consumer accepts.
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
    /// A router sends every message to its first route.
    FirstRouteTakesAll,
    /// Two routes share a namespace.
    RoutesShareNamespace,
    /// A message group keeps its order only within a route.
    RoutesSplitGroups,
    /// A layer completes a record whose handler failed.
    LayerHidesFailure,
    /// Another scheme of a fingerprint counts as another payload.
    SchemeIgnored,
    /// What other libraries do: no owner, an unconditional completion, and an unconditional deletion after a failure.
    Peers,
    /// The effect is written before its record, in a separate write. Only the model has this mutant.
    #[value(skip)]
    EffectApart,
    /// A message group continues after one of its records has failed. Only the model has this mutant.
    #[value(skip)]
    GroupGoesOn,
    /// A renewal extends any owner's lease.
    RenewOthers,
    /// A late copy of a renewal replaces a longer lease.
    RenewShortens,
    /// A late copy of a renewal replaces the lease of a released claim.
    RenewReleased,
    /// A process does not end itself before a lease lapses that its code needs.
    NoWatchdog,
    /// Forgetting a key does not raise its fence. Only the model has this mutant.
    #[value(skip)]
    ForgetKeepsFence,
    /// Forgetting a key leaves it its owner. Only the model has this mutant.
    #[value(skip)]
    ForgetKeepsOwner,
    /// Forgetting a key deletes its item.
    ForgetDeletes,
    /// Forgetting a key leaves it its age.
    ForgetKeepsAge,
    /// A claim over an item without a fence counts as a key's first. Only the model has this mutant.
    #[value(skip)]
    UnknownAgeIsNow,
    /// The age under a key's other id is ignored. Only the model has this mutant.
    #[value(skip)]
    OtherAgeIgnored,
    /// A fence that is carried over is not written. Only the model has this mutant.
    #[value(skip)]
    CarryOverUnwritten,
    /// A late copy of a fence that is carried over replaces a larger one. Only the model has this mutant.
    #[value(skip)]
    CarryOverLowers,
    /// A claim that the other id refuses keeps its own fence. Only the model has this mutant.
    #[value(skip)]
    RefusedIsReleased,
}

impl Mutant {
    /// The property that the mutant must break. A run with the mutant checks no other property. `None` if only the model
    /// has that property.
    pub const fn breaks(self) -> Option<Property> {
        Some(match self {
            Self::CompleteOthers
            | Self::ReleaseOthers
            | Self::CommitOverClaims
            | Self::OtherIdLeft
            | Self::RenewOthers
            | Self::ForgetKeepsOwner => Property::StaleChangesNothing,
            Self::ClaimCompleted | Self::ClaimFenceAlone | Self::LookupIgnored | Self::Peers => {
                Property::RecordedIsOver
            }
            Self::ClaimLeased
            | Self::UnknownIsMine
            | Self::OtherIdReadFirst
            | Self::NoLeaseMargin
            | Self::NextEventTooEarly
            | Self::RenewShortens
            | Self::NoWatchdog => Property::OneOwner,
            Self::ClaimOwnLapsed
            | Self::ClaimStateAlone
            | Self::RenewReleased
            | Self::ForgetKeepsFence
            | Self::ForgetDeletes => Property::EndedStaysEnded,
            Self::ReleaseDeletes
            | Self::FenceStays
            | Self::OtherFenceIgnored
            | Self::CarryOverUnwritten
            | Self::CarryOverLowers => Property::FencesGrow,
            Self::CommitTwice | Self::CommitOverAll | Self::EffectApart => Property::CommitsOnce,
            Self::BusyIsDone
            | Self::UnknownIsDone
            | Self::LostIsDone
            | Self::AcknowledgeBeforeSend
            | Self::FirstRouteTakesAll
            | Self::RoutesShareNamespace
            | Self::LayerHidesFailure => Property::NothingLost,
            Self::NoSelfRecognition => Property::OwnIsUsed,
            Self::ForgetKeepsAge => Property::ForgottenIsNew,
            Self::SchemeIgnored => Property::SchemesDiffer,
            Self::NoDeadlineGuard => Property::AnswersInTime,
            Self::NoFifo | Self::RoutesSplitGroups | Self::GroupGoesOn => Property::OrderKept,
            Self::NoCoalescing => Property::RepeatsInWindows,
            Self::UnknownAgeIsNow | Self::OtherAgeIgnored | Self::RefusedIsReleased => return None,
        })
    }

    /// Whether the guard matters only if leases don't hold.
    pub const fn is_hostile(self) -> bool {
        matches!(self, Self::LostIsDone)
    }

    /// The versions between which the guard matters.
    pub const fn versions(self) -> Versions {
        match self {
            // Without another id, no claim is released after a renewal.
            Self::OtherIdReadFirst
            | Self::OtherFenceIgnored
            | Self::OtherIdLeft
            | Self::RenewReleased => Versions::OtherIds,
            _ => Versions::New,
        }
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

    /// Whether a store without this guard admits a claim over an item. `None` if the guard is not one of such claims.
    pub(crate) fn admits_claim(self, claim: &Claim, item: &Item) -> Option<bool> {
        let has_lapsed = item.lease_until < Some(claim.now);
        let is_in_progress = item.status == Status::InProgress;
        Some(match self {
            Self::ClaimCompleted => has_lapsed,
            Self::ClaimLeased => is_in_progress,
            Self::ClaimOwnLapsed => is_in_progress && has_lapsed,
            Self::ClaimFenceAlone => claim.seen == Seen::Item(item.fence),
            Self::ClaimStateAlone => claim.seen != Seen::Nothing && claim.finds_free(item),
            _ => return None,
        })
    }

    /// Whether a store without this guard admits a settlement. `None` if the guard is not one of settlements.
    pub(crate) fn admits_settlement(
        self,
        settlement: &Settlement,
        item: Option<&Item>,
    ) -> Option<bool> {
        let is_in_progress = item.is_some_and(|item| item.status == Status::InProgress);
        let is_mine = item.is_some_and(|item| item.owner == Some(settlement.owner));
        let lease = item.and_then(|item| item.lease_until);
        let is_held = is_in_progress && lease > Some(Timestamp::default());
        match (self, &settlement.settling) {
            (Self::CompleteOthers, Settling::Complete { .. }) => Some(item.is_some()),
            (Self::ReleaseOthers, Settling::Release) => Some(is_in_progress),
            (Self::RenewOthers, Settling::Renew { lease_until, .. }) => {
                Some(is_held && lease <= Some(*lease_until))
            }
            (Self::RenewShortens, Settling::Renew { .. }) => Some(is_mine && is_held),
            (
                Self::CarryOverLowers,
                Settling::Renew {
                    lease_until,
                    fence: Some(_),
                    ..
                },
            ) => Some(is_mine && is_held && lease <= Some(*lease_until)),
            (Self::RenewReleased, Settling::Renew { lease_until, .. }) => {
                Some(is_mine && is_in_progress && lease <= Some(*lease_until))
            }
            (Self::CommitTwice, Settling::Commit(_)) => is_mine.then_some(true),
            (Self::CommitOverAll, Settling::Commit(_)) => Some(true),
            (Self::CommitOverClaims, Settling::Commit(_)) => is_in_progress.then_some(true),
            (Self::Peers, Settling::Complete { .. } | Settling::Release) => Some(true),
            _ => None,
        }
    }

    /// Whether a release deletes the item.
    pub(crate) fn deletes_released(self) -> bool {
        matches!(self, Self::ReleaseDeletes | Self::Peers)
    }
}

impl fmt::Display for Mutant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&name(self))
    }
}
