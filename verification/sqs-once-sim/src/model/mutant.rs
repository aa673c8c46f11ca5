//! The protocol with one of its guards switched off.

/// A guard that is switched off. Each of these must break a property: this shows that the properties detect errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// A completion overwrites the item of any owner.
    CompleteByAnyone,
    /// A release overwrites the claim of any owner.
    ReleaseByAnyone,
    /// A claim checks only the lease, and not whether the key is completed.
    ClaimOverCompletion,
    /// A claim overwrites its own release.
    ClaimOverOwnRelease,
    /// A claim over an item checks only its fence.
    ClaimByFenceAlone,
    /// A claim over an item checks only its status and lease.
    ClaimByStateAlone,
    /// A claim that was sent twice does not recognise its own first copy.
    NoSelfRecognition,
    /// A lease ends with its invocation, without a margin for clocks that differ.
    NoLeaseMargin,
    /// A release deletes the item.
    ReleaseDeletes,
    /// A record whose key another worker holds is acknowledged.
    BusyIsDone,
    /// A record whose request got no answer is acknowledged.
    UnknownIsDone,
    /// A claim keeps the item's fence.
    FenceStands,
    /// A commit overwrites its own completion.
    CommitOverOwnCompletion,
    /// The effect is written before its record, in a separate write.
    EffectApart,
    /// A message group continues after one of its records has failed.
    GroupGoesOn,
    /// Unconditional completion and deletion, as in other libraries.
    Unconditional,
}
