//! The input of extractors, for tests that call a handler as a plain function.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::error::Disposition;
use crate::handler::RecordParts;
use crate::key::{KeyPart, Namespace};
use crate::store::Fence;

use super::bench::{TIMEOUT, business_key, invocation};
use super::clock::BEGINNING;
use super::{Event, Record};

impl Record {
    /// Creates the input of extractors from this message, for a handler that the test calls as a plain function, and
    /// for custom extractors. The key counts as claimed for the first time, and 29 s remain.
    ///
    /// ```
    /// use serde_json::json;
    /// use sqs_once::testing::Record;
    /// use sqs_once::extract::{Attempt, FromRecord};
    /// use sqs_once::{HandlerError, IdempotencyToken};
    ///
    /// async fn charge(cents: u64, token: IdempotencyToken, attempt: Attempt) -> Result<(), HandlerError> {
    ///     # let _ = (cents, token);
    ///     if attempt.receive_count() > 5 { Err("enough") } else { Ok(()) }?;
    ///     Ok(())
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), HandlerError> {
    /// let parts = Record::json(&json!({ "cents": 1299 })).receive_count(6).parts("o-1001", ());
    /// let token = IdempotencyToken::from_record(&parts).await?;
    /// let attempt = Attempt::from_record(&parts).await?;
    ///
    /// let refused = charge(1299, token, attempt).await.unwrap_err();
    /// assert_eq!(refused.to_string(), "enough");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Panics
    /// If `key` can't be a business key, or the message id is empty.
    #[must_use]
    #[track_caller]
    pub fn parts<K, S>(self, key: &K, state: S) -> RecordParts<S>
    where
        K: KeyPart + ?Sized,
    {
        let message = Event::new([self]).read().messages.pop();
        let message = message.filter(|message| !message.id().is_empty());
        let message = message.expect("a record needs a message id");
        message.correlate(None);
        let namespace = Namespace::new("test").expect("a namespace that is valid");
        let key = business_key(key);
        RecordParts {
            message: Arc::new(message),
            invocation: Arc::new(invocation(BEGINNING + TIMEOUT)),
            item: namespace.item_id(&key),
            namespace,
            key: Arc::new(key),
            fence: Fence::first(BEGINNING),
            route: None,
            transaction: None,
            is_repeated: false,
            mismatch: Some(Disposition::Terminal),
            cancel_at: Instant::now() + TIMEOUT - Duration::from_secs(1),
            state,
        }
    }
}
