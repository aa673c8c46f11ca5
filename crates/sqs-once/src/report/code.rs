//! The codes of reasons: stable names for log queries, and the headings of `docs/troubleshooting.md`.

use std::fmt;

use crate::key::KeyError;

/// The kind of a reason. Its name is stable, whereas the text of a reason may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Code {
    KeyMissing,
    KeyInvalid,
    ExtractorFailed,
    Unprotected,
    BodyUnreadable,
    BodyNotFetched,
    EnvelopeUnreadable,
    PreparationPanicked,
    NoRoute,
    NoEvent,
    InProgress,
    PayloadMismatch,
    PayloadNotCompared,
    UnknownStatus,
    LeaseLost,
    NotClaimed,
    NotCompleted,
    NotCommitted,
    CommitUnconfirmed,
    ConditionNotMet,
    ValueNotStored,
    HandlerError,
    HandlerPanicked,
    HandlerDropped,
    HookFailed,
    Unavailable,
    OutcomeUnknown,
    Deadline,
    AttemptTimeout,
    NotStarted,
    NoRoom,
    EarlierMessage,
    BehindDeadLetter,
    DeliveriesUsedUp,
    OrderUnknown,
    NoOutcome,
}

impl Code {
    /// Returns the name in logs. It is part of the interface: alarms and queries may contain it.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::KeyMissing => "key-missing",
            Self::KeyInvalid => "key-invalid",
            Self::ExtractorFailed => "extractor-failed",
            Self::Unprotected => "unprotected",
            Self::BodyUnreadable => "body-unreadable",
            Self::BodyNotFetched => "body-not-fetched",
            Self::EnvelopeUnreadable => "envelope-unreadable",
            Self::PreparationPanicked => "preparation-panicked",
            Self::NoRoute => "no-route",
            Self::NoEvent => "no-event",
            Self::InProgress => "in-progress",
            Self::PayloadMismatch => "payload-mismatch",
            Self::PayloadNotCompared => "payload-not-compared",
            Self::UnknownStatus => "unknown-status",
            Self::LeaseLost => "lease-lost",
            Self::NotClaimed => "not-claimed",
            Self::NotCompleted => "not-completed",
            Self::NotCommitted => "not-committed",
            Self::CommitUnconfirmed => "commit-unconfirmed",
            Self::ConditionNotMet => "condition-not-met",
            Self::ValueNotStored => "value-not-stored",
            Self::HandlerError => "handler-error",
            Self::HandlerPanicked => "handler-panicked",
            Self::HandlerDropped => "handler-dropped",
            Self::HookFailed => "hook-failed",
            Self::Unavailable => "unavailable",
            Self::OutcomeUnknown => "outcome-unknown",
            Self::Deadline => "deadline",
            Self::AttemptTimeout => "attempt-timeout",
            Self::NotStarted => "not-started",
            Self::NoRoom => "no-room",
            Self::EarlierMessage => "earlier-message",
            Self::BehindDeadLetter => "behind-dead-letter",
            Self::DeliveriesUsedUp => "deliveries-used-up",
            Self::OrderUnknown => "order-unknown",
            Self::NoOutcome => "no-outcome",
        }
    }

    /// Creates a reason with this code.
    pub(crate) fn because(self, text: impl Into<String>) -> Reason {
        Reason {
            code: self,
            text: text.into(),
        }
    }
}

impl From<&KeyError> for Code {
    fn from(error: &KeyError) -> Self {
        match error {
            KeyError::Missing | KeyError::MissingAttribute { .. } => Self::KeyMissing,
            KeyError::Empty
            | KeyError::TooLong { .. }
            | KeyError::WrongType { .. }
            | KeyError::Unwritable { .. }
            | KeyError::Malformed => Self::KeyInvalid,
            KeyError::Extractor(_) => Self::ExtractorFailed,
        }
    }
}

/// Why a message ended as it did. As the source of a handler's error, it gives that error its code.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{text}")]
pub(crate) struct Reason {
    pub(crate) code: Code,
    pub(crate) text: String,
}

impl Reason {
    /// Returns the reason of an error whose variants have codes.
    pub(crate) fn of<'a, E>(error: &'a E) -> Self
    where
        E: fmt::Display,
        Code: From<&'a E>,
    {
        Code::from(error).because(error.to_string())
    }
}
