//! When a handler's key is completed, which decides what the library promises.

/// When a handler's key is completed. It follows from the handler's type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The key is claimed, the handler runs, and the key is completed.
    ClaimFirst,
    /// The key is looked up, the handler runs, and the key is completed: no claim.
    RecordAfter,
    /// The handler runs without a claim, and its writes commit together with the completion of its key.
    Writes,
    /// The key is claimed, the handler runs, and its writes commit together with the completion of its key.
    ClaimedWrites,
    /// The handler runs in a transaction of its store, which claims the key first and contains its completion.
    Transaction,
}

impl Mode {
    /// Returns the mode of a handler that returns writes, or takes a transaction. The panic is an error of the compiler.
    pub(crate) const fn of(returns_writes: bool, takes_transaction: bool) -> Self {
        match (returns_writes, takes_transaction) {
            (false, false) => Self::ClaimFirst,
            (true, false) => Self::Writes,
            (false, true) => Self::Transaction,
            (true, true) => panic!(
                "a handler can't return `Writes` and take a transaction, because they don't commit together: use one of the two"
            ),
        }
    }

    /// Returns the mode without a claim. The panic is an error of the compiler.
    pub(crate) const fn recording_after(self) -> Self {
        assert!(
            self.can_record_after(),
            "`RecordAfter` is not for this handler, whose effect commits with the completion of its key"
        );
        Self::RecordAfter
    }

    /// Returns the mode with a claim before the writes. The panic is an error of the compiler.
    pub(crate) const fn claiming_first(self) -> Self {
        assert!(
            self.can_claim_first(),
            "`ClaimFirst` is only for handlers that return `Writes`: the key of this one is claimed first already"
        );
        Self::ClaimedWrites
    }

    /// Returns whether the effect does not commit with the completion of its key. Code of the macros calls it.
    pub const fn can_record_after(self) -> bool {
        matches!(self, Self::ClaimFirst)
    }

    /// Returns whether the effect is writes. Code of the macros calls it.
    pub const fn can_claim_first(self) -> bool {
        matches!(self, Self::Writes)
    }

    /// Returns whether a key is claimed before its handler runs, in a request of its own.
    pub(crate) fn claims_before(self) -> bool {
        matches!(self, Self::ClaimFirst | Self::ClaimedWrites)
    }

    /// Returns whether the effect is writes that the store commits with the completion of their key.
    pub(crate) fn is_of_writes(self) -> bool {
        matches!(self, Self::Writes | Self::ClaimedWrites)
    }

    /// Returns whether the effect commits together with the completion of its key.
    pub(crate) fn commits_effects(self) -> bool {
        self.is_of_writes() || self == Self::Transaction
    }
}
