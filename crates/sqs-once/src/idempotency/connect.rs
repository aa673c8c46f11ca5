//! The store's first request, made before anything waits for it.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::future::FutureExt;
use tokio::time::{Instant, timeout};
use tracing::{Instrument, debug, debug_span, error, warn};

use crate::key::ItemId;
use crate::store::{StoreError, StoreErrorKind};

use super::Driver;

/// Enough for an attempt that is lost and one more. Lambda gives all of the start 10 s.
const LONGEST: Duration = Duration::from_secs(3);

impl Driver {
    /// Reads what is not there. That loads credentials and opens the connection, so that the first claim
    /// pays for neither, and a missing table or permission is in the log of the deployment.
    ///
    /// Trouble keeps nothing from starting: it may be over with the first claim, and if not, each record
    /// says why it failed.
    pub(crate) async fn connect(&self) {
        // No key has this id: it is neither a hash nor a readable key, which contains a `:`.
        let id = ItemId::from_stored(format!("{}#start", self.namespace.as_str()));
        let ids = [id];
        let read = AssertUnwindSafe(async { self.store.read(&ids).await }).catch_unwind();
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
        let duration_ms = began.elapsed().as_secs_f64() * 1000.0;
        debug!(duration_ms, "the store's first request has ended");
        for error in answers.into_iter().filter_map(Result::err) {
            if error.is_transient() {
                warn!(target: "sqs_once::store", error = error.to_string(), "the store did not answer at the start");
            } else {
                error!(target: "sqs_once::store", error = error.to_string(), "the store can't be used as it is");
            }
        }
    }
}
