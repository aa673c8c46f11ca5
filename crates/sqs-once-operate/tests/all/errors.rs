//! What an error of SQS tells to do.

use aws_sdk_sqs::config::http::HttpResponse;
use aws_sdk_sqs::error::{ErrorMetadata, SdkError};
use aws_sdk_sqs::operation::send_message::SendMessageError;
use sqs_once_operate::Error;

#[test]
fn each_refusal_by_sqs_has_the_advice_that_fits_it() {
    let denied = "must permit kms:Decrypt, and kms:GenerateDataKey to send";
    let unusable = "the KMS key that encrypts the queue is disabled";
    let unknown = "AWS does not know the access key";
    let secret = "check AWS_SECRET_ACCESS_KEY";
    for (code, message, advice) in [
        ("KMS.AccessDeniedException", "", denied),
        ("KmsAccessDenied", "", denied),
        ("AccessDenied", "not authorized: kms:Decrypt", denied),
        ("KMS.DisabledException", "", unusable),
        ("KmsDisabled", "", unusable),
        ("KmsNotFound", "", unusable),
        ("KmsThrottled", "", "wait a moment"),
        ("AccessDenied", "not authorized", "your credentials must"),
        ("ExpiredToken", "", "sign in again"),
        ("InvalidClientTokenId", "", unknown),
        ("UnrecognizedClientException", "", unknown),
        ("InvalidSignatureException", "", secret),
        ("SignatureDoesNotMatch", "", secret),
        ("InvalidMessageContents", "", "see the cause"),
    ] {
        let metadata = ErrorMetadata::builder().code(code).message(message);
        let error = SendMessageError::generic(metadata.build());
        let answer = HttpResponse::new(400.try_into().unwrap(), "".into());
        let error = SdkError::service_error(error, answer);
        let told = Error::of_sqs("sqs:SendMessage")(error).to_string();
        assert!(told.contains(advice), "{code} {message}: {told}");
    }
}
