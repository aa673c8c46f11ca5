//! The settings that `Consumer` and `Idempotency` share.

/// The methods of both builders. A builder that uses this has
/// `fn set_shared(self, change: impl FnOnce(&mut DriverSettings)) -> Self`.
macro_rules! shared_settings {
    () => {
        /// Separates these keys from others in the same table. A [`Consumer`](crate::Consumer) and an
        /// [`Idempotency`](crate::Idempotency) with the same namespace share their keys.
        ///
        /// A name has 1 to 255 bytes and no `#`; any other fails at [`init`](Self::init).
        #[must_use]
        pub fn namespace(self, namespace: &str) -> Self {
            self.set_shared(|settings| settings.set_namespace(namespace))
        }

        /// Keeps claims in `store` instead of the DynamoDB table that `SQS_ONCE_TABLE` names.
        #[must_use]
        pub fn store(self, store: impl crate::store::Store) -> Self {
            self.set_shared(|settings| settings.store = Some(std::sync::Arc::new(store)))
        }

        /// Sets how long a completed key is recognised as a duplicate. Default: `SQS_ONCE_RETENTION`, else 28 days.
        ///
        /// 28 days are as long as a message can live in a queue and its dead-letter queue together (14 days in each). Set
        /// more where messages stay that long and are redriven at the very end. Less than one second fails at
        /// [`init`](Self::init).
        #[must_use]
        pub fn retention(self, retention: std::time::Duration) -> Self {
            self.set_shared(|settings| settings.retention = Some(retention))
        }

        /// Sets how far the lease of a claim reaches beyond the invocation's deadline. Default:
        /// `SQS_ONCE_LEASE_MARGIN`, else 3 s.
        ///
        /// The margin covers Lambda ending the process a little late, and clocks that differ.
        #[must_use]
        pub fn lease_margin(self, margin: std::time::Duration) -> Self {
            self.set_shared(|settings| settings.lease_margin = Some(margin))
        }

        /// Sets how long before the invocation's deadline the work is cancelled, so that there is time to record what is
        /// done and to answer. Default: `SQS_ONCE_DEADLINE_MARGIN`, else 1 s, or a tenth of the invocation's time if that
        /// is less; at most half of it.
        ///
        /// Zero fails at [`init`](Self::init): Lambda would end the function before its answer is out.
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

        /// Sets whether the table shows keys as they are. Default: off, and it holds a hash of each.
        ///
        /// An item's id is then its namespace and its key's parts, each with its kind, such as
        /// `payments#s:tenant-7,i:42`: `s` for text, `i` for an integer, `b` for a boolean, `x` for bytes in
        /// hexadecimal digits. `%`, `,` and everything that is not visible ASCII are escaped as in a URL. Different
        /// keys have different ids, as with hashes. A key whose id would have more than 1024 bytes
        /// ([`ItemId::MAX_READABLE_LEN`](crate::key::ItemId::MAX_READABLE_LEN)) is hashed all the same.
        ///
        /// Switching it on or off changes every id, and so forgets every key, as renaming the namespace
        /// does. The [`IdempotencyToken`](crate::IdempotencyToken) of an event stays the same. Logs don't
        /// show keys in either case: their `key` ends in the first digits of the id's SHA-256.
        ///
        /// Keys may name people. More than the function reads the table: backups, exports and streams show keys too.
        #[must_use]
        pub fn readable_keys(self, readable: bool) -> Self {
            self.set_shared(|settings| settings.readable_keys = readable)
        }

        /// Sets the form of ids in the table. Default: the [namespace](Self::namespace) and the key's hash.
        ///
        /// With a codec of Powertools for AWS Lambda, this function shares its keys with one that uses Powertools on the
        /// same table: neither handles what the other has handled. The codec makes the ids; the namespace then
        /// decides only the [`IdempotencyToken`](crate::IdempotencyToken). No fingerprint is compared or kept: a payload
        /// that differs is a duplicate. A key that the codec has no id for makes its record terminal.
        ///
        /// Under another codec, the keys that the table holds are not found: see [`also_read`](Self::also_read).
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

        /// Sets where else a key may be known: under the codec or the namespace before, or the next. Default: nowhere.
        ///
        /// A key is claimed under its own id first, and then looked up under the other one. A key that is completed there
        /// is a duplicate here, for as long as it is there; a key that another worker has in progress there counts as in
        /// progress. The look costs a read unit for every new key.
        ///
        /// So that no key runs twice, change in two deployments, each complete before the next: first the old codec that
        /// also reads the new one, then the new codec that also reads the old one. After the retention, remove it. Without
        /// the first deployment, messages that both versions get during the second may run twice.
        /// The [`IdempotencyToken`](crate::IdempotencyToken) of an event stays the same under another codec, but not in
        /// another namespace.
        ///
        /// A consumer whose handler returns [`Writes`](crate::Writes) or takes a transaction refuses to start with it. In
        /// [`Mode::RecordAfter`](crate::policy::Mode::RecordAfter) two versions at one time may both run, as in that mode
        /// they always may.
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
        /// Another secret changes every id. So with a secret, each key is also looked up under the id without it, unless
        /// [`also_read`](Self::also_read), [`also_read_nothing`](Self::also_read_nothing) or `SQS_ONCE_ALSO_READ` is
        /// set. That costs a read unit for each new key. [The guide](crate::guide::schema_changes) shows how to
        /// introduce and rotate a secret so that no key runs twice.
        ///
        /// [`readable_keys`](Self::readable_keys) and a [`key_codec`](Self::key_codec) exclude a secret. So does a handler
        /// whose effect commits with the record of its key, unless nothing else is read.
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
