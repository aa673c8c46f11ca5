//! Options of the simulation.

use std::fmt;
use std::str::FromStr;

use sqs_once::policy::Mode;

use super::mutant::Mutant;

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
    /// Which processes claim as the previous version did.
    pub versions: Versions,
}

impl Options {
    /// The options for schedules that use this guard, without it.
    pub fn without(mutant: Mutant, depth: Depth) -> Self {
        Self {
            depth,
            way: Some(mutant.way()),
            mutant: Some(mutant),
            is_hostile: mutant.is_hostile(),
            versions: Versions::New,
        }
    }
}

/// Which versions share the table, at the `Store` trait. The previous version claimed any free key in one request, and
/// did not compare the item that it had seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
}

impl Versions {
    /// Every combination.
    pub const ALL: [Self; 4] = [Self::New, Self::Mixed, Self::Upgrade, Self::Rollback];

    /// Whether a process runs the previous version. `process` is its number in a schedule that starts with `first`
    /// processes.
    pub(crate) fn is_old(self, process: usize, first: usize) -> bool {
        match self {
            Self::New => false,
            Self::Mixed => process.is_multiple_of(2),
            Self::Upgrade => process < first,
            Self::Rollback => process >= first,
        }
    }

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Mixed => "mixed",
            Self::Upgrade => "upgrade",
            Self::Rollback => "rollback",
        }
    }
}

impl FromStr for Versions {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        named(name, Self::ALL, Self::name)
    }
}

/// Where the simulation replaces the real store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Depth {
    /// At the `Store` trait: the store uses the library's own conditions.
    #[default]
    Trait,
    /// Beneath the SDK: the real store and the real client, with DynamoDB's tables in memory.
    Sdk,
}

impl Depth {
    /// Both depths.
    pub const ALL: [Self; 2] = [Self::Trait, Self::Sdk];

    /// The ways of recording at this depth. DynamoDB opens no transactions for handlers.
    pub const fn ways(self) -> &'static [Way] {
        match self {
            Self::Trait => &Way::ALL,
            Self::Sdk => &[
                Way::ClaimFirst,
                Way::RecordAfter,
                Way::Writes,
                Way::ClaimedWrites,
            ],
        }
    }

    /// The guards that can be switched off at this depth. Beneath the SDK, these are the conditions in requests.
    pub const fn mutants(self) -> &'static [Mutant] {
        match self {
            Self::Trait => &Mutant::ALL,
            Self::Sdk => &Mutant::IN_REQUESTS,
        }
    }

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Trait => "trait",
            Self::Sdk => "sdk",
        }
    }
}

impl FromStr for Depth {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        named(name, Self::ALL, Self::name)
    }
}

/// How effects are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Claims the key, runs the handler, records the effect.
    ClaimFirst,
    /// Runs the handler, records the effect.
    RecordAfter,
    /// Commits the handler's writes with the record.
    Writes,
    /// Claims the key, and commits the handler's writes with the record.
    ClaimedWrites,
    /// Claims and records the key in the handler's transaction.
    Transaction,
}

impl Way {
    /// Every way.
    pub const ALL: [Self; 5] = [
        Self::ClaimFirst,
        Self::RecordAfter,
        Self::Writes,
        Self::ClaimedWrites,
        Self::Transaction,
    ];

    pub(crate) fn mode(self) -> Mode {
        match self {
            Self::ClaimFirst | Self::ClaimedWrites => Mode::ClaimFirst,
            Self::RecordAfter => Mode::RecordAfter,
            Self::Writes | Self::Transaction => Mode::Transactional,
        }
    }

    /// Whether at most one handler of a key runs at a time.
    pub(crate) fn has_owners(self) -> bool {
        matches!(
            self,
            Self::ClaimFirst | Self::ClaimedWrites | Self::Transaction
        )
    }

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ClaimFirst => "claim-first",
            Self::RecordAfter => "record-after",
            Self::Writes => "writes",
            Self::ClaimedWrites => "claimed-writes",
            Self::Transaction => "transaction",
        }
    }
}

impl FromStr for Way {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        named(name, Self::ALL, Self::name)
    }
}

/// Finds the value with this name.
pub(super) fn named<T: Copy, const N: usize>(
    name: &str,
    all: [T; N],
    of: impl Fn(T) -> &'static str,
) -> Result<T, String> {
    let found = all.into_iter().find(|one| of(*one) == name);
    found.ok_or_else(|| format!("there are {}", all.map(of).join(", ")))
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Lists the options that differ from the default.
impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let depth = match self.depth {
            Depth::Trait => "at the `Store` trait",
            Depth::Sdk => "beneath the SDK",
        };
        f.write_str(depth)?;
        if let Some(way) = self.way {
            write!(f, ", {way}")?;
        }
        if let Some(mutant) = self.mutant {
            write!(f, ", mutant {mutant}")?;
        }
        if self.is_hostile {
            f.write_str(", beyond the margins")?;
        }
        if self.versions != Versions::New {
            write!(f, ", versions {}", self.versions.name())?;
        }
        Ok(())
    }
}
