//! The settings of a consumer, before and after the environment is applied.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use crate::batch::{
    Engine, FifoFailure, Hooks, InProgress, MissingKey, PayloadMismatch, Requests, TokenValidity,
};
use crate::breaker::{Breakers, Dependency, checked};
use crate::config::EnvSettings;
use crate::env::process_env;
use crate::error::ConfigError;
use crate::failed::FailedSettings;
use crate::handler::{PrepareRecord, WithEnvelope};
use crate::idempotency::{DriverSettings, Effect};
#[cfg(feature = "testing")]
use crate::key::Namespace;
use crate::record::{Correlate, Envelope};
use crate::report::RecordLevels;
use crate::telemetry::{Identity, Meter, Metrics};

use super::namesakes;

const DEFAULT_CONCURRENCY: NonZeroUsize = NonZeroUsize::new(10).expect("10 is not zero");

#[cfg(feature = "opentelemetry")]
pub(crate) type AfterAnswer = Arc<dyn Fn() + Send + Sync>;

/// The settings of the code; `None` leaves a setting to the environment and the defaults.
#[derive(Clone, Default)]
pub(super) struct Settings {
    pub(super) idempotency: DriverSettings,
    pub(super) concurrency: Option<usize>,
    pub(super) record_timeout: Option<Duration>,
    pub(super) mismatch: PayloadMismatch,
    pub(super) fifo_failure: FifoFailure,
    pub(super) in_progress: InProgress,
    pub(super) requests: Requests,
    pub(super) failed: FailedSettings,
    pub(super) visibility_timeout: Option<Duration>,
    pub(super) dependencies: Vec<Dependency>,
    pub(super) max_receive_count: Option<u32>,
    pub(super) missing_key: MissingKey,
    pub(super) envelope: Option<Arc<dyn Envelope>>,
    pub(super) correlate: Option<Correlate>,
    pub(super) hooks: Hooks,
    pub(super) token_validity: TokenValidity,
    pub(super) raise_on_total_failure: bool,
    pub(super) service: Option<Arc<str>>,
    pub(super) metrics: Option<Metrics>,
    pub(super) record_levels: Option<RecordLevels>,
    /// The namespace on a test bench if the handler's location has no default.
    #[cfg(feature = "testing")]
    pub(super) unique_namespace: Option<Namespace>,
    #[cfg(feature = "opentelemetry")]
    pub(super) after_answer: Option<AfterAnswer>,
}

impl Settings {
    pub(super) async fn resolve(
        &self,
        handler: Arc<dyn PrepareRecord<()>>,
    ) -> Result<Arc<Engine>, ConfigError> {
        let env = EnvSettings::read(&process_env)?;
        handler.check(self.envelope.as_deref())?;
        let effect = handler.effect();
        let mut requests = self.requests;
        if effect != Effect::APART {
            if self.missing_key == MissingKey::ProcessUnprotected {
                return Err(ConfigError::new(
                    "the setting `missing_key`",
                    "is `ProcessUnprotected`, but the handler's effect commits with the record of its key",
                    "`Terminal` or `Retry`",
                ));
            }
            // Each effect is a separate transaction.
            requests = Requests::Single;
        }
        let idempotency = self.idempotency.resolve(&env, effect).await?;
        if self.token_validity.valid_for.is_some()
            && (!idempotency.claims_before() || handler.batch_call().is_some())
        {
            return Err(ConfigError::new(
                "the setting `token_valid_for`",
                "is set, but only a handler that is called for each record, after its key was claimed, can be kept from \
                 repeating an effect",
                "no such setting for batch handlers, `RecordAfter` and effects that commit with their record",
            ));
        }
        namesakes::check(&idempotency, handler.handler_type())?;
        let mismatch = match (idempotency.codec.has_fingerprints(), self.mismatch) {
            (true, mismatch) => mismatch,
            (false, PayloadMismatch::Reject) => {
                return Err(ConfigError::new(
                    "the setting `payload_mismatch`",
                    "is `Reject`, but what stands under its key codec has no fingerprint of this library's",
                    "`Warn` or `Ignore`, which compare nothing there",
                ));
            }
            (false, _) => PayloadMismatch::Ignore,
        };
        self.check_dependencies()?;
        let (clock, random) = (&idempotency.clock, &idempotency.random);
        let failed = self.failed.resolve(&env, clock, random).await?;
        let handler = WithEnvelope {
            inner: handler,
            envelope: self.envelope.clone(),
            correlate: self.correlate.clone(),
        };
        let concurrency = self.concurrency.map(|concurrency| {
            let zero = || ConfigError::new("the setting `concurrency`", "is 0", "1 or more");
            NonZeroUsize::new(concurrency).ok_or_else(zero)
        });
        let concurrency = concurrency.transpose()?.or(env.concurrency);
        if self.record_timeout.is_some_and(|timeout| timeout.is_zero()) {
            return Err(ConfigError::new(
                "the setting `record_timeout`",
                "is 0, so that every handler would be cancelled at once",
                "more than zero, or no such setting",
            ));
        }
        let is_blank = |name: &Arc<str>| name.trim().is_empty();
        if self.service.as_ref().is_some_and(is_blank) {
            return Err(ConfigError::new(
                "the setting `service`",
                "is blank",
                "a name",
            ));
        }
        let service = self.service.clone();
        let service = service.or_else(|| env.service.as_deref().map(Arc::from));
        let service = service.unwrap_or_else(|| idempotency.namespace.as_str().into());
        let concurrency = concurrency.unwrap_or(DEFAULT_CONCURRENCY);
        // The single call of a batch handler is the whole ramp.
        let most = match handler.inner.batch_call() {
            Some(_) => 1,
            None => concurrency.get(),
        };
        let max_receive_count = self
            .max_receive_count
            .or(env.max_receive_count.map(u32::from));
        Ok(Arc::new(Engine {
            meter: Meter::new(
                self.metrics.or(env.metrics),
                env.metrics_namespace.as_deref(),
                Arc::clone(&service),
            ),
            identity: Identity::new(service, env.sample_rate, Arc::clone(random)),
            handler,
            idempotency,
            concurrency,
            record_timeout: self.record_timeout,
            mismatch,
            fifo_failure: self.fifo_failure,
            in_progress: self.in_progress,
            requests,
            missing_key: self.missing_key,
            failed,
            breakers: Breakers::new(&self.dependencies, most, max_receive_count),
            visibility_timeout: self.visibility_timeout.or(env.visibility_timeout),
            hooks: self.hooks.clone(),
            token_validity: self.token_validity.clone(),
            record_levels: self.record_levels.clone().unwrap_or(env.record_levels),
        }))
    }

    fn check_dependencies(&self) -> Result<(), ConfigError> {
        checked(&self.dependencies)?;
        if self.max_receive_count == Some(0) {
            return Err(ConfigError::new(
                "the setting `max_receive_count`",
                "is 0",
                "1 or more",
            ));
        }
        // Without the client of SQS, an outage would bury messages all the same.
        #[cfg(not(feature = "sqs"))]
        if !self.dependencies.is_empty() {
            return Err(crate::config::needs_sqs("the setting `depends_on`"));
        }
        Ok(())
    }
}
