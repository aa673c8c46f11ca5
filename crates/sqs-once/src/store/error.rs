//! Errors of stores.

#[cfg(feature = "dynamodb")]
use std::cmp::Reverse;
use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use thiserror::Error;

/// The store did not confirm an operation. The messages concerned fail: an unknown result never counts as success.
#[derive(Clone, Error)]
#[error("{kind} ({fix}): {message}", fix = fix.unwrap_or(kind.fix()))]
pub struct StoreError {
    kind: StoreErrorKind,
    fix: Option<&'static str>,
    message: String,
    #[source]
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

/// The kinds of store errors.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// The function's role does not allow the operation.
    #[error("the store denies access")]
    AccessDenied,
    /// No credentials were found to sign requests with.
    #[error("there are no credentials for the store")]
    NoCredentials,
    /// The table does not exist.
    #[error("the table does not exist")]
    TableNotFound,
    /// The table's key schema is not the one that claims need.
    #[error("the table has another key schema")]
    KeySchema,
    /// The table or its partitions received too many requests.
    #[error("the store is throttling")]
    Throttled,
    /// The request's signature was too old, or is not valid yet. The store did not carry the request out.
    #[error("the signature of the request had expired")]
    SignatureExpired,
    /// No connection, no answer in time, or an answer that does not show whether the request was carried out.
    #[error("the store did not answer")]
    Unanswered,
    /// An item has contents that no version of the protocol writes.
    #[error("the item is not readable")]
    BadItem,
    /// Anything else.
    #[error("the store failed")]
    Other,
}

impl StoreErrorKind {
    /// Returns what to do about it. A store may give better advice with [`StoreError::with_fix`].
    pub const fn fix(self) -> &'static str {
        match self {
            Self::AccessDenied => "grant the function's role the actions that template.yaml lists",
            Self::NoCredentials => {
                "give the function a role, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
            }
            Self::TableNotFound => "check SQS_ONCE_TABLE and the region",
            Self::KeySchema => {
                "it needs the partition key `id` of type S and no sort key, unless the store has \
                 another layout"
            }
            Self::Throttled => "raise the table's capacity or lower the function's concurrency",
            Self::SignatureExpired => {
                "no action if it is rare: Lambda froze the function; otherwise correct the clock"
            }
            Self::Unanswered => "check its endpoint, the region and the function's network",
            Self::BadItem => "another program writes to this table",
            Self::Other => "see its message",
        }
    }
}

impl StoreError {
    /// Creates an error of this kind. `message` has the details.
    pub fn new(kind: StoreErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            fix: None,
            message: message.into(),
            source: None,
        }
    }

    /// Adds the error that caused this one.
    #[must_use]
    pub fn with_source(mut self, source: impl StdError + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    /// Sets what to do about the error on this store. Default: [`StoreErrorKind::fix`], which is written for DynamoDB.
    #[must_use]
    pub fn with_fix(mut self, fix: &'static str) -> Self {
        self.fix = Some(fix);
        self
    }

    /// Returns the kind of the error.
    pub fn kind(&self) -> StoreErrorKind {
        self.kind
    }

    /// Returns whether no request can succeed until an operator changes something.
    pub fn is_permanent(&self) -> bool {
        matches!(
            self.kind,
            StoreErrorKind::AccessDenied
                | StoreErrorKind::NoCredentials
                | StoreErrorKind::TableNotFound
                | StoreErrorKind::KeySchema
        )
    }

    /// Returns whether the same request may succeed a moment later.
    pub fn is_transient(&self) -> bool {
        matches!(
            self.kind,
            StoreErrorKind::Throttled
                | StoreErrorKind::Unanswered
                | StoreErrorKind::SignatureExpired
        )
    }
}

/// Omits the source: the SDK's errors show whole responses, including items.
impl fmt::Debug for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreError")
            .field("kind", &self.kind)
            .field("message", &self.message)
            .finish_non_exhaustive()
    }
}

#[cfg(feature = "dynamodb")]
impl StoreError {
    pub(super) fn without<'a>(mut self, values: impl IntoIterator<Item = &'a str>) -> Self {
        if let Some(message) = unquoted(&self.message, values) {
            self.message = message;
            // The source contains the same text.
            self.source = None;
        }
        self
    }
}

/// Replaces these values in a one-line text with `…`. Returns `None` if the text contains none of them.
#[cfg(feature = "dynamodb")]
pub(crate) fn unquoted<'a>(
    text: &str,
    values: impl IntoIterator<Item = &'a str>,
) -> Option<String> {
    let in_one_line = |value: &str| value.split_whitespace().collect::<Vec<_>>().join(" ");
    let values = values.into_iter();
    let mut values: Vec<_> = values
        .flat_map(|value| [value.to_owned(), in_one_line(value)])
        .filter(|value| !value.is_empty())
        .collect();
    // Longer values first: a value may contain another.
    values.sort_by_key(|value| Reverse(value.len()));
    values.iter().fold(None, |rest: Option<String>, value| {
        left_out(rest.as_deref().unwrap_or(text), value).or(rest)
    })
}

/// Replaces a value in a text, except inside longer words. Returns `None` if there is no such occurrence.
#[cfg(feature = "dynamodb")]
fn left_out(text: &str, value: &str) -> Option<String> {
    let is_apart = |at: usize| {
        let before = text[..at].chars().next_back();
        let after = text[at + value.len()..].chars().next();
        let mut around = before.into_iter().chain(after);
        !around.any(char::is_alphanumeric)
    };
    let mut rest = String::new();
    let mut from = 0;
    for (at, _) in text.match_indices(value).filter(|(at, _)| is_apart(*at)) {
        rest.push_str(&text[from..at]);
        rest.push('…');
        from = at + value.len();
    }
    rest.push_str(&text[from..]);
    (from > 0).then_some(rest)
}
