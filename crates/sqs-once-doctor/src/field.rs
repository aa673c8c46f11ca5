//! What is known of a value, and where it stands.

use std::num::NonZeroUsize;

/// A value of a deployment.
///
/// What a template computes only when it is deployed is unknown, and nothing is found in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Field<T> {
    /// It is not given: AWS's default holds.
    Missing,
    /// It is given, but only the deployment knows what it is.
    Unknown,
    /// It is this, and stands there.
    Known(T, Place),
}

impl<T> Field<T> {
    /// The value, if it is given and known.
    pub fn known(&self) -> Option<&T> {
        match self {
            Field::Known(value, _) => Some(value),
            Field::Missing | Field::Unknown => None,
        }
    }

    /// Where the value stands, if it is given and known.
    pub fn place(&self) -> Option<&Place> {
        match self {
            Field::Known(_, place) => Some(place),
            Field::Missing | Field::Unknown => None,
        }
    }

    /// Whether nothing is given.
    pub fn is_missing(&self) -> bool {
        matches!(self, Field::Missing)
    }

    /// The value of another kind, where there is one; unknown otherwise.
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
    /// The value that holds: `default` if nothing is given, none if it is unknown.
    pub fn or(&self, default: T) -> Option<T> {
        match self {
            Field::Missing => Some(default),
            Field::Unknown => None,
            Field::Known(value, _) => Some(*value),
        }
    }
}

/// Where something stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The resource: a logical id, or Terraform's address.
    pub resource: String,
    /// Line and column, from 1; a plan has none.
    pub position: Option<(NonZeroUsize, NonZeroUsize)>,
    /// The way there from the document's root; empty in a plan.
    pub(crate) path: Path,
}

/// The way from a document's root to a value.
pub(crate) type Path = Vec<Step>;

/// From a mapping or a sequence to one of its values.
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

/// The way to something below `path`.
pub(crate) fn below(path: &Path, keys: &[&str]) -> Path {
    path.iter()
        .cloned()
        .chain(keys.iter().map(|&key| key.into()))
        .collect()
}
