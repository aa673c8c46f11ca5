//! A consumer on a test bench.

use std::sync::Arc;

use crate::error::ConfigError;
use crate::idempotency::Driver;
use crate::key::Namespace;
use crate::random::Random;
use crate::store::Store;
use crate::time::Clock;

use super::Consumer;

/// The namespace if neither code nor environment sets one.
const NAMESPACE: &str = "test";

impl Consumer {
    /// Returns the same consumer as in a new process, without access to anything outside the process.
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
                settings.failed.is_isolated = true;
            }
            // On a bench, two handlers share keys only if they would in a deployment.
            if !matches!(settings.idempotency.default_namespace, Some(Ok(_))) {
                let unique = settings.unique_namespace.clone();
                let namespace = unique.or_else(|| Namespace::new(NAMESPACE).ok());
                settings.idempotency.default_namespace = namespace.map(Ok);
            }
        })
    }

    pub(crate) async fn driver(&self) -> Result<&Driver, ConfigError> {
        Ok(&self.engine().await?.idempotency)
    }
}
