//! Errors of `dev`.

use sqs_once_local::EventError;
use std::io;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub(crate) enum DevError {
    #[error("the template has several queues for this function: pick one with --queue ({known})")]
    WhichQueue { known: String },
    #[error(
        "the template has no such queue for this function; without --queue the function gets one of its own"
    )]
    NoMapping,
    #[error("the messages in {path} can't be sent", path = path.display())]
    Send { path: PathBuf, source: SendError },
    #[error("the local queues can't listen on 127.0.0.1:{port}; another --port may be free")]
    Listen { port: u16, source: io::Error },
    #[error("the built function can't be copied to {path}", path = path.display())]
    Copy { path: PathBuf, source: io::Error },
    #[error("the report can't be written to {path}", path = path.display())]
    Report { path: PathBuf, source: io::Error },
    #[error("{count} {} in the dead-letter queue", if *count == 1 { "message is" } else { "messages are" })]
    DeadLetters { count: usize },
    #[cfg(not(feature = "aws"))]
    #[error(
        "this build of cargo-sqs-once does not support AWS: build it with the feature `aws` for --queue-url"
    )]
    NoAws,
}

/// Why a file can't be read as messages.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SendError {
    #[error(transparent)]
    Event(#[from] EventError),
    #[error("its event has no list of `Records`, each with a `body` that is a text")]
    Records,
}
