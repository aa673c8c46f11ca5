//! An envelope's JSON, read no deeper than it is asked for.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

/// A JSON object by its fields, each still as its text, so that no number in it goes through a float. Of
/// a field that is there twice the last counts.
pub(super) struct Fields<'a>(BTreeMap<String, &'a RawValue>);

impl<'a> Fields<'a> {
    /// None for anything but an object.
    pub(super) fn read(json: &'a str) -> Option<Self> {
        serde_json::from_str(json).ok().map(Self)
    }

    pub(super) fn raw(&self, name: &str) -> Option<&'a str> {
        self.0.get(name).map(|value| value.get())
    }

    /// The text of a string.
    pub(super) fn text(&self, name: &str) -> Option<String> {
        serde_json::from_str(self.raw(name)?).ok()
    }

    pub(super) fn object(&self, name: &str) -> Option<Self> {
        Self::read(self.raw(name)?)
    }

    pub(super) fn array(&self, name: &str) -> Option<Vec<&'a RawValue>> {
        serde_json::from_str(self.raw(name)?).ok()
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}
