//! The settings that `Consumer` and `Idempotency` share.

/// Defines the methods that both builders have. They call the builder's own
/// `fn set_shared(self, change: impl FnOnce(&mut StoreSettings)) -> Self`.
macro_rules! shared_settings {
    () => {
        /// Keeps claims in `store` instead of the DynamoDB table that `SQS_ONCE_TABLE` names.
        pub fn store(self, store: impl crate::store::Store) -> Self {
            self.set_shared(|settings| settings.store = Some(std::sync::Arc::new(store)))
        }

        /// Sets how long the lease of a claim lasts beyond the invocation's deadline. Default: `SQS_ONCE_LEASE_MARGIN`,
        /// else 3 s.
        ///
        /// The margin covers clocks that differ, and a process that Lambda ends a little late. Less than one second fails
        /// at [`init`](Self::init).
        pub fn lease_margin(self, margin: std::time::Duration) -> Self {
            self.set_shared(|settings| settings.lease_margin = Some(margin))
        }

        /// Sets how long before the invocation's deadline the work is cancelled. This leaves time to record finished
        /// work and to answer. Default: `SQS_ONCE_DEADLINE_MARGIN`, else 1 s or a tenth of the invocation's time,
        /// whichever is less. The margin is never more than half of the invocation's time.
        ///
        /// Zero fails at [`init`](Self::init), because Lambda would end the function before it has answered.
        pub fn deadline_margin(self, margin: std::time::Duration) -> Self {
            self.set_shared(|settings| settings.deadline_margin = Some(margin))
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
