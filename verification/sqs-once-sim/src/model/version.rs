//! The versions of a consumer that changes the ids of its keys.

/// Which id of a key the workers of a version claim, and whether they read its other one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// The id that they claim: 0, or 1 for the second id of the key.
    pub own: u8,
    /// Whether they read the other id once their claim is written.
    pub also_reads: bool,
}

impl Version {
    /// Claims the first id, and knows no other.
    pub(super) const ALONE: Self = Self::new(0, false);
    /// Claims the first id, and reads the second.
    pub(super) const OLD: Self = Self::new(0, true);
    /// Claims the second id, and reads the first.
    pub(super) const NEW: Self = Self::new(1, true);

    const fn new(own: u8, also_reads: bool) -> Self {
        Self { own, also_reads }
    }
}
