//! The content of an envelope.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;

/// The content of an [`Envelope`](super::Envelope), with its metadata and message attributes.
#[derive(Default)]
pub struct Opened {
    /// None where it is what the envelope was asked to open.
    content: Option<String>,
    attributes: BTreeMap<String, String>,
    /// Whether an attribute came with two values.
    is_contradictory: bool,
    metadata: Vec<Box<dyn Any + Send + Sync>>,
    ignored: Option<String>,
}

impl Opened {
    /// An envelope with this content.
    pub fn new(content: impl Into<String>) -> Self {
        Self {
            content: Some(content.into()),
            ..Self::default()
        }
    }

    /// There was no envelope: the content is the payload already.
    pub fn untouched() -> Self {
        Self::default()
    }

    /// The envelope is valid and has no event: the record is acknowledged as
    /// [`Outcome::Ignored`](crate::telemetry::Outcome::Ignored), without a handler or a claim. The reason is logged.
    pub fn ignored(reason: impl Into<String>) -> Self {
        Self {
            ignored: Some(reason.into()),
            ..Self::default()
        }
    }

    /// Adds a message attribute, which [`Message::attribute`](crate::extract::Message::attribute) then finds.
    ///
    /// It never replaces another value. A message whose own attribute of this name has another one is terminal, and
    /// so is one whose envelopes give the attribute different values.
    #[must_use]
    pub fn with_attribute(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.keep(name.into(), value.into());
        self
    }

    fn keep(&mut self, name: String, value: String) {
        let kept = self.attributes.entry(name).or_insert_with(|| value.clone());
        self.is_contradictory |= *kept != value;
    }

    /// Adds metadata of the envelope. [`Message::metadata`](crate::extract::Message::metadata) finds it by its type.
    #[must_use]
    pub fn with_metadata(mut self, metadata: impl Any + Send + Sync) -> Self {
        self.metadata.push(Box::new(metadata));
        self
    }

    /// Both together, where `outer` held this.
    pub(super) fn inside(self, mut outer: Self) -> Self {
        outer.content = self.content.or(outer.content);
        outer.is_contradictory |= self.is_contradictory;
        for (name, value) in self.attributes {
            outer.keep(name, value);
        }
        outer.metadata.extend(self.metadata);
        outer.ignored = self.ignored.or(outer.ignored);
        outer
    }

    pub(in crate::record) fn content(&self) -> Option<&str> {
        self.content.as_deref()
    }

    pub(in crate::record) fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.get(name).map(String::as_str)
    }

    pub(in crate::record) fn attributes(&self) -> impl Iterator<Item = (&str, &str)> {
        let attributes = self.attributes.iter();
        attributes.map(|(name, value)| (name.as_str(), value.as_str()))
    }

    pub(in crate::record) fn is_contradictory(&self) -> bool {
        self.is_contradictory
    }

    /// The metadata of this type; the innermost envelope wins.
    pub(in crate::record) fn metadata<M: Any>(&self) -> Option<&M> {
        let mut inside_out = self.metadata.iter().rev();
        inside_out.find_map(|metadata| metadata.downcast_ref())
    }

    pub(in crate::record) fn ignored_because(&self) -> Option<&str> {
        self.ignored.as_deref()
    }
}

/// Shows nothing of the content: it does not belong in logs.
impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opened")
            .field("ignored", &self.ignored)
            .finish_non_exhaustive()
    }
}
