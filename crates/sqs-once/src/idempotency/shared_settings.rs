//! The settings that `Consumer` and `Idempotency` share.

/// Defines the methods that both builders have. They call the builder's own
/// `fn set_shared(self, change: impl FnOnce(&mut StoreSettings)) -> Self`.
macro_rules! shared_settings {
    () => {
        /// Keeps keys in `store` instead of the DynamoDB table that `SQS_ONCE_TABLE` names.
        pub fn store(self, store: impl crate::store::Store) -> Self {
            self.set_shared(|settings| settings.store = Some(std::sync::Arc::new(store)))
        }

        /// Sets how long claims outlast the invocation's deadline, and how long before it the work is cancelled. Default:
        /// those of [`Margins`](crate::consumer::Margins).
        pub fn margins(self, margins: crate::idempotency::Margins) -> Self {
            self.set_shared(|settings| settings.margins = margins)
        }

        /// Remembers completed keys in this process, so that their duplicates cost no request. Default: no cache.
        ///
        /// Clones share the cache.
        pub fn cache(self, cache: crate::idempotency::Cache) -> Self {
            self.set_shared(|settings| settings.cache = Some(cache))
        }
    };
}

pub(crate) use shared_settings;
