//! Bodies in S3.

use std::time::Duration;

use aws_sdk_s3::Client;
use aws_sdk_s3::config::Builder;
use aws_sdk_s3::config::retry::RetryPartition;
use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_s3::operation::get_object::{GetObjectError, GetObjectOutput};
use futures_util::future::BoxFuture;
use thiserror::Error;
use tokio::time::timeout;

use crate::aws;
use crate::config::{BUCKET, LARGE_MESSAGES_BUCKET, is_bucket};
use crate::error::{ConfigError, chain};
use crate::handler::{CallFuture, FetchBody, HandlerError};

use super::pointer::{Malformed, Pointer};

/// Ten bodies of this size, as text and as payload, take 80 MB, which fits into a function of 256 MB.
const MAX_SIZE: usize = 4 * 1024 * 1024;

/// How long S3 may send nothing of a body. The timeouts of the SDK end with the head of an answer.
const STALLED_AFTER: Duration = Duration::from_secs(2);

/// Settings for messages whose body is in S3.
///
/// A producer puts a body that is too large for SQS into a bucket, and sends a pointer to it. Amazon's Extended Client
/// Libraries for Java and Python do so, and so does [`Offload`](crate::producer::Offload). The consumer recognises the
/// pointer, fetches the body, and decodes it as if the message contained it. Other messages are as without this
/// setting. [The guide](crate::guide::large_messages) has the details.
///
/// The variable `SQS_ONCE_LARGE_MESSAGES_BUCKET` alone is enough for the defaults. The function's role needs
/// `s3:GetObject` on the bucket's objects, and `s3:ListBucket` on the bucket, without which S3 does not tell a missing
/// object from a forbidden one.
///
/// ```
/// # #[derive(serde::Deserialize)] struct Catalogue { id: String }
/// use sqs_once::large_messages::LargeMessages;
///
/// let consumer = sqs_once::consumer::<Catalogue>()
///     .key(|catalogue: &Catalogue| catalogue.id.clone())
///     .large_messages(LargeMessages::in_bucket("acme-large-messages").max_size(8 * 1024 * 1024))
///     .handler(async |catalogue: Catalogue| {});
/// ```
#[derive(Clone, Debug)]
pub struct LargeMessages {
    client: Option<Client>,
    buckets: Vec<String>,
    /// Whether the variable's bucket is one of them.
    reads_env: bool,
    max_size: usize,
}

impl LargeMessages {
    /// Creates settings for bodies in this bucket, whatever the variable names. A pointer to another bucket makes its
    /// record terminal: a producer must not choose what the function reads.
    pub fn in_bucket(name: &str) -> Self {
        let settings = Self {
            reads_env: false,
            ..Self::from_env()
        };
        settings.or_bucket(name)
    }

    /// Creates settings for bodies in the bucket that `SQS_ONCE_LARGE_MESSAGES_BUCKET` names. The consumer does not start
    /// if the variable is not set.
    pub fn from_env() -> Self {
        Self {
            client: None,
            buckets: Vec::new(),
            reads_env: true,
            max_size: MAX_SIZE,
        }
    }

    /// Adds a bucket, for producers with a bucket of their own.
    #[must_use]
    pub fn or_bucket(mut self, name: &str) -> Self {
        self.buckets.push(name.to_owned());
        self
    }

    /// Sets the S3 client, for your own credentials or endpoints, or for a bucket in another Region. Default: a client
    /// with timeouts and the SDK's settings from the environment.
    #[must_use]
    pub fn client(mut self, client: Client) -> Self {
        self.client = Some(client);
        self
    }

    /// Sets how many bytes a body may have. A larger one makes its record terminal. Default: 4 MiB. Zero fails at
    /// [`init`](crate::Consumer::init).
    ///
    /// The bodies of a batch take up to about 2 × concurrency × this size of memory, plus what the handlers keep. With
    /// the defaults that is 80 MB, which fits into a function of 256 MB. Records that wait for another worker hold their
    /// bodies in addition, and in a consumer with hooks also the copies in the batch. A batch handler holds all bodies of
    /// its batch.
    #[must_use]
    pub fn max_size(mut self, bytes: usize) -> Self {
        self.max_size = bytes;
        self
    }

    pub(super) async fn connect(mut self, env: Option<&str>) -> Result<Bodies, ConfigError> {
        if self.max_size == 0 {
            return Err(ConfigError::new(
                "the setting `max_size`",
                "is 0",
                "1 or more",
            ));
        }
        if let Some(bucket) = self.buckets.iter().find(|bucket| !is_bucket(bucket)) {
            let problem = format!("names the bucket {bucket:?}");
            return Err(ConfigError::new(
                "the setting `large_messages`",
                problem,
                BUCKET,
            ));
        }
        if self.reads_env {
            let unset = || ConfigError::new(LARGE_MESSAGES_BUCKET, "is not set", BUCKET);
            self.buckets.push(env.ok_or_else(unset)?.to_owned());
        }
        let client = match self.client.take() {
            Some(client) => client,
            None => client_from_env().await,
        };
        Ok(Bodies {
            client,
            settings: self,
        })
    }
}

/// Boxed, because a `main` whose future contains the SDK's futures comes close to rustc's recursion limit.
fn client_from_env() -> BoxFuture<'static, Client> {
    Box::pin(async {
        let config = Builder::from(aws::config().await)
            .retry_partition(RetryPartition::new("sqs-once S3"))
            .build();
        Client::from_conf(config)
    })
}

/// The bodies in the consumer's buckets.
#[derive(Clone)]
pub(super) struct Bodies {
    client: Client,
    settings: LargeMessages,
}

/// Why a body was not fetched. No text has the object's key, which producers may choose.
#[derive(Debug, Error)]
enum FetchError {
    #[error(transparent)]
    Malformed(#[from] Malformed),
    #[error(
        "the body is in the bucket {0:?}, from which this consumer does not fetch: see SQS_ONCE_LARGE_MESSAGES_BUCKET"
    )]
    OtherBucket(String),
    #[error("the object with the body is missing in the bucket {0:?}")]
    Missing(String),
    #[error("the object with the body is archived: restore it before you redrive the message")]
    Archived,
    #[error("the body has {size} bytes or more, and the consumer's `max_size` is {max_size}")]
    TooLarge { size: u64, max_size: usize },
    #[error("the body in S3 is not UTF-8")]
    NotUtf8,
    #[error("S3 sent nothing of the body for {} s", STALLED_AFTER.as_secs())]
    Stalled,
    #[error("the connection to S3 broke: {0}")]
    Broken(String),
    #[error("{0}")]
    Refused(String),
}

impl FetchError {
    fn into_handler_error(self) -> HandlerError {
        match self {
            Self::Stalled | Self::Broken(_) | Self::Refused(_) => HandlerError::retry(self),
            _ => HandlerError::terminal(self),
        }
    }
}

impl Bodies {
    async fn get(&self, pointer: Result<Pointer, Malformed>) -> Result<String, FetchError> {
        let Pointer { bucket, key } = pointer?;
        if !self.settings.buckets.contains(&bucket) {
            // It may have any length.
            return Err(FetchError::OtherBucket(bucket.chars().take(63).collect()));
        }
        let request = self.client.get_object().bucket(&bucket).key(key);
        let answer = request.send().await;
        let answer = answer.map_err(|error| refused(&error, bucket))?;
        let body = self.read(answer).await?;
        String::from_utf8(body).map_err(|_| FetchError::NotUtf8)
    }

    async fn read(&self, answer: GetObjectOutput) -> Result<Vec<u8>, FetchError> {
        let max_size = self.settings.max_size;
        let check = |size: u64| match usize::try_from(size) {
            Ok(size) if size <= max_size => Ok(size),
            _ => Err(FetchError::TooLarge { size, max_size }),
        };
        let length = answer.content_length().unwrap_or_default();
        let length = check(length.try_into().unwrap_or_default())?;
        let mut body = Vec::with_capacity(length);
        let mut stream = answer.body;
        loop {
            let next = timeout(STALLED_AFTER, stream.next()).await;
            match next.map_err(|_| FetchError::Stalled)? {
                // SQS accepts no empty body, so none was put into S3.
                None if body.is_empty() => {
                    return Err(FetchError::Broken("the body is empty".to_owned()));
                }
                None => return Ok(body),
                Some(Err(error)) => return Err(FetchError::Broken(chain(&error))),
                Some(Ok(chunk)) => {
                    check(body.len() as u64 + chunk.len() as u64)?;
                    body.extend_from_slice(&chunk);
                }
            }
        }
    }
}

impl FetchBody for Bodies {
    fn fetch(&self, content: &str) -> Option<CallFuture<String>> {
        let pointer = Pointer::parse(content)?;
        let bodies = self.clone();
        Some(Box::pin(async move {
            let body = bodies.get(pointer).await;
            body.map_err(FetchError::into_handler_error)
        }))
    }
}

fn refused(error: &SdkError<GetObjectError>, bucket: String) -> FetchError {
    match error.as_service_error() {
        Some(GetObjectError::NoSuchKey(_)) => FetchError::Missing(bucket),
        Some(GetObjectError::InvalidObjectState(_)) => FetchError::Archived,
        _ => FetchError::Refused(said(error)),
    }
}

/// Formats an error in one line. Leaves out S3's own message, which may quote the object's key.
fn said(error: &SdkError<GetObjectError>) -> String {
    if error.as_service_error().is_none() {
        return chain(error);
    }
    let code = error.code().unwrap_or("an error without a code");
    let help = match code {
        "AccessDenied" => {
            ": the function's role must allow s3:GetObject on the bucket's objects, s3:ListBucket on the bucket to \
             tell missing objects, and kms:Decrypt if a key of KMS encrypts them"
        }
        "NoSuchBucket" => ": no bucket has the name that the pointer has",
        "PermanentRedirect" | "AuthorizationHeaderMalformed" => {
            ": the bucket is in another Region than the client"
        }
        _ => "",
    };
    format!("S3 answered {code}{help}")
}
