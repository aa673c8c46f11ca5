//! What to do about a refusal of AWS that concerns credentials or permissions.

const KMS_DENIED: &str = "the function's role, and the policy of the KMS key that encrypts it, must allow kms:Decrypt, and \
                          kms:GenerateDataKey to write";
const KMS_UNUSABLE: &str =
    "the KMS key that encrypts it is disabled, is to be deleted, or is gone: restore the key";
const EXPIRED: &str = "the credentials have expired: sign in again; on Lambda, remove AWS_SESSION_TOKEN and the keys beside it \
                       from the function's variables";
const UNKNOWN_KEY: &str = "AWS does not know the access key: check AWS_ACCESS_KEY_ID and AWS_SESSION_TOKEN, and that they are \
                           from this partition";
const WRONG_SECRET: &str =
    "the secret does not belong to the access key: check AWS_SECRET_ACCESS_KEY";

/// Returns the advice for an error code. `None` for a missing permission, whose action the caller knows, and for errors
/// that concern neither credentials nor permissions.
pub(crate) fn access_hint(code: &str, message: &str) -> Option<&'static str> {
    let code = code.rsplit('#').next().unwrap_or(code);
    // SQS writes `KMS.AccessDeniedException` or `KmsAccessDenied`, Lambda `KMSAccessDeniedException`, other services only
    // name KMS in their message.
    let prefixes = ["KMS.", "KMS", "Kms"];
    let kms = prefixes.iter().find_map(|prefix| code.strip_prefix(prefix));
    if let Some(kms) = kms {
        return match kms {
            denied if denied.starts_with("AccessDenied") => Some(KMS_DENIED),
            busy if busy.starts_with("Throttl") => None,
            _ => Some(KMS_UNUSABLE),
        };
    }
    match code {
        "AccessDenied" | "AccessDeniedException" if names_kms(message) => Some(KMS_DENIED),
        "ExpiredToken" | "ExpiredTokenException" => Some(EXPIRED),
        "UnrecognizedClientException" | "InvalidClientTokenId" | "InvalidAccessKeyId" => {
            Some(UNKNOWN_KEY)
        }
        "InvalidSignatureException" | "SignatureDoesNotMatch" => Some(WRONG_SECRET),
        _ => None,
    }
}

/// Names of roles and functions, which a denial quotes, may contain the letters.
fn names_kms(message: &str) -> bool {
    ["kms:", "KMS key"]
        .iter()
        .any(|name| message.contains(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_has_the_advice_that_fits_it() {
        for (code, message, hint) in [
            ("KMS.AccessDeniedException", "", Some(KMS_DENIED)),
            ("KmsAccessDenied", "", Some(KMS_DENIED)),
            ("KMSAccessDeniedException", "", Some(KMS_DENIED)),
            ("com.amazonaws.sqs#KmsDisabled", "", Some(KMS_UNUSABLE)),
            ("KMS.NotFoundException", "", Some(KMS_UNUSABLE)),
            ("KmsThrottled", "", None),
            (
                "AccessDeniedException",
                "KMS key access denied error",
                Some(KMS_DENIED),
            ),
            (
                "AccessDenied",
                "not authorized to perform: kms:Decrypt",
                Some(KMS_DENIED),
            ),
            (
                "AccessDeniedException",
                "not authorized to perform: dynamodb:PutItem",
                None,
            ),
            (
                "AccessDeniedException",
                "assumed-role/kms-orders/fn is not authorized to perform: dynamodb:PutItem",
                None,
            ),
            ("ExpiredToken", "", Some(EXPIRED)),
            ("ExpiredTokenException", "", Some(EXPIRED)),
            ("InvalidClientTokenId", "", Some(UNKNOWN_KEY)),
            ("UnrecognizedClientException", "", Some(UNKNOWN_KEY)),
            ("InvalidSignatureException", "", Some(WRONG_SECRET)),
            ("ValidationException", "", None),
        ] {
            assert_eq!(access_hint(code, message), hint, "{code} {message}");
        }
    }
}
