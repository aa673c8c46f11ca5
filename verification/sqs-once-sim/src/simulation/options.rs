//! What is simulated.

use std::fmt;
use std::str::FromStr;

use sqs_once::policy::Mode;

use super::mutant::Mutant;

/// Which schedules are run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Where the store is cut off.
    pub depth: Depth,
    /// How effects are recorded; the seed decides where it is none.
    pub way: Option<Way>,
    /// A guard that is missing.
    pub mutant: Option<Mutant>,
    /// Whether clocks and kills are off by more than leases allow for.
    pub is_hostile: bool,
    /// Which processes claim as the version before did.
    pub versions: Versions,
}

impl Options {
    /// Schedules that have the guard which is missing.
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

/// Which versions share the table, at the `Store` trait. The one before the compare-and-set claimed whatever was free, in
/// one request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Versions {
    /// This one alone.
    #[default]
    New,
    /// Both, side by side.
    Mixed,
    /// The old one first. Processes that start later have this one.
    Upgrade,
    /// This one first. Processes that start later have the old one.
    Rollback,
}

impl Versions {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::New, Self::Mixed, Self::Upgrade, Self::Rollback];

    /// Whether a process is of the old version, by its number among those of a schedule that starts with `first`.
    pub(crate) fn is_old(self, process: usize, first: usize) -> bool {
        match self {
            Self::New => false,
            Self::Mixed => process.is_multiple_of(2),
            Self::Upgrade => process < first,
            Self::Rollback => process >= first,
        }
    }

    /// Its name on the command line.
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

/// Where the store is cut off from the real code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Depth {
    /// At the `Store` trait: a store that decides by the library's own conditions.
    #[default]
    Trait,
    /// Beneath the SDK: the real store and the real client, in front of DynamoDB's tables in memory.
    Sdk,
}

impl Depth {
    /// Both of them.
    pub const ALL: [Self; 2] = [Self::Trait, Self::Sdk];

    /// The ways of recording that there are: DynamoDB opens no transactions for handlers.
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

    /// The guards that can be missing there: beneath the SDK, those in the text of requests.
    pub const fn mutants(self) -> &'static [Mutant] {
        match self {
            Self::Trait => &Mutant::ALL,
            Self::Sdk => &Mutant::IN_REQUESTS,
        }
    }

    /// Its name on the command line.
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
    /// The key is claimed, the handler runs, the effect is recorded.
    ClaimFirst,
    /// The handler runs, the effect is recorded.
    RecordAfter,
    /// The handler's writes commit with the record.
    Writes,
    /// The key is claimed, and the handler's writes commit with the record.
    ClaimedWrites,
    /// The key is claimed and recorded in the handler's transaction.
    Transaction,
}

impl Way {
    /// All of them.
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

    /// Whether no two handlers of a key run at once.
    pub(crate) fn has_owners(self) -> bool {
        matches!(
            self,
            Self::ClaimFirst | Self::ClaimedWrites | Self::Transaction
        )
    }

    /// Its name on the command line.
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

/// The one with this name.
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

/// What is not the default.
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
