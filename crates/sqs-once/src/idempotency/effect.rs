//! How a handler's effect commits, beside the record of its key.

use std::sync::Arc;

use crate::store::{OpenTransaction, Writes};

/// What a handler's signature shows about its effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effect {
    /// It returns writes that the store commits with the record of its key.
    pub writes: bool,
    /// It works in a transaction in which the record of its key is.
    pub transaction: bool,
}

impl Effect {
    /// Before the record of its key, which is written once the effect is done.
    pub const APART: Self = Self {
        writes: false,
        transaction: false,
    };
}

/// What a completion commits together with.
pub(crate) enum CommitsWith {
    /// The effect is done.
    Nothing,
    Writes(Arc<Writes>),
    Transaction(Box<dyn OpenTransaction>),
}
