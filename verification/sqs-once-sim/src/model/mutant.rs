//! The protocol with one of its guards switched off.

use std::fmt;

/// A guard that is switched off. The properties are worth something only if each of these breaks one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// A completion is written over anybody's item.
    CompleteByAnyone,
    /// A release is written over anybody's claim.
    ReleaseByAnyone,
    /// A claim looks at the lease alone, and not at whether the key is completed.
    ClaimOverCompletion,
    /// A claim is written over its own release.
    ClaimOverOwnRelease,
    /// A claim over an item looks at its fence alone.
    ClaimByFenceAlone,
    /// A claim over an item looks at its status and lease alone.
    ClaimByStateAlone,
    /// A claim that was sent again does not recognise its own first copy.
    NoSelfRecognition,
    /// A lease ends with its invocation, without a margin for clocks that differ.
    NoLeaseMargin,
    /// A release deletes the item.
    ReleaseDeletes,
    /// A record whose key another worker has is acknowledged.
    BusyIsDone,
    /// A record whose request nobody answered is acknowledged.
    UnknownIsDone,
    /// A claim keeps the fence that stands there.
    FenceStands,
    /// A commit is written over its own completion.
    CommitOverOwnCompletion,
    /// The effect is written apart from its record, before it.
    EffectApart,
    /// A message group goes on after one of its records has failed.
    GroupGoesOn,
    /// What others ship: completion and deletion without any condition.
    Unconditional,
}

impl fmt::Display for Mutant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}
