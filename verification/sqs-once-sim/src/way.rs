//! The ways of recording effects, in the model and in the simulation.

use std::fmt;

use clap::ValueEnum;

/// How effects are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
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
    /// Whether the effect commits together with its record.
    pub(crate) fn is_atomic(self) -> bool {
        matches!(self, Self::Writes | Self::ClaimedWrites | Self::Transaction)
    }

    /// Whether a claim that every worker can see is written before the handler runs.
    pub(crate) fn claims_before(self) -> bool {
        matches!(self, Self::ClaimFirst | Self::ClaimedWrites)
    }

    /// Whether at most one handler of a key runs at a time.
    pub(crate) fn has_owners(self) -> bool {
        self.claims_before() || self == Self::Transaction
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&name(self))
    }
}

/// The name of a value on the command line or in a report.
pub(crate) fn name(value: &impl ValueEnum) -> String {
    let value = value.to_possible_value();
    value.map_or_else(String::new, |value| value.get_name().to_owned())
}
