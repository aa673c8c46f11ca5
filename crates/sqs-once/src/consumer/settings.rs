//! What a consumer is set up with, and what becomes of it once the environment had its say.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use tracing::warn;

use crate::batch::{Deadline, Engine, FifoFailure, Hooks, InProgress, MissingKey, PayloadMismatch};
use crate::config::{ConfigError, EnvSettings, missing_namespace, process_env};
use crate::disposition::{Disposition, DispositionSettings};
use crate::handler::PrepareRecord;
use crate::idempotency::{Driver, Mode};
use crate::key::Namespace;
use crate::random::{OsRandom, Random};
use crate::store::{DynamoDbStore, OffStore, Store};
use crate::time::{Clock, SystemClock, Timestamp};

const DEFAULT_CONCURRENCY: NonZeroUsize = NonZeroUsize::new(10).expect("10 is not zero");
const DEFAULT_RETENTION: Duration = Duration::from_secs(28 * 24 * 60 * 60);
const DEFAULT_LEASE_MARGIN: Duration = Duration::from_secs(3);

/// What the code sets; `None` leaves it to the environment and the defaults.
#[derive(Clone, Default)]
pub(super) struct Settings {
    pub(super) namespace: Option<Namespace>,
    pub(super) default_namespace: Option<Namespace>,
    pub(super) store: Option<Arc<dyn Store>>,
    pub(super) concurrency: Option<NonZeroUsize>,
    pub(super) retention: Option<Duration>,
    pub(super) lease_margin: Option<Duration>,
    pub(super) deadline_margin: Option<Duration>,
    pub(super) mode: Mode,
    pub(super) record_timeout: Option<Duration>,
    pub(super) mismatch: PayloadMismatch,
    pub(super) fifo_failure: FifoFailure,
    pub(super) in_progress: InProgress,
    pub(super) disposition: DispositionSettings,
    pub(super) missing_key: MissingKey,
    pub(super) hooks: Hooks,
    pub(super) raise_on_total_failure: bool,
    pub(super) clock: Option<Arc<dyn Clock>>,
    pub(super) random: Option<Arc<dyn Random>>,
}

/// A consumer with everything decided.
pub(super) struct Core {
    pub(super) engine: Arc<Engine>,
    pub(super) lease_margin: Duration,
    pub(super) deadline_margin: Option<Duration>,
}

impl Settings {
    /// Fills in what the environment says, and the defaults.
    pub(super) async fn resolve(
        &self,
        handler: Arc<dyn PrepareRecord<()>>,
    ) -> Result<Core, ConfigError> {
        let env = EnvSettings::read(&process_env)?;
        let store = match &self.store {
            _ if env.disabled => {
                warn!(
                    "SQS_ONCE_DISABLED is set: nothing is deduplicated but what one batch holds twice"
                );
                Arc::new(OffStore)
            }
            Some(store) => Arc::clone(store),
            None => Arc::new(DynamoDbStore::from_env().await?) as Arc<dyn Store>,
        };
        let namespace = self.namespace.clone().or_else(|| env.namespace.clone());
        let clock = self.clock.clone().unwrap_or_else(|| Arc::new(SystemClock));
        let random = self.random.clone().unwrap_or_else(|| Arc::new(OsRandom));
        let Disposition {
            dead_letters,
            visibility,
            after_dead_letter,
        } = self.disposition.resolve(&env, &clock, &random).await?;
        let idempotency = Driver {
            store,
            clock,
            random,
            namespace: namespace
                .or_else(|| self.default_namespace.clone())
                .ok_or_else(missing_namespace)?,
            retention: self
                .retention
                .or(env.retention)
                .unwrap_or(DEFAULT_RETENTION),
            mode: self.mode,
        };
        let concurrency = self.concurrency.or(env.concurrency);
        let lease_margin = self.lease_margin.or(env.lease_margin);
        Ok(Core {
            engine: Arc::new(Engine {
                handler,
                idempotency,
                concurrency: concurrency.unwrap_or(DEFAULT_CONCURRENCY),
                record_timeout: self.record_timeout,
                mismatch: self.mismatch,
                fifo_failure: self.fifo_failure,
                in_progress: self.in_progress,
                missing_key: self.missing_key,
                dead_letters,
                visibility,
                after_dead_letter,
                hooks: self.hooks.clone(),
            }),
            lease_margin: lease_margin.unwrap_or(DEFAULT_LEASE_MARGIN),
            deadline_margin: self.deadline_margin.or(env.deadline_margin),
        })
    }
}

/// No invocation takes a day.
const LONGEST_INVOCATION: Duration = Duration::from_secs(24 * 60 * 60);

impl Core {
    pub(super) fn deadline(&self, ends_at: Timestamp) -> Deadline {
        let now = self.engine.idempotency.clock.now();
        let since_epoch = ends_at.since(Timestamp::default());
        let left = if since_epoch < LONGEST_INVOCATION {
            // `cargo lambda watch` sends the time that is left where Lambda sends the moment.
            since_epoch
        } else {
            ends_at.since(now).min(LONGEST_INVOCATION)
        };
        Deadline::new(now, left, self.deadline_margin, self.lease_margin)
    }
}
