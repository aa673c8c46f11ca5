//! A consumer on a test bench.

use std::sync::Arc;

use crate::error::ConfigError;
use crate::idempotency::Driver;
use crate::key::Namespace;
use crate::random::Random;
use crate::store::Store;
use crate::time::{Clock, Timestamp};

use super::Consumer;

/// The namespace where neither code nor environment names one.
const NAMESPACE: &str = "test";

impl Consumer {
    /// The same consumer in a new process that reaches nothing outside itself.
    pub(crate) fn isolated(
        self,
        store: impl Store,
        clock: impl Clock,
        random: impl Random,
    ) -> Self {
        self.store(store).set(|settings| {
            settings.idempotency.clock = Some(Arc::new(clock));
            settings.idempotency.random = Some(Arc::new(random));
            #[cfg(feature = "sqs")]
            {
                settings.disposition.is_isolated = true;
            }
            // No two handlers share keys on a bench that a deployment would keep apart or refuse.
            if !matches!(settings.idempotency.default_namespace, Some(Ok(_))) {
                let unique = settings.unique_namespace.clone();
                let namespace = unique.or_else(|| Namespace::new(NAMESPACE).ok());
                settings.idempotency.default_namespace = namespace.map(Ok);
            }
        })
    }

    pub(crate) async fn driver(&self) -> Result<&Driver, ConfigError> {
        Ok(&self.core().await?.engine.idempotency)
    }

    /// Until when a claim holds that is made in an invocation which ends at `ends_at`.
    pub(crate) async fn lease_until(&self, ends_at: Timestamp) -> Result<Timestamp, ConfigError> {
        Ok(self.driver().await?.deadline(ends_at).lease_until)
    }
}
