//! A consumer on a test bench.

use std::sync::Arc;

use crate::error::ConfigError;
#[cfg(feature = "sqs")]
use crate::failed::Queues;
use crate::idempotency::KeyRules;
use crate::random::Random;
use crate::store::Store;
use crate::time::Clock;

use super::builder::{Consumer, Handles};

/// The namespace of a consumer if neither code nor environment sets one.
const NAMESPACE: &str = "test";

impl Consumer {
    /// Returns the same consumer as in a new process, without access to anything outside the process.
    pub(crate) fn isolated(
        mut self,
        store: impl Store,
        clock: impl Clock,
        random: impl Random,
    ) -> Self {
        if let Handles::One(handler) = &mut self.handles {
            let namespace = &mut handler.settings.keys.declared_namespace;
            namespace.get_or_insert_with(|| NAMESPACE.into());
        }
        self.store(store).set(|settings| {
            settings.store.clock = Some(Arc::new(clock));
            settings.store.random = Some(Arc::new(random));
        })
    }

    /// Returns the same consumer with queues that stay in the process, unless the code has a client for them.
    #[cfg(feature = "sqs")]
    pub(crate) fn with_queues(self, queues: Queues) -> Self {
        self.set(|settings| settings.failed.bench = Some(queues))
    }

    /// Returns the rules of the only route, or of the route with this name.
    pub(crate) async fn rules(&self, route: Option<&str>) -> Result<&KeyRules, ConfigError> {
        let engine = self.engine().await?;
        let mut routes = engine.routes.iter();
        let found = routes.find(|one| route.is_none() || one.name.as_deref() == route);
        match found {
            Some(found) => Ok(&found.idempotency),
            None => Err(ConfigError::invalid(
                "the test",
                format!("asks for the route {:?}", route.unwrap_or_default()),
                "a route of the router",
            )),
        }
    }
}
