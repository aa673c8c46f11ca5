//! The settings that `Consumer` and `Idempotency` share.

/// Defines the methods that both builders have. They call the builder's own
/// `fn set_shared(self, change: impl FnOnce(&mut DriverSettings)) -> Self`.
macro_rules! shared_settings {
    () => {
        /// Separates these keys from others in the same table. A [`Consumer`](crate::Consumer) and an
        /// [`Idempotency`](crate::Idempotency) with the same namespace share their keys. Default: `SQS_ONCE_NAMESPACE`, else
        /// the namespace of the attribute. Without any of them, it fails at [`init`](Self::init).
        ///
        /// Another name forgets every key and changes every token: see [the guide](crate::guide::schema_changes) before
        /// such a change. A name has 1 to 255 bytes and no `#`. Other names fail at [`init`](Self::init).
        #[must_use]
        pub fn namespace(self, namespace: &str) -> Self {
            self.set_shared(|settings| settings.namespace = Some(namespace.into()))
        }

        /// Keeps claims in `store` instead of the DynamoDB table that `SQS_ONCE_TABLE` names.
        #[must_use]
        pub fn store(self, store: impl crate::store::Store) -> Self {
            self.set_shared(|settings| settings.store = Some(std::sync::Arc::new(store)))
        }

        /// Sets how long a completed key is recognised as a duplicate. Default: `SQS_ONCE_RETENTION`, else 28 days.
        ///
        /// A message can live for 28 days in a queue and its dead-letter queue together (14 days in each), and for another
        /// 14 after a redrive. Set a longer time if messages stay that long and are redriven at the very end. A time of less than one second fails at
        /// [`init`](Self::init).
        #[must_use]
        pub fn retention(self, retention: std::time::Duration) -> Self {
            self.set_shared(|settings| settings.retention = Some(retention))
        }

        /// Sets how long the lease of a claim lasts beyond the invocation's deadline. Default: `SQS_ONCE_LEASE_MARGIN`,
        /// else 3 s.
        ///
        /// The margin covers clocks that differ, and a process that Lambda ends a little late. Less than one second fails
        /// at [`init`](Self::init).
        #[must_use]
        pub fn lease_margin(self, margin: std::time::Duration) -> Self {
            self.set_shared(|settings| settings.lease_margin = Some(margin))
        }

        /// Sets how long before the invocation's deadline the work is cancelled. This leaves time to record finished
        /// work and to answer. Default: `SQS_ONCE_DEADLINE_MARGIN`, else 1 s or a tenth of the invocation's time,
        /// whichever is less. The margin is never more than half of the invocation's time.
        ///
        /// Zero fails at [`init`](Self::init), because Lambda would end the function before it has answered.
        #[must_use]
        pub fn deadline_margin(self, margin: std::time::Duration) -> Self {
            self.set_shared(|settings| settings.deadline_margin = Some(margin))
        }

        /// Remembers completed keys in this process, so that their duplicates cost no request. Default: no cache.
        ///
        /// Clones share the cache.
        #[must_use]
        pub fn cache(self, cache: crate::idempotency::Cache) -> Self {
            self.set_shared(|settings| settings.cache = Some(cache))
        }

        /// Sets whether the table contains readable keys. Default: off, and the table contains a hash of each key.
        ///
        /// An item's id is then its namespace and its key's parts, each with its kind, such as
        /// `payments#s:tenant-7,i:42`: `s` for text, `i` for an integer, `b` for a boolean, `x` for bytes in
        /// hexadecimal digits. `%`, `,` and everything that is not visible ASCII are escaped as in a URL. Different
        /// keys have different ids, as with hashes. A key is still hashed if its id would have more than 1024 bytes
        /// ([`ItemId::MAX_READABLE_LEN`](crate::key::ItemId::MAX_READABLE_LEN)).
        ///
        /// Switching it on or off changes every id. The consumer then recognises no earlier key, as after renaming the
        /// namespace, unless it reads the other ids with [`also_read`](Self::also_read). The
        /// [`IdempotencyToken`](crate::IdempotencyToken) of an event stays the same. Logs don't show keys in either case:
        /// their `key` ends in the first digits of the id's SHA-256.
        ///
        /// Keys may contain personal data. Backups, exports and streams of the table show readable keys too.
        #[must_use]
        pub fn readable_keys(self, readable: bool) -> Self {
            self.set_shared(|settings| settings.readable_keys = Some(readable))
        }

        /// Sets the form of ids in the table. Default: the [namespace](Self::namespace) and the key's hash.
        ///
        /// With a codec of Powertools for AWS Lambda, this function shares its keys with one that uses Powertools on
        /// the same table: neither handles an event that the other has handled. The codec creates the ids; the
        /// namespace then affects only the [`IdempotencyToken`](crate::IdempotencyToken). No fingerprint is compared or
        /// stored: a message with another payload is a duplicate. A key for which the codec has no id makes its record
        /// terminal.
        ///
        /// Another codec does not find the keys that are already in the table: see [`also_read`](Self::also_read).
        ///
        /// ```
        /// # #[cfg(feature = "powertools")] {
        /// # #[derive(serde::Deserialize)] struct OrderPlaced { order_id: String }
        /// use sqs_once::key::KeyCodec;
        ///
        /// let consumer = sqs_once::consumer::<OrderPlaced>()
        ///     .key(|order: &OrderPlaced| order.order_id.clone())
        ///     .key_codec(KeyCodec::powertools_python("orders.app.process_order"))
        ///     .handler(async |order: OrderPlaced| {});
        /// # }
        /// ```
        #[must_use]
        pub fn key_codec(self, codec: crate::key::KeyCodec) -> Self {
            self.set_shared(|settings| settings.codec = Some(codec))
        }

        /// Sets a second codec or namespace, earlier or future, under which a key is looked up too. Default: none.
        ///
        /// A key is claimed under its own id first, and then looked up under the other one. A key that is completed
        /// there is a duplicate here, as long as that item exists. A key that is in progress there counts as in
        /// progress here. The lookup costs a read unit for every new key.
        ///
        /// Change the codec or namespace in two deployments, so that no key runs twice. Complete each before the next:
        /// first the old codec that also reads the new one, then the new codec that also reads the old one. Remove this
        /// setting after the retention. Without the first deployment, messages that both versions receive during the
        /// second may run twice. The [`IdempotencyToken`](crate::IdempotencyToken) of an event stays the same under
        /// another codec, but not in another namespace.
        ///
        /// No other handler may use or read these ids: each would acknowledge the other's messages. Two handlers of one
        /// process refuse to start with it.
        ///
        /// A consumer whose handler returns [`Writes`](crate::Writes) or takes a transaction refuses to start with it, and
        /// an [`Idempotency`](crate::Idempotency) refuses such work.
        /// In [`Mode::RecordAfter`](crate::policy::Mode::RecordAfter) two concurrent versions may both run a key, as
        /// concurrent deliveries always may in that mode.
        ///
        /// ```
        /// # #[derive(serde::Deserialize)] struct OrderPlaced { order_id: String }
        /// use sqs_once::key::Namespace;
        ///
        /// let consumer = sqs_once::consumer::<OrderPlaced>()
        ///     .key(|order: &OrderPlaced| order.order_id.clone())
        ///     .namespace("payments")
        ///     .also_read(Namespace::new("billing")?)
        ///     .handler(async |order: OrderPlaced| {});
        /// # Ok::<(), sqs_once::Error>(())
        /// ```
        #[must_use]
        pub fn also_read(self, codec: impl Into<crate::key::KeyCodec>) -> Self {
            self.set_shared(|settings| settings.also_read = Some(Some(codec.into())))
        }

        /// Looks for keys under their own ids only. This is the default, except with a
        /// [`key_secret`](Self::key_secret).
        #[must_use]
        pub fn also_read_nothing(self) -> Self {
            self.set_shared(|settings| settings.also_read = Some(None))
        }

        /// Hashes keys and fingerprints with a secret: HMAC-SHA-256 instead of SHA-256. Default: the secret that
        /// `SQS_ONCE_KEY_SECRET_ARN` names in AWS Secrets Manager (feature `secrets`), else none.
        ///
        /// Readers of the table, the logs and the dead-letter queue can guess keys that are easy to enumerate. With a
        /// secret they can't check a guess. The [`IdempotencyToken`](crate::IdempotencyToken) is made without it and stays
        /// the same.
        ///
        /// A new secret changes every id. With a secret, each key is therefore also looked up under the id without a
        /// secret, unless [`also_read`](Self::also_read), [`also_read_nothing`](Self::also_read_nothing) or
        /// `SQS_ONCE_ALSO_READ` is set. That costs a read unit for each new key. [The
        /// guide](crate::guide::schema_changes) shows how to introduce and rotate a secret so that no key runs twice.
        ///
        /// [`readable_keys`](Self::readable_keys) and a [`key_codec`](Self::key_codec) exclude a secret. A handler
        /// whose effect commits with the record of its key excludes a secret too, unless keys are looked up under their
        /// own ids only.
        ///
        /// ```
        /// # #[derive(serde::Deserialize)] struct OrderPlaced { order_id: String }
        /// use sqs_once::key::KeySecret;
        ///
        /// # let random = [7; 32];
        /// let consumer = sqs_once::consumer::<OrderPlaced>()
        ///     .key(|order: &OrderPlaced| order.order_id.clone())
        ///     .namespace("payments")
        ///     .key_secret(KeySecret::new(random)?)
        ///     .handler(async |order: OrderPlaced| {});
        /// # Ok::<(), sqs_once::Error>(())
        /// ```
        #[must_use]
        pub fn key_secret(self, secret: crate::key::KeySecret) -> Self {
            self.set_shared(|settings| settings.key_secret = Some(secret))
        }
    };
}

pub(crate) use shared_settings;
