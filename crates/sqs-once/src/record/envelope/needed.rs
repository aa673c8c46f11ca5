//! The metadata that a key or a handler can't do without.

use std::any::{Any, TypeId};

use crate::error::ConfigError;

use super::Envelope;

/// The metadata that a key extractor or a handler's argument needs in every message.
#[derive(Clone, Copy, Debug)]
pub struct Needed {
    metadata: TypeId,
    by: &'static str,
    envelope: &'static str,
}

impl Needed {
    /// `by` needs the metadata `M` of this envelope.
    pub(crate) const fn new<M: Any>(by: &'static str, envelope: &'static str) -> Self {
        Self {
            metadata: TypeId::of::<M>(),
            by,
            envelope,
        }
    }

    /// Refuses a handler whose envelope is missing, or is another one. Without the right one, no message would have the
    /// metadata.
    pub(crate) fn check_all(
        needs: &[Self],
        envelope: Option<&dyn Envelope>,
    ) -> Result<(), ConfigError> {
        needs.iter().try_for_each(|needed| needed.check(envelope))
    }

    fn check(self, envelope: Option<&dyn Envelope>) -> Result<(), ConfigError> {
        let problem = match envelope.map(Envelope::metadata) {
            None => "is not set",
            Some(Some(types)) if !types.contains(&self.metadata) => "is another one",
            Some(_) => return Ok(()),
        };
        let Self { by, envelope, .. } = self;
        Err(ConfigError::conflicting(
            "the setting `envelope`",
            format!("{problem}, but `{by}` reads the envelope `{envelope}`"),
            format!("`envelope = {envelope}` on the handler, or `.envelope({envelope})`"),
        ))
    }
}
