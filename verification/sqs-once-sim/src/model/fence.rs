//! Fences, which tell the age of a key.

/// A fence: the tick of the key's first claim, and the number of claims since.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Mark {
    /// `None` if the fence is a count, which does not tell the age.
    pub(super) at: Option<i8>,
    pub(super) count: u16,
}

impl Mark {
    /// The fence of every item in a model without ages.
    pub(super) const FIXED: Self = Self {
        at: Some(0),
        count: 7,
    };

    pub(super) fn pass_tick(&mut self) {
        self.at = self.at.map(|at| at - 1);
    }
}

/// What a worker knows of its claim before its handler runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Run {
    /// The time of the claim.
    pub(super) now: i8,
    pub(super) fence: Mark,
    /// When the key was first attempted, if the table tells.
    pub(super) first: Option<Mark>,
    /// Whether the claim replaces an item.
    pub(super) over: bool,
}

impl Run {
    /// Whether no earlier attempt is known, under either id.
    pub(super) fn is_first(&self) -> bool {
        !self.over && self.first == Some(self.fence)
    }

    pub(super) fn marks(&mut self) -> [Option<&mut Mark>; 2] {
        [Some(&mut self.fence), self.first.as_mut()]
    }
}

/// Why the fence of an item may tell a later first attempt than its key had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Young {
    /// The tick since which its fence counts.
    pub(super) since: i8,
    /// Whether an operator forgot it. Otherwise, the sender of its first claim has not read the other id.
    pub(super) is_forgotten: bool,
}

/// When a key was truly attempted first, as far as the protocol promises to know it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum First {
    #[default]
    Never,
    At(i8),
    /// By a library whose items have no fence.
    Unknown,
}
