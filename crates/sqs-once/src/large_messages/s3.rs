//! Bodies in S3.

use std::sync::Arc;
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
use crate::config::LARGE_MESSAGES;
use crate::error::{ConfigError, chain};
use crate::handler::{CallFuture, FetchBody, HandlerError};
use crate::key::{KeySecret, PRODUCER_ATTRIBUTE};
use crate::record::{BodyMemory, Message};
use crate::report::Code;

use super::pointer::{MAC, Malformed, Pointer};
use super::source::Source;

const MIB: usize = 1024 * 1024;

const MAX_SIZE: usize = 4 * MIB;

/// The share of a function's memory that bodies may take. Their payloads often take as much again, and the process some
/// 50 MB.
const SHARE: usize = 8;
/// The memory of a process outside Lambda.
const ELSEWHERE: usize = 512;

/// How long S3 may send nothing of a body. The timeouts of the SDK end with the head of an answer.
const STALLED_AFTER: Duration = Duration::from_secs(2);

/// Settings for messages whose body is in S3.
///
/// A producer puts a body that is too large for SQS into a bucket, and sends a pointer to it. Amazon's Extended Client
/// Libraries for Java and Python do so, and so does [`Offload`](crate::producer::Offload). The consumer recognises the
/// pointer, fetches the body, and decodes it as if the message contained it. Other messages are as without this
/// setting. [The guide](crate::guide::large_messages) has the details.
///
/// Each queue has its own objects: those under one prefix of a bucket. **Whoever may send to this queue can make the
/// function read any object under that prefix, so give each trust domain its own.** A pointer to any other object makes
/// its message terminal, and nothing is fetched.
///
/// The variable `SQS_ONCE_LARGE_MESSAGES` alone is enough for the defaults. The function's role needs `s3:GetObject` on
/// these objects, and `s3:ListBucket` on the bucket, without which S3 does not tell a missing object from a forbidden one.
///
/// ```
/// # #[derive(serde::Deserialize)] struct Catalogue { id: String }
/// use sqs_once::body::LargeMessages;
///
/// let queue = "arn:aws:sqs:eu-central-1:123456789012:catalogues";
/// let messages = LargeMessages::for_queue(queue, "acme-large-messages/catalogues/*");
/// # #[sqs_once::handler(key = catalogue.id, namespace = "catalogues")]
/// # async fn import(catalogue: Catalogue) {}
/// let consumer = import::consumer().large_messages(messages.max_size(8 * 1024 * 1024));
/// ```
#[derive(Clone, Debug)]
pub struct LargeMessages {
    client: Option<Client>,
    /// Queues, each with objects of a bucket.
    sources: Vec<(String, String)>,
    /// Whether the variable names further ones.
    reads_env: bool,
    secrets: Vec<KeySecret>,
    max_size: usize,
    max_memory: Option<usize>,
}

impl LargeMessages {
    /// Creates settings for one queue, whatever the variable names: its ARN, and the objects that its messages may name,
    /// such as `acme-large-messages/orders/*`. The objects are a bucket and a prefix that ends in `/`, and then `*`. In
    /// `acme-orders/*` the prefix is empty: the messages may name every object of the bucket.
    ///
    /// Invalid texts fail at [`init`](crate::Consumer::init), and so does a prefix that contains another queue's different
    /// prefix.
    pub fn for_queue(queue_arn: &str, objects: &str) -> Self {
        let settings = Self {
            reads_env: false,
            ..Self::from_env()
        };
        settings.and_queue(queue_arn, objects)
    }

    /// Creates settings for the queues in `SQS_ONCE_LARGE_MESSAGES`, such as
    /// `arn:aws:sqs:eu-central-1:123456789012:orders=acme-large-messages/orders/*`. Commas or white space separate several.
    /// The consumer does not start if the variable is not set.
    pub fn from_env() -> Self {
        Self {
            client: None,
            sources: Vec::new(),
            reads_env: true,
            secrets: Vec::new(),
            max_size: MAX_SIZE,
            max_memory: None,
        }
    }

    /// Adds a queue, or further objects of a queue, as in [`for_queue`](Self::for_queue).
    #[must_use]
    pub fn and_queue(mut self, queue_arn: &str, objects: &str) -> Self {
        self.sources
            .push((queue_arn.to_owned(), objects.to_owned()));
        self
    }

    /// Accepts only pointers with the MAC of [`Offload::mac`](crate::producer::Offload::mac) under this secret, so that a
    /// sender needs more than the permission to send. Any other pointer makes its message terminal, and nothing is fetched.
    /// Default: no MAC is needed, because Amazon's libraries write none.
    ///
    /// A second call adds a secret. To rotate: add the new secret here, then change the producers', then remove the old one.
    #[must_use]
    pub fn require_mac(mut self, secret: KeySecret) -> Self {
        self.secrets.push(secret);
        self
    }

    /// Sets the S3 client, for your own credentials or endpoints, or for a bucket in another Region. Default: a client
    /// with timeouts and the SDK's settings from the environment.
    #[must_use]
    pub fn client(mut self, client: Client) -> Self {
        self.client = Some(client);
        self
    }

    /// Sets how many bytes a body may have. A larger one makes its message terminal. Default: 4 MiB. Zero fails at
    /// [`init`](crate::Consumer::init).
    #[must_use]
    pub fn max_size(mut self, bytes: usize) -> Self {
        self.max_size = bytes;
        self
    }

    /// Sets how many bytes the fetched bodies of all batches may take together, from the request to S3 until the handler,
    /// the hooks and the code that they started have dropped the message. Default: an eighth of the function's memory
    /// (`AWS_LAMBDA_FUNCTION_MEMORY_SIZE`), outside Lambda 64 MiB. Zero fails at [`init`](crate::Consumer::init). The
    /// payloads that are decoded from the bodies take memory in addition.
    ///
    /// A message waits for memory until others have ended, and holds none meanwhile. A batch handler holds the bodies of
    /// all its messages, so a message for whose body there is no memory returns to the queue untried. The metric `NoRoom`
    /// counts it. A body that is larger than all of this memory makes its message terminal.
    #[must_use]
    pub fn max_memory(mut self, bytes: usize) -> Self {
        self.max_memory = Some(bytes);
        self
    }

    /// `memory` is the function's in MiB.
    pub(super) async fn connect(
        self,
        env: Option<&str>,
        memory: Option<usize>,
    ) -> Result<Bodies, ConfigError> {
        for (setting, bytes) in [
            ("the setting `max_size`", Some(self.max_size)),
            ("the setting `max_memory`", self.max_memory),
        ] {
            if bytes == Some(0) {
                return Err(ConfigError::invalid(setting, "is 0", "1 or more"));
            }
        }
        let memory = memory.unwrap_or(ELSEWHERE).saturating_mul(MIB) / SHARE;
        let memory = self.max_memory.unwrap_or(memory);
        let sources = self.sources.iter();
        let sources = sources.map(|(queue_arn, objects)| Source::new(queue_arn, objects));
        let mut sources = sources.collect::<Result<Vec<_>, _>>()?;
        if self.reads_env {
            sources.extend(Source::list(env)?);
        }
        let setting = match self.sources.is_empty() {
            true => LARGE_MESSAGES,
            false => "the setting `large_messages`",
        };
        Source::keep_apart(&sources, setting)?;
        Ok(Bodies {
            client: match self.client {
                Some(client) => client,
                None => client_from_env().await,
            },
            sources: sources.into(),
            secrets: self.secrets.into(),
            largest: match self.max_size <= memory {
                true => ("max_size", self.max_size),
                false => ("max_memory", memory),
            },
            memory: BodyMemory::new(memory, self.max_size),
        })
    }
}

/// Boxed, because a `main` whose future contains the SDK's futures comes close to rustc's recursion limit.
fn client_from_env() -> BoxFuture<'static, Client> {
    Box::pin(async {
        let config = Builder::from(aws::config().await)
            .retry_partition(RetryPartition::new("sqs-once S3"))
            .retry_classifier(aws::SignAgain)
            .build();
        Client::from_conf(config)
    })
}

/// The bodies that messages may name.
#[derive(Clone)]
pub(super) struct Bodies {
    client: Client,
    sources: Arc<[Source]>,
    secrets: Arc<[KeySecret]>,
    /// The setting that limits a body, and its value in bytes.
    largest: (&'static str, usize),
    memory: Arc<BodyMemory>,
}

/// Why a body was not fetched.
#[derive(Debug, Error)]
enum FetchError {
    #[error(transparent)]
    Malformed(#[from] Malformed),
    #[error(
        "the message points to S3, and its queue {0:?} has no objects there: see SQS_ONCE_LARGE_MESSAGES"
    )]
    OtherQueue(String),
    #[error("the message points to another object than its queue's, which are {0}")]
    OtherObject(String),
    #[error(
        "the message's pointer to S3 has no MAC under a secret of this consumer: see `require_mac`"
    )]
    NoMac,
    #[error("the object with the body is missing")]
    Missing,
    #[error("the object with the body is archived: restore it before you redrive the message")]
    Archived,
    #[error("the body has {size} bytes or more, and the consumer's `{setting}` is {most}")]
    TooLarge {
        size: u64,
        setting: &'static str,
        most: usize,
    },
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
    /// `object` is what was asked for, after its pointer was checked.
    fn into_handler_error(self, object: Option<&str>) -> HandlerError {
        let reason = match object {
            Some(object) => format!("{self} ({object})"),
            None => self.to_string(),
        };
        let reason = Code::BodyNotFetched.because(reason);
        match self {
            Self::Stalled | Self::Broken(_) | Self::Refused(_) => HandlerError::retry(reason),
            _ => HandlerError::terminal(reason),
        }
    }
}

impl Bodies {
    /// Refuses a pointer to an object that the message's queue does not have, or without a MAC that is needed. The producer
    /// wrote the pointer, Lambda the queue's ARN.
    fn check(&self, pointer: &Pointer, message: &Message) -> Result<(), FetchError> {
        let queue_arn = message.queue_arn().unwrap_or_default();
        let sources = self.sources.iter();
        let sources: Vec<_> = sources.filter(|it| it.is_of(queue_arn)).collect();
        if sources.is_empty() {
            return Err(FetchError::OtherQueue(queue_arn.to_owned()));
        }
        if !sources.iter().any(|it| it.contains(pointer)) {
            let objects: Vec<_> = sources.iter().map(|it| it.objects()).collect();
            return Err(FetchError::OtherObject(objects.join(", ")));
        }
        let attribute = |name| message.attribute(name).unwrap_or_default();
        let (mac, key) = (attribute(MAC), attribute(PRODUCER_ATTRIBUTE));
        let is_its = |secret: &KeySecret| secret.equal([mac, pointer.mac(secret, key).as_str()]);
        match self.secrets.is_empty() || self.secrets.iter().any(is_its) {
            true => Ok(()),
            false => Err(FetchError::NoMac),
        }
    }

    async fn get(&self, Pointer { bucket, key }: Pointer) -> Result<String, FetchError> {
        let request = self.client.get_object().bucket(bucket).key(key);
        let answer = request.send().await;
        let answer = answer.map_err(|error| refused(&error))?;
        let body = self.read(answer).await?;
        String::from_utf8(body).map_err(|_| FetchError::NotUtf8)
    }

    async fn read(&self, answer: GetObjectOutput) -> Result<Vec<u8>, FetchError> {
        let (setting, most) = self.largest;
        let check = |size: u64| match usize::try_from(size) {
            Ok(size) if size <= most => Ok(size),
            _ => Err(FetchError::TooLarge {
                size,
                setting,
                most,
            }),
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
    fn fetch(&self, message: &Message) -> Option<CallFuture<String>> {
        let pointer = Pointer::parse(message.content()?)?.map_err(FetchError::from);
        let pointer = pointer.and_then(|pointer| self.check(&pointer, message).map(|()| pointer));
        let bodies = self.clone();
        Some(Box::pin(async move {
            let pointer = pointer.map_err(|error| error.into_handler_error(None))?;
            let object = pointer.to_string();
            let body = bodies.get(pointer).await;
            body.map_err(|error| error.into_handler_error(Some(&object)))
        }))
    }

    fn memory(&self) -> &Arc<BodyMemory> {
        &self.memory
    }
}

fn refused(error: &SdkError<GetObjectError>) -> FetchError {
    match error.as_service_error() {
        Some(GetObjectError::NoSuchKey(_)) => FetchError::Missing,
        Some(GetObjectError::InvalidObjectState(_)) => FetchError::Archived,
        _ => FetchError::Refused(said(error)),
    }
}

/// Formats an error in one line. Leaves out S3's own message, which may quote the object's key.
fn said(error: &SdkError<GetObjectError>) -> String {
    if error.as_service_error().is_none() {
        return format!("S3 did not answer: {}", chain(error));
    }
    let code = error.code().unwrap_or("an error without a code");
    let help = match code {
        "NoSuchBucket" => "no bucket has the name that the pointer has",
        "PermanentRedirect" | "AuthorizationHeaderMalformed" => {
            "the bucket is in another Region than the client"
        }
        _ => match aws::access_hint(code, error.message().unwrap_or_default()) {
            Some(hint) => hint,
            None if code == "AccessDenied" => {
                "the function's role must allow s3:GetObject on the bucket's objects, and s3:ListBucket on the bucket to \
                 tell missing objects"
            }
            None => return format!("S3 answered {code}"),
        },
    };
    format!("S3 answered {code}: {help}")
}
