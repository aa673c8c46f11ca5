//! Options of the simulation.

use std::fmt;

use clap::ValueEnum;

use crate::way::{Way, name};

use super::mutant::Mutant;
use super::network::Fault;

/// Which schedules run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Where the simulation replaces the real store.
    pub depth: Depth,
    /// How effects are recorded; if `None`, the seed decides.
    pub way: Option<Way>,
    /// The guard that is switched off, if any.
    pub mutant: Option<Mutant>,
    /// Whether clocks and kills are off by more than leases allow for.
    pub is_hostile: bool,
    /// Which versions share the table.
    pub versions: Versions,
    /// The only request that meets a fault, counted from 0, and the fault; if `None`, the seed decides.
    pub fault: Option<(u64, Fault)>,
}

impl Options {
    /// The options for schedules that use this guard, without it.
    pub fn without(mutant: Mutant, depth: Depth) -> Self {
        Self {
            depth,
            way: Some(mutant.way()),
            mutant: Some(mutant),
            is_hostile: mutant.is_hostile(),
            versions: mutant.versions(),
            ..Self::default()
        }
    }

    /// The ways of recording that these schedules may have. `also_read` refuses handlers whose effect commits with the
    /// record.
    pub fn ways(&self) -> &'static [Way] {
        match self.versions {
            Versions::OtherIds => &[Way::ClaimFirst, Way::RecordAfter],
            _ => self.depth.ways(),
        }
    }
}

/// Which versions share the table, at the `Store` trait. Except in [`OtherIds`](Self::OtherIds), the previous version
/// claimed any free key in one request, and did not compare the item that it had seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Versions {
    /// The current version only.
    #[default]
    New,
    /// Both versions, side by side.
    Mixed,
    /// First the previous version; processes that start later run the current one.
    Upgrade,
    /// First the current version; processes that start later run the previous one.
    Rollback,
    /// Side by side, two versions with different item ids: with another namespace, with and without a secret, or with
    /// another secret. Each also reads the ids of the other.
    OtherIds,
}

impl Versions {
    /// Whether a process claims as the previous version did. `process` is its number in a schedule that starts with `first`
    /// processes.
    pub(crate) fn is_old(self, process: usize, first: usize) -> bool {
        match self {
            Self::New | Self::OtherIds => false,
            Self::Mixed => process.is_multiple_of(2),
            Self::Upgrade => process < first,
            Self::Rollback => process >= first,
        }
    }
}

/// Where the simulation replaces the real store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Depth {
    /// At the `Store` trait: the store uses the library's own conditions.
    #[default]
    Trait,
    /// Beneath the SDK: the real store and the real client, with DynamoDB's tables in memory.
    Sdk,
}

impl Depth {
    /// The ways of recording at this depth. DynamoDB opens no transactions for handlers.
    pub fn ways(self) -> &'static [Way] {
        match self {
            Self::Trait => Way::value_variants(),
            Self::Sdk => &[
                Way::ClaimFirst,
                Way::RecordAfter,
                Way::Writes,
                Way::ClaimedWrites,
            ],
        }
    }

    /// The guards that can be switched off at this depth. Beneath the SDK, these are the conditions in requests.
    pub fn mutants(self) -> &'static [Mutant] {
        match self {
            Self::Trait => Mutant::value_variants(),
            Self::Sdk => &Mutant::IN_REQUESTS,
        }
    }
}

impl fmt::Display for Depth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&name(self))
    }
}
