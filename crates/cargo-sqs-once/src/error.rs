//! Errors, in the words that the user reads.

use sqs_once_local::{
    DynamoDbError, EventError, InvokeError, PageError, PollerError, QueueError, ResponseError,
    StartError, TemplateError,
};
use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("the event {path} can't be read", path = path.display())]
    ReadEvent { path: PathBuf, source: io::Error },
    #[error(transparent)]
    New(#[from] crate::new::NewError),
    #[error(transparent)]
    Man(#[from] crate::shell::ManError),
    #[error(transparent)]
    Event(#[from] EventError),
    #[error("this is not a cargo workspace, or cargo can't read it")]
    Metadata(#[source] cargo_metadata::Error),
    #[error("the workspace has no binary called `{name}`; it has: {known}")]
    NoSuchFunction { name: String, known: String },
    #[error(
        "the workspace has no Lambda function: no binary that depends on sqs-once or lambda_runtime"
    )]
    NoFunction,
    #[error("the workspace has several Lambda functions: pick one with --function ({known})")]
    WhichFunction { known: String },
    #[error("cargo can't be run")]
    RunCargo(#[source] io::Error),
    #[error("the function `{name}` does not build: cargo ended with {status}")]
    Build { name: String, status: ExitStatus },
    #[error("cargo built `{name}` but did not say where")]
    NoExecutable { name: String },
    #[error(transparent)]
    Dev(#[from] crate::dev::DevError),
    #[error(transparent)]
    Queue(#[from] QueueError),
    #[error(transparent)]
    Page(#[from] PageError),
    #[error(transparent)]
    Poll(#[from] PollerError<QueueError>),
    #[cfg(feature = "aws")]
    #[error(transparent)]
    Remote(#[from] crate::dev::RemoteError),
    #[cfg(feature = "aws")]
    #[error(transparent)]
    PollRemote(#[from] PollerError<crate::dev::RemoteError>),
    #[error(transparent)]
    Template(#[from] TemplateError),
    #[error(transparent)]
    DynamoDb(#[from] DynamoDbError),
    #[error(transparent)]
    Start(#[from] StartError),
    #[error(transparent)]
    Invoke(#[from] InvokeError),
    #[error("Lambda would not accept the function's answer, and would retry the whole batch")]
    Response(#[from] ResponseError),
    #[cfg(not(feature = "postgres"))]
    #[error("this build of cargo-sqs-once does not support PostgreSQL")]
    NoPostgres,
    #[cfg(feature = "postgres")]
    #[error(transparent)]
    Database(#[from] sqs_once_postgres::ConfigError),
    #[cfg(feature = "postgres")]
    #[error("the deletion stopped early; the rows of finished batches are deleted")]
    DeleteExpired(#[source] sqs_once::store::StoreError),
    #[cfg(not(feature = "aws"))]
    #[error("this build of cargo-sqs-once does not support AWS")]
    NoAws,
    #[cfg(feature = "aws")]
    #[error(transparent)]
    Connect(#[from] crate::operate::ConnectError),
    #[cfg(feature = "aws")]
    #[error(transparent)]
    Operate(#[from] sqs_once_operate::Error),
    #[cfg(feature = "aws")]
    #[error(transparent)]
    NotConfirmed(#[from] crate::confirm::NotConfirmed),
    #[cfg(feature = "aws")]
    #[error(transparent)]
    KeyName(#[from] sqs_once_operate::NameError),
    #[cfg(feature = "aws")]
    #[error(transparent)]
    Key(#[from] crate::key::KeyError),
    #[cfg(feature = "aws")]
    #[error(transparent)]
    Dlq(#[from] crate::dlq::DlqError),
    #[error(transparent)]
    Doctor(#[from] crate::doctor::DoctorError),
    #[error("the result can't be written")]
    Output(#[source] io::Error),
    #[error("interrupted")]
    Interrupted,
}

impl Error {
    /// A hint for the user, if the message does not contain one.
    pub(crate) fn help(&self) -> Option<&'static str> {
        match self {
            Error::DynamoDb(DynamoDbError::OtherKeys { .. } | DynamoDbError::Open { .. }) => {
                Some("--reset starts with an empty database")
            }
            Error::Invoke(InvokeError::TimedOut { .. }) => Some("--timeout gives it more time"),
            Error::Invoke(InvokeError::Exited { .. }) => {
                Some("its claims stay until their leases end; --reset removes them at once")
            }
            #[cfg(not(feature = "postgres"))]
            Error::NoPostgres => Some(
                "`cargo run -p cargo-sqs-once -- delete-expired` builds one that does, \
                 and so does `cargo install cargo-sqs-once`",
            ),
            #[cfg(not(feature = "aws"))]
            Error::NoAws => Some(
                "`cargo run -p cargo-sqs-once -- key` builds one that does; \
                 so does `cargo install cargo-sqs-once`",
            ),
            #[cfg(feature = "postgres")]
            Error::DeleteExpired(error)
                if error.kind() == sqs_once::store::StoreErrorKind::AccessDenied =>
            {
                Some("a role that deletes needs SELECT, UPDATE and DELETE on processed_events")
            }
            _ => None,
        }
    }
}
