//! Which handler it is.

use std::any::{TypeId, type_name};

/// A handler's type. Each function and each closure has one of its own; only function pointers share theirs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HandlerType {
    id: TypeId,
    name: &'static str,
}

impl HandlerType {
    pub(crate) fn of<H: 'static>() -> Self {
        Self {
            id: TypeId::of::<H>(),
            name: type_name::<H>(),
        }
    }

    /// For messages only: the name may change with the compiler.
    pub(crate) fn name(self) -> &'static str {
        self.name
    }
}

impl PartialEq for HandlerType {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}
