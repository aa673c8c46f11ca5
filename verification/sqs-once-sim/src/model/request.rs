//! Requests to the store.

use super::decisions::Ending;
use super::fence::{Mark, Run};
use super::state::Delivery;

/// The fence that a claim in flight has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Saw {
    Nothing,
    /// An item whose fence is still the key's fence.
    Current,
    /// An item whose fence has been replaced.
    Stale,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Ask {
    Claim {
        now: i8,
        lease: i8,
        seen: Saw,
    },
    Read {
        now: i8,
    },
    /// Opens a transaction that contains the claim.
    Begin {
        now: i8,
        lease: i8,
    },
    Settle(Ending),
    /// Completes the claim in the open transaction, and commits the transaction.
    CommitTransaction,
    /// Reads the item of the key's other id, after the claim.
    ReadOther {
        run: Run,
    },
    /// Claims the other id from an owner whose lease has lapsed.
    TakeOver {
        seen: Saw,
        run: Run,
    },
    /// Writes the fence that follows on the other id's, before the handler runs.
    CarryOver {
        lease: i8,
        claimed: Mark,
        follows: Mark,
        run: Run,
    },
    /// Ends a claim that the item of the other id refuses.
    GiveBack {
        ending: Ending,
        over: bool,
    },
}

/// A request in flight. The store carries it out at any later time, or never.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Request {
    pub(super) owner: Delivery,
    /// The item that it reads or writes.
    pub(super) item: u8,
    pub(super) ask: Ask,
    /// Whether its sender still waits for the answer.
    pub(super) awaited: bool,
}

impl Request {
    /// The owner that it claims an item for.
    pub(super) fn claimant(&self) -> Option<Delivery> {
        match self.ask {
            Ask::Claim { .. } => Some(self.owner),
            Ask::TakeOver { .. } => Some(self.owner.taker()),
            _ => None,
        }
    }
}

impl Ask {
    /// The times that the request contains.
    pub(super) fn times(&mut self) -> impl Iterator<Item = &mut i8> {
        let times = match self {
            Self::Claim { now, lease, .. } | Self::Begin { now, lease } => [Some(now), Some(lease)],
            Self::Read { now } => [Some(now), None],
            Self::Settle(ending) => [ending.time(), None],
            Self::ReadOther { run } | Self::TakeOver { run, .. } => [Some(&mut run.now), None],
            Self::CarryOver { lease, run, .. } => [Some(lease), Some(&mut run.now)],
            Self::CommitTransaction | Self::GiveBack { .. } => [None, None],
        };
        times.into_iter().flatten()
    }

    /// The fences that the request contains.
    pub(super) fn marks(&mut self) -> impl Iterator<Item = &mut Mark> {
        let (fences, run) = match self {
            Self::ReadOther { run } | Self::TakeOver { run, .. } => ([None, None], Some(run)),
            Self::CarryOver {
                claimed,
                follows,
                run,
                ..
            } => ([Some(claimed), Some(follows)], Some(run)),
            Self::GiveBack {
                ending:
                    Ending::CarryOver {
                        claimed, follows, ..
                    },
                ..
            } => ([Some(claimed), Some(follows)], None),
            _ => ([None, None], None),
        };
        let runs = run.into_iter().flat_map(Run::marks);
        fences.into_iter().chain(runs).flatten()
    }

    /// Drops what only a waiting sender needs.
    pub(super) fn forget_run(&mut self) {
        match self {
            Self::TakeOver { run, .. } | Self::CarryOver { run, .. } => {
                *run = Run {
                    now: run.now,
                    ..Run::default()
                };
            }
            _ => {}
        }
    }
}
