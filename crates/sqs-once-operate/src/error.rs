//! What can go wrong.

use sqs_once::store::{StoreError, StoreErrorKind};
use sqs_once::{KeyError, key::InvalidNamespace};
use thiserror::Error as ThisError;

/// Why something could not be looked up or done.
#[derive(Debug, ThisError)]
#[non_exhaustive]
pub enum Error {
    /// The table gave no answer.
    #[error(transparent)]
    Store(StoreError),
    /// A key is looked for by its parts, which name it only within a namespace.
    #[error(
        "a key needs its consumer's namespace: give --namespace, or set SQS_ONCE_NAMESPACE \
         (in the table, it is what stands before the `#`)"
    )]
    NoNamespace,
    /// That is no namespace.
    #[error(transparent)]
    Namespace(#[from] InvalidNamespace),
    /// What was written can't be a key.
    #[error("this can't be a key")]
    Key(#[from] KeyError),
    /// There is no AWS region.
    #[error("no AWS region is known: give --region, set AWS_REGION, or put one into the profile")]
    NoRegion,
}

/// In the words of somebody who has no function at hand, but credentials of their own.
impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        let fix = match error.kind() {
            StoreErrorKind::AccessDenied => {
                "your credentials need dynamodb:BatchGetItem on the table, to list dynamodb:Scan (or \
                 dynamodb:Query, with a sort key), and to change something dynamodb:UpdateItem"
            }
            StoreErrorKind::NoCredentials => {
                "sign in, such as by `aws sso login`, or name a profile with --profile"
            }
            StoreErrorKind::TableNotFound => "check --table, --region and --profile",
            StoreErrorKind::KeySchema => {
                "by default it has the partition key `id` of type S and no sort key: see --partition-key \
                 and --sort-key"
            }
            StoreErrorKind::Throttled => "wait a moment, or raise the table's capacity",
            StoreErrorKind::Unanswered => "check the network and --region",
            _ => return Self::Store(error),
        };
        Self::Store(error.with_fix(fix))
    }
}
