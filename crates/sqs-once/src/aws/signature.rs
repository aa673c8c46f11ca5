//! Requests that AWS refuses because of the time in their signature: Lambda froze the function before they were sent, or
//! a clock is wrong.

use aws_smithy_runtime_api::client::interceptors::context::InterceptorContext;
use aws_smithy_runtime_api::client::retries::classifiers::{ClassifyRetry, RetryAction};

/// Lets the SDK send such a request again, with a new signature.
///
/// The SDK does so only if it measures a difference between the clocks. It cannot after a freeze: it takes half of the time
/// in which the function was frozen for that difference.
#[derive(Debug)]
pub(crate) struct SignAgain;

impl ClassifyRetry for SignAgain {
    fn classify_retry(&self, context: &InterceptorContext) -> RetryAction {
        let refusal = context
            .response()
            .filter(|it| it.status().is_client_error());
        let body = refusal.and_then(|it| it.body().bytes()).unwrap_or_default();
        match is_untimely(&String::from_utf8_lossy(body)) {
            true => RetryAction::server_error(),
            false => RetryAction::NoActionIndicated,
        }
    }

    fn name(&self) -> &'static str {
        "sqs-once SignAgain"
    }
}

/// Returns whether a refusal is about the time of the signature. A signature with a wrong secret has the same error code in
/// most services, with another message.
pub(crate) fn is_untimely(refusal: &str) -> bool {
    [
        "Signature expired",
        "Signature not yet current",
        // S3.
        "RequestTimeTooSkewed",
    ]
    .iter()
    .any(|text| refusal.contains(text))
}
