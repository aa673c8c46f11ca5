//! The pointers of Amazon's Extended Client Libraries.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::key::{HexDigest, KeySecret};

/// The name of the pointer's class in the Java library. All libraries write it in front of a pointer.
const CLASS: &str = "software.amazon.payloadoffloading.PayloadS3Pointer";

/// The name in version 1 of the Java library, which the Python library writes on request.
const LEGACY_CLASS: &str = "com.amazon.sqs.javamessaging.MessageS3Pointer";

/// The message attribute with a pointer's MAC. A dead letter keeps it, unlike those that begin with `sqs-once-`.
pub(crate) const MAC: &str = "pointer-mac";

/// The place of a body in S3.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Pointer {
    #[serde(rename = "s3BucketName")]
    pub(crate) bucket: String,
    #[serde(rename = "s3Key")]
    pub(crate) key: String,
}

#[derive(Debug, thiserror::Error)]
#[error("the body is a malformed pointer to S3")]
pub(super) struct Malformed;

/// Names the object in a log line. The producer chose the key, so control characters are escaped and a long key is cut.
impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key: String = self.key.chars().take(200).collect();
        write!(f, "s3://{}/{}", self.bucket, key.escape_debug())
    }
}

impl Pointer {
    /// Parses a pointer: `["software.amazon.payloadoffloading.PayloadS3Pointer",{"s3BucketName":"…","s3Key":"…"}]`.
    /// `None` if the text is something else.
    pub(super) fn parse(text: &str) -> Option<Result<Self, Malformed>> {
        // The class decides, so that a large array is not parsed twice.
        let class = text.trim_start().strip_prefix('[')?;
        let class = class.trim_start().strip_prefix('"')?;
        let (class, _) = class.split_once('"')?;
        if class != CLASS && class != LEGACY_CLASS {
            return None;
        }
        let parsed: Result<(&str, Self), _> = serde_json::from_str(text);
        // The parser's error may quote the body.
        Some(parsed.map(|(_, pointer)| pointer).map_err(|_| Malformed))
    }

    /// Returns the MAC of the pointer in a message with this business key, which is the value of its attribute. The key is
    /// part of it, so that a known pointer fits no other event.
    pub(crate) fn mac(&self, secret: &KeySecret, business_key: &str) -> HexDigest {
        let length = |text: &str| (text.len() as u64).to_be_bytes();
        secret.hash(&[
            b"sqs-once pointer ",
            &length(&self.bucket),
            self.bucket.as_bytes(),
            &length(&self.key),
            self.key.as_bytes(),
            business_key.as_bytes(),
        ])
    }

    #[cfg(feature = "sqs")]
    pub(crate) fn to_text(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(&(CLASS, self))
    }
}
