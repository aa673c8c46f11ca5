//! Uninhabited stand-ins for the types of `dynamodb` in a build without that feature.

use std::convert::Infallible;
use std::sync::Arc;

use crate::error::Disposition;

#[cfg(feature = "testing")]
#[derive(Clone, Debug)]
pub(crate) enum TransactWriteItem {}

/// The writes that a handler returns.
#[derive(Clone, Debug)]
pub enum Writes {}

/// A write whose condition was not met.
#[derive(Clone, Debug, PartialEq)]
pub enum Conflict {}

impl Writes {
    pub(crate) fn nothing() -> Option<Arc<Self>> {
        None
    }

    pub(crate) fn check_all(&self) -> Result<(), Infallible> {
        match *self {}
    }

    pub(crate) fn disposition_of(&self, _: &Conflict) -> (Disposition, String) {
        match *self {}
    }

    pub(crate) fn result(&self) -> Option<&Result<Arc<str>, String>> {
        match *self {}
    }

    #[cfg(feature = "testing")]
    pub(crate) fn len(&self) -> usize {
        match *self {}
    }

    #[cfg(feature = "testing")]
    pub(crate) fn items(&self) -> &[TransactWriteItem] {
        match *self {}
    }

    #[cfg(feature = "testing")]
    pub(crate) fn conflict(&self, _: &[usize]) -> Option<Conflict> {
        match *self {}
    }
}
