//! Why a store could not answer.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use thiserror::Error;

/// The store did not confirm an operation. The records concerned fail: an unknown result never counts as success.
#[derive(Clone, Error)]
#[error("{kind} ({fix}): {message}", fix = fix.unwrap_or(kind.fix()))]
pub struct StoreError {
    kind: StoreErrorKind,
    fix: Option<&'static str>,
    pub(super) message: String,
    #[source]
    pub(super) source: Option<Arc<dyn StdError + Send + Sync>>,
}

/// The kinds of errors of a store.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// The function's role may not do this.
    #[error("the store denies access")]
    AccessDenied,
    /// There is nothing to sign requests with.
    #[error("there are no credentials for the store")]
    NoCredentials,
    /// The table does not exist.
    #[error("the table does not exist")]
    TableNotFound,
    /// The table's key is not what claims need.
    #[error("the table has another key schema")]
    KeySchema,
    /// Too many requests for the table or its partitions.
    #[error("the store is throttling")]
    Throttled,
    /// No connection, no answer in time, or an answer that does not show whether the request was carried out.
    #[error("the store did not answer")]
    Unanswered,
    /// An item holds something that no version of the protocol writes.
    #[error("the item is not readable")]
    BadItem,
    /// Anything else.
    #[error("the store failed")]
    Other,
}

impl StoreErrorKind {
    /// What to do about it, where the store does not know better.
    pub const fn fix(self) -> &'static str {
        match self {
            Self::AccessDenied => "grant the function's role the actions that template.yaml lists",
            Self::NoCredentials => {
                "give the function a role, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
            }
            Self::TableNotFound => "check SQS_ONCE_TABLE and the region",
            Self::KeySchema => {
                "it needs the partition key `id` of type S and no sort key, unless the store's layout \
                 says otherwise"
            }
            Self::Throttled => "raise the table's capacity or lower the function's concurrency",
            Self::Unanswered => "check its endpoint, the region and the function's network",
            Self::BadItem => "another program writes to this table",
            Self::Other => "see what it says",
        }
    }
}

impl StoreError {
    /// An error of this kind, with the details of this case.
    pub fn new(kind: StoreErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            fix: None,
            message: message.into(),
            source: None,
        }
    }

    /// The same error with the error that caused it.
    #[must_use]
    pub fn with_source(mut self, source: impl StdError + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    /// The same error with what to do about it on this store. Default: what is said of its kind, which has DynamoDB in
    /// mind.
    #[must_use]
    pub fn with_fix(mut self, fix: &'static str) -> Self {
        self.fix = Some(fix);
        self
    }

    /// The kind of the error.
    pub fn kind(&self) -> StoreErrorKind {
        self.kind
    }

    /// Whether no request can succeed until an operator changes something.
    pub fn is_permanent(&self) -> bool {
        matches!(
            self.kind,
            StoreErrorKind::AccessDenied
                | StoreErrorKind::NoCredentials
                | StoreErrorKind::TableNotFound
                | StoreErrorKind::KeySchema
        )
    }

    /// Whether the same request may succeed a moment later.
    pub fn is_transient(&self) -> bool {
        matches!(
            self.kind,
            StoreErrorKind::Throttled | StoreErrorKind::Unanswered
        )
    }
}

/// Shows nothing of its source: the SDK's errors show whole answers, with the items in them.
impl fmt::Debug for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreError")
            .field("kind", &self.kind)
            .field("message", &self.message)
            .finish_non_exhaustive()
    }
}
