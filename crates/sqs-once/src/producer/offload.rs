//! Puts bodies that are too large for SQS into S3.

use aws_sdk_s3::Client;
use aws_sdk_s3::primitives::ByteStream;

use crate::key::KeySecret;
use crate::large_messages::{MAC, Pointer};
use crate::random::{OsRandom, Random};

use super::{Outgoing, OutgoingError, Sendable, TEXT, check_count, with};

/// The default of Amazon's Extended Client Libraries. A queue whose `MaximumMessageSize` was never changed takes this
/// much, also if it was created before SQS took 1 MiB.
const THRESHOLD: usize = 256 * 1024;

/// The attribute by which Amazon's libraries recognise a pointer. Its value is the size of the body.
const SIZE: &str = "ExtendedPayloadSize";
const NUMBER: &str = "Number";

/// Where [`Outgoing::offload_onto`] puts large bodies, and which ones.
///
/// Consumers of this library fetch them with [`LargeMessages`](crate::body::LargeMessages), others with
/// Amazon's Extended Client Libraries for Java and Python.
///
/// ```no_run
/// use sqs_once::producer::{Offload, Outgoing};
///
/// # async fn send(
/// #     s3: aws_sdk_s3::Client,
/// #     sqs: aws_sdk_sqs::Client,
/// #     queue_url: &str,
/// #     catalogue: String,
/// # ) -> Result<(), sqs_once::Error> {
/// let bodies = Offload::new(s3, "acme-large-messages", "catalogues/");
/// let message = sqs.send_message().queue_url(queue_url).message_body(catalogue);
/// let message = Outgoing::new("catalogue-7")?.offload_onto(message, &bodies).await?;
/// message.send().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Offload {
    client: Client,
    bucket: String,
    prefix: String,
    threshold: usize,
    secret: Option<KeySecret>,
}

impl Offload {
    /// Creates settings for this bucket and the prefix of the queue's objects, such as `orders/`. The consumer refuses
    /// objects elsewhere. The producer's role needs `s3:PutObject` on the objects under the prefix. Give the bucket a
    /// lifecycle rule: [the guide](crate::guide::large_messages) computes its days.
    pub fn new(client: Client, bucket: &str, prefix: &str) -> Self {
        Self {
            client,
            bucket: bucket.to_owned(),
            prefix: prefix.to_owned(),
            threshold: THRESHOLD,
            secret: None,
        }
    }

    /// Sets how many bytes body and attributes may have together before the body goes to S3. Default: 262,144 (256 KiB),
    /// which a queue takes whose `MaximumMessageSize` was never lowered. The limit of SQS is 1 MiB, also for a whole batch:
    /// choose 104,857 for batches of ten.
    #[must_use]
    pub fn threshold(mut self, bytes: usize) -> Self {
        self.threshold = bytes;
        self
    }

    /// Adds the message attribute `pointer-mac` to messages with a pointer: an HMAC-SHA-256 over bucket, key and the
    /// attribute `business-key`, for consumers that [require it](crate::large_messages::LargeMessages::require_mac). Use a
    /// secret for this purpose only. Default: none.
    ///
    /// The MAC proves who wrote the pointer. It does not cover the object's content.
    #[must_use]
    pub fn mac(mut self, secret: KeySecret) -> Self {
        self.secret = Some(secret);
        self
    }
}

impl Outgoing {
    /// Adds the attributes to a message, as [`onto`](Self::onto) does, and puts a large body into S3. The message then
    /// contains a pointer to it, and the attribute `ExtendedPayloadSize`, with [`Offload::mac`] also `pointer-mac`.
    ///
    /// A FIFO queue with deduplication by content takes each pointer for another message: use
    /// [`deduplication_id`](Self::deduplication_id) there. If the message is never sent, the body stays until the bucket's
    /// lifecycle rule deletes it.
    ///
    /// # Errors
    /// The errors of [`onto`](Self::onto), and [`OutgoingError::NotStored`] if S3 does not take the body.
    pub async fn offload_onto<M: Sendable>(
        &self,
        message: M,
        bodies: &Offload,
    ) -> Result<M, OutgoingError> {
        let message = self.onto(message)?;
        let size = |body: &str| body.len() + message.attributes_size();
        let large = message.body().filter(|body| size(body) > bodies.threshold);
        let Some(body) = large.map(str::to_owned) else {
            return Ok(message);
        };
        let mut message = with(message, SIZE, NUMBER, body.len().to_string())?;
        let pointer = Pointer {
            bucket: bodies.bucket.clone(),
            key: format!("{}{:032x}", bodies.prefix, OsRandom.bits()),
        };
        if let Some(secret) = &bodies.secret {
            let mac = pointer.mac(secret, &self.text).to_string();
            message = with(message, MAC, TEXT, mac)?;
        }
        check_count(&message)?;
        let text = pointer.to_text();
        let text = text.map_err(|error| OutgoingError::NotStored(error.into()))?;
        let request = bodies.client.put_object();
        let request = request.bucket(pointer.bucket).key(pointer.key);
        let stored = request
            .body(ByteStream::from(body.into_bytes()))
            .send()
            .await;
        let stored = stored.map_err(|error| OutgoingError::NotStored(error.into()))?;
        // Something between the function and S3 may answer in its place.
        let unconfirmed = || OutgoingError::NotStored("S3's answer has no ETag".into());
        stored.e_tag().ok_or_else(unconfirmed)?;
        Ok(message.with_body(text))
    }
}
