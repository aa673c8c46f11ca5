//! The content of an envelope.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;

/// The content of an [`Envelope`](super::Envelope), with its metadata and message attributes.
#[derive(Default)]
pub struct Opened {
    /// `None` if the content is unchanged.
    pub(in crate::record) content: Option<String>,
    pub(in crate::record) attributes: BTreeMap<String, String>,
    /// Whether an attribute has two different values.
    pub(in crate::record) is_contradictory: bool,
    metadata: Vec<Box<dyn Any + Send + Sync>>,
    pub(in crate::record) ignored: Option<String>,
}

impl Opened {
    /// Creates an opened envelope with this content.
    pub fn new(content: impl Into<String>) -> Self {
        Self {
            content: Some(content.into()),
            ..Self::default()
        }
    }

    /// Creates the result for content without an envelope, which is the payload itself.
    pub fn untouched() -> Self {
        Self::default()
    }

    /// Creates the result for a valid envelope without an event. The consumer acknowledges the message as
    /// [`Outcome::Ignored`](crate::telemetry::Outcome::Ignored), without a handler or a claim, and logs the reason.
    pub fn ignored(reason: impl Into<String>) -> Self {
        Self {
            ignored: Some(reason.into()),
            ..Self::default()
        }
    }

    /// Adds a message attribute, which [`Message::attribute`](crate::extract::Message::attribute) then finds.
    ///
    /// It never replaces another value. If the message's own attribute of this name, or another envelope's, has a
    /// different value, the message is terminal.
    #[must_use]
    pub fn with_attribute(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.keep(name.into(), value.into());
        self
    }

    fn keep(&mut self, name: String, value: String) {
        let kept = self.attributes.entry(name).or_insert_with(|| value.clone());
        self.is_contradictory |= *kept != value;
    }

    /// Adds metadata of the envelope. [`Message::metadata`](crate::extract::Message::metadata) finds metadata by type.
    #[must_use]
    pub fn with_metadata(mut self, metadata: impl Any + Send + Sync) -> Self {
        self.metadata.push(Box::new(metadata));
        self
    }

    /// Merges this content into the `outer` envelope that contained it.
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

    /// Returns the metadata of this type; the innermost envelope wins.
    pub(in crate::record) fn metadata<M: Any>(&self) -> Option<&M> {
        let mut inside_out = self.metadata.iter().rev();
        inside_out.find_map(|metadata| metadata.downcast_ref())
    }
}

/// Omits the content, which must not be logged.
impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opened")
            .field("ignored", &self.ignored)
            .finish_non_exhaustive()
    }
}
