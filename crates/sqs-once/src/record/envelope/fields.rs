//! The JSON of an envelope, parsed only as deep as needed.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

/// The fields of a JSON object as unparsed text, so that no number becomes a float. If a field appears twice, the last
/// one counts.
pub(super) struct Fields<'a>(BTreeMap<String, &'a RawValue>);

impl<'a> Fields<'a> {
    /// Reads an object. `None` for any other JSON.
    pub(super) fn read(json: &'a str) -> Option<Self> {
        serde_json::from_str(json).ok().map(Self)
    }

    pub(super) fn raw(&self, name: &str) -> Option<&'a str> {
        self.0.get(name).map(|value| value.get())
    }

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
