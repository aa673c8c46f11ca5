//! Values of a deployment and their places.

use std::num::NonZeroUsize;

/// A value of a deployment.
///
/// Some template values are computed at deployment time. They are `Unknown`, and only `part-not-examined` reports them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Field<T> {
    /// Not set: AWS's default applies.
    Missing,
    /// Set, but the value is known only at deployment time.
    Unknown,
    /// Set to this value at this place.
    Known(T, Place),
}

impl<T> Field<T> {
    /// The value, if it is set and known.
    pub fn known(&self) -> Option<&T> {
        match self {
            Field::Known(value, _) => Some(value),
            Field::Missing | Field::Unknown => None,
        }
    }

    /// The place of the value, if it is set and known.
    pub fn place(&self) -> Option<&Place> {
        match self {
            Field::Known(_, place) => Some(place),
            Field::Missing | Field::Unknown => None,
        }
    }

    /// Whether the value is not set.
    pub fn is_missing(&self) -> bool {
        matches!(self, Field::Missing)
    }

    /// Whether only the deployment knows the value.
    pub(crate) fn is_unknown(&self) -> bool {
        matches!(self, Field::Unknown)
    }

    /// Converts a known value. The result is `Unknown` if `other` returns `None`.
    pub(crate) fn and_then<U>(self, other: impl FnOnce(T) -> Option<U>) -> Field<U> {
        match self {
            Field::Missing => Field::Missing,
            Field::Unknown => Field::Unknown,
            Field::Known(value, place) => match other(value) {
                Some(value) => Field::Known(value, place),
                None => Field::Unknown,
            },
        }
    }
}

impl<T: Copy> Field<T> {
    /// The effective value: `default` if it is not set, `None` if it is unknown.
    pub fn or(&self, default: T) -> Option<T> {
        match self {
            Field::Missing => Some(default),
            Field::Unknown => None,
            Field::Known(value, _) => Some(*value),
        }
    }
}

/// A position in a deployment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The resource: a logical ID, or an address in Terraform.
    pub resource: String,
    /// Line and column, both from 1. `None` in a plan.
    pub position: Option<(NonZeroUsize, NonZeroUsize)>,
    /// The path from the document's root. Empty in a plan.
    pub(crate) path: Path,
}

impl Place {
    /// A resource without a position.
    pub(crate) fn of(resource: impl Into<String>) -> Self {
        Self {
            resource: resource.into(),
            position: None,
            path: Path::new(),
        }
    }
}

/// The line and the column of a character, by its offset in bytes.
pub(crate) fn position(text: &str, offset: usize) -> (NonZeroUsize, NonZeroUsize) {
    let before = text.get(..offset).unwrap_or_default();
    let lines = before.matches('\n').count();
    let columns = before.chars().rev().take_while(|&it| it != '\n').count();
    let one = NonZeroUsize::MIN;
    (one.saturating_add(lines), one.saturating_add(columns))
}

/// The path from a document's root to a value.
pub(crate) type Path = Vec<Step>;

/// One step from a mapping or a sequence to one of its values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    Key(String),
    Index(usize),
}

impl From<&str> for Step {
    fn from(key: &str) -> Self {
        Step::Key(key.to_owned())
    }
}

/// The path to a value below `path`.
pub(crate) fn below(path: &Path, keys: &[&str]) -> Path {
    let keys = keys.iter().map(|&key| key.into());
    path.iter().cloned().chain(keys).collect()
}
