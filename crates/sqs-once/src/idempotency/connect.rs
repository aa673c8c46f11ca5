//! The store's first request, sent before the first event.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::future::FutureExt;
use tokio::time::{Instant, timeout};
use tracing::{Instrument, debug, debug_span, error, warn};

use crate::key::ItemId;
use crate::store::{Item, StoreError, StoreErrorKind};
use crate::telemetry::millis;

use super::KeyRules;

/// The longest time for the request: enough for a lost attempt and another. Lambda limits the whole start to 10 s.
const LONGEST: Duration = Duration::from_secs(3);

impl KeyRules {
    /// Reads items, or one that does not exist. This loads credentials and opens the connection before the first claim, and
    /// logs a missing table or permission at start.
    ///
    /// An error does not stop the start. It may be gone before the first claim; if it persists, each record reports it.
    pub(crate) async fn connect(&self, mut ids: Vec<ItemId>) -> Vec<Option<Item>> {
        if ids.is_empty() {
            // No key has this id: it is neither a hash nor a readable key, which contains a `:`.
            ids.push(ItemId::from_stored(format!(
                "{}#start",
                self.namespace.as_str()
            )));
        }
        let read = AssertUnwindSafe(async { self.driver.store.read(&ids).await }).catch_unwind();
        let read = read.instrument(debug_span!("open_store"));
        let began = Instant::now();
        let answers = match timeout(LONGEST, read).await {
            Ok(Ok(answers)) => answers,
            Ok(Err(_)) => vec![Err(StoreError::new(StoreErrorKind::Other, "it panicked"))],
            Err(_) => {
                let message = format!("no answer within {LONGEST:?}");
                vec![Err(StoreError::new(StoreErrorKind::Unanswered, message))]
            }
        };
        let duration_ms = millis(began.elapsed());
        debug!(duration_ms, "the store's first request has ended");
        for error in answers
            .iter()
            .filter_map(|answer| answer.as_ref().err())
            .take(1)
        {
            if error.is_transient() {
                warn!(target: "sqs_once::store", error = error.to_string(), "the store did not answer at the start");
            } else {
                error!(target: "sqs_once::store", error = error.to_string(), "the store can't be used as it is");
            }
        }
        answers
            .into_iter()
            .map(|answer| answer.ok().flatten())
            .collect()
    }
}
