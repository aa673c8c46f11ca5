//! Conversion of SDK errors to store errors.

use aws_credential_types::provider::error::CredentialsError;
use aws_sdk_dynamodb::config::http::HttpResponse;
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::types::{BatchStatementError, BatchStatementErrorCodeEnum};

use crate::aws::{access_hint, is_untimely};
use crate::error::chain;
use crate::store::{StoreError, StoreErrorKind, unquoted};

pub(super) fn request<E>(error: SdkError<E, HttpResponse>) -> StoreError
where
    E: std::error::Error + ProvideErrorMetadata + Send + Sync + 'static,
{
    request_and(error, &[], |_, _| {})
}

/// Converts the error of a whole batch of statements. Emulators may not know them, and answer with a server error.
pub(super) fn batch<E>(error: SdkError<E, HttpResponse>) -> StoreError
where
    E: std::error::Error + ProvideErrorMetadata + Send + Sync + 'static,
{
    let is_server_error = matches!(
        &error,
        SdkError::ServiceError(context) if context.raw().status().is_server_error()
    );
    let converted = request(error);
    match is_server_error {
        true => converted.with_fix(
            "check its endpoint, the region and the function's network; for an emulator without PartiQL batches, set \
             SQS_ONCE_REQUESTS=single",
        ),
        false => converted,
    }
}

/// Converts the error of a whole request, and removes the values that DynamoDB quotes. `more` may change the kind and
/// add a hint to the message.
pub(super) fn request_and<E>(
    error: SdkError<E, HttpResponse>,
    values: &[&str],
    more: impl FnOnce(&mut StoreErrorKind, &mut String),
) -> StoreError
where
    E: std::error::Error + ProvideErrorMetadata + Send + Sync + 'static,
{
    let mut fix = None;
    let (mut kind, message) = match &error {
        // After a server error the request may have been carried out. An error without a code is not from DynamoDB.
        SdkError::ServiceError(context)
            if !context.raw().status().is_server_error() && context.err().code().is_some() =>
        {
            let code = context.err().code().unwrap_or_default();
            let message = context.err().message().unwrap_or_default();
            let kind = by_code(code, message);
            fix = fix_for(kind, code, message);
            (kind, format!("{code}: {message}"))
        }
        // The request may have been carried out.
        SdkError::ServiceError(_)
        | SdkError::TimeoutError(_)
        | SdkError::DispatchFailure(_)
        | SdkError::ResponseError(_) => (unanswered(&error), chain(&error)),
        _ => (StoreErrorKind::Other, chain(&error)),
    };
    // SDK messages have several lines, but a log line has one.
    let mut message = message.split_whitespace().collect::<Vec<_>>().join(" ");
    let discreet = unquoted(&message, values.iter().copied());
    let says_the_same = discreet.is_none();
    message = discreet.unwrap_or(message);
    more(&mut kind, &mut message);
    let mut converted = StoreError::new(kind, message);
    if let Some(fix) = fix {
        converted = converted.with_fix(fix);
    }
    match says_the_same {
        true => converted.with_source(error),
        false => converted,
    }
}

/// Returns better advice than that of the kind.
fn fix_for(kind: StoreErrorKind, code: &str, message: &str) -> Option<&'static str> {
    match kind {
        StoreErrorKind::AccessDenied => access_hint(code, message),
        StoreErrorKind::Other if code == "UnknownOperationException" => Some(
            "this DynamoDB does not know the request: for an emulator without PartiQL batches, set SQS_ONCE_REQUESTS=single",
        ),
        _ => None,
    }
}

fn unanswered(error: &(dyn std::error::Error + 'static)) -> StoreErrorKind {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(CredentialsError::CredentialsNotLoaded(_)) = error.downcast_ref() {
            return StoreErrorKind::NoCredentials;
        }
        cause = error.source();
    }
    StoreErrorKind::Unanswered
}

pub(super) fn statement(error: &BatchStatementError) -> StoreError {
    let code = error
        .code()
        .map_or("unknown error", BatchStatementErrorCodeEnum::as_str);
    let message = error.message().unwrap_or_default();
    let kind = by_code(code, message);
    let converted = StoreError::new(kind, format!("{code}: {message}"));
    match fix_for(kind, code, message) {
        Some(fix) => converted.with_fix(fix),
        None => converted,
    }
}

pub(super) fn miscounted(statements: usize, results: usize) -> StoreError {
    StoreError::new(
        StoreErrorKind::Other,
        format!("{statements} statements were answered with {results} results"),
    )
}

pub(super) fn by_code(code: &str, message: &str) -> StoreErrorKind {
    match code {
        "AccessDenied"
        | "AccessDeniedException"
        | "UnrecognizedClientException"
        | "ExpiredTokenException"
        | "MissingAuthenticationTokenException"
        | "IncompleteSignatureException" => StoreErrorKind::AccessDenied,
        "InvalidSignatureException" if is_untimely(message) => StoreErrorKind::SignatureExpired,
        "InvalidSignatureException" => StoreErrorKind::AccessDenied,
        "ResourceNotFound" | "ResourceNotFoundException" => StoreErrorKind::TableNotFound,
        "ProvisionedThroughputExceeded"
        | "ProvisionedThroughputExceededException"
        | "RequestLimitExceeded"
        | "ThrottlingError"
        | "ThrottlingException"
        | "Throttling"
        | "TransactionConflict"
        | "TransactionConflictException"
        // Another Region is writing the same item of a global table.
        | "ReplicatedWriteConflictException" => StoreErrorKind::Throttled,
        // The request may have been carried out. The last one means that an earlier copy of it is.
        "InternalServerError"
        | "InternalFailure"
        | "ServiceUnavailable"
        | "TransactionInProgressException" => StoreErrorKind::Unanswered,
        "ValidationError" | "ValidationException" if is_about_the_key(message) => {
            StoreErrorKind::KeySchema
        }
        _ => StoreErrorKind::Other,
    }
}

fn is_about_the_key(message: &str) -> bool {
    // DynamoDB has no separate code for these errors, only these texts.
    let message = message.to_ascii_lowercase();
    [
        "provided key element",
        "missing the key",
        "required keys was not given a value",
        "type mismatch for key",
        "equality on all key attributes",
        "key attribute's data type",
        // The layout has a sort key but the table has none, so all items have the same key.
        "item keys contains duplicates",
    ]
    .iter()
    .any(|text| message.contains(text))
}
