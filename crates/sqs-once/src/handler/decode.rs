//! Decoders that may wait, such as for an object in S3.

use std::sync::Arc;

use crate::record::{Decode, Message};

use super::HandlerError;
use super::prepared::CallFuture;

/// Decodes a message's text to its payload, and may wait for something: a tenant's settings, a schema, an object in S3. A
/// decoder that does not wait implements [`Decode`](crate::body::Decode), which is faster.
///
/// It runs before the message's key is claimed, because the key may come from the payload. So it runs for duplicates too,
/// and has no effect that must happen once. Its time is limited by the deadline and by
/// [`attempt_timeout`](crate::Handler::attempt_timeout); the handler has the whole `attempt_timeout` again. At most as many
/// messages as the [`concurrency`](crate::Consumer::concurrency) are decoded or wait for a handler at the same time. Those
/// that wait for another worker are not counted. A batch handler takes all payloads of its batch.
///
/// ```
/// use sqs_once::HandlerError;
/// use sqs_once::ResultExt;
/// use sqs_once::body::AsyncDecode;
/// use sqs_once::extract::Message;
/// # #[derive(Clone)] struct Schemas;
/// # impl Schemas { async fn get(&self, _: &str) -> std::io::Result<Schema> { Ok(Schema) } }
/// # struct Schema;
/// # impl Schema { fn read(&self, body: &str) -> std::io::Result<OrderPlaced> { Ok(OrderPlaced { order_id: body.len() as u64 }) } }
///
/// pub struct OrderPlaced { order_id: u64 }
///
/// /// Reads a body by the schema that its message names.
/// struct BySchema(Schemas);
///
/// impl AsyncDecode<OrderPlaced> for BySchema {
///     async fn decode(&self, body: &str, message: &Message) -> Result<OrderPlaced, HandlerError> {
///         let name = message.attribute("schema").unwrap_or("orders");
///         let schema = self.0.get(name).await?;        // `?` means: try again later
///         schema.read(body).terminal()                 // a retry can't fix it
///     }
/// }
///
/// let handler = sqs_once::Handler::decode(BySchema(Schemas))
///     .key(|order: &OrderPlaced| order.order_id)
///     .call(async |order: OrderPlaced| {});
/// ```
pub trait AsyncDecode<T>: Send + Sync + 'static {
    /// Decodes the payload in `body`. Implement it as an `async fn`. If the handler has an envelope, `body` is the text
    /// inside it.
    ///
    /// # Errors
    /// The message fails as if its handler had returned the error: it is retried, delayed or terminal. Other messages
    /// continue. A decoder that panics makes its message terminal.
    fn decode(
        &self,
        body: &str,
        message: &Message,
    ) -> impl Future<Output = Result<T, HandlerError>> + Send;
}

/// A decoder: [`Decode`](crate::body::Decode) or [`AsyncDecode`]. `M` tells the two apart, and is inferred.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not decode a message's body to `{T}`",
    label = "not a decoder for this payload",
    note = "`Json` decodes to any type that implements `serde::Deserialize`, `Text` to `String`, `Base64` to `Vec<u8>`",
    note = "for another format, implement `sqs_once::body::Decode<{T}>`, or `AsyncDecode<{T}>` if it has to wait"
)]
pub trait IntoDecoder<T, M> {
    #[doc(hidden)]
    fn into_decoder(self) -> Decoder<T>;
}

/// Marks decoders that do not wait.
#[doc(hidden)]
#[derive(Debug)]
pub struct AtOnce;

/// Marks decoders that may wait.
#[doc(hidden)]
#[derive(Debug)]
pub struct Waiting;

impl<T, D: Decode<T>> IntoDecoder<T, AtOnce> for D {
    fn into_decoder(self) -> Decoder<T> {
        Decoder(Kind::AtOnce(Arc::new(self)))
    }
}

impl<T: Send + 'static, D: AsyncDecode<T>> IntoDecoder<T, Waiting> for D {
    fn into_decoder(self) -> Decoder<T> {
        Decoder(Kind::Waiting(Arc::new(self)))
    }
}

/// A decoder of either kind.
pub struct Decoder<T>(pub(super) Kind<T>);

pub(super) enum Kind<T> {
    AtOnce(Arc<dyn Decode<T>>),
    Waiting(Arc<dyn Start<T>>),
}

impl<T> std::fmt::Debug for Decoder<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Decoder").finish_non_exhaustive()
    }
}

/// [`AsyncDecode`] without its type.
pub(super) trait Start<T>: Send + Sync {
    fn start(self: Arc<Self>, body: Arc<Message>) -> CallFuture<Option<T>>;
}

impl<T: Send + 'static, D: AsyncDecode<T>> Start<T> for D {
    /// Returns `None` for a message without a body.
    fn start(self: Arc<Self>, message: Arc<Message>) -> CallFuture<Option<T>> {
        Box::pin(async move {
            match message.content() {
                Some(body) => self.decode(body, &message).await.map(Some),
                None => Ok(None),
            }
        })
    }
}
