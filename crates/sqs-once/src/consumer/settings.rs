//! The settings of a consumer, before and after the environment is applied.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use crate::batch::{Engine, FifoFailure, Hooks, InProgress, MissingKey, PayloadMismatch, Requests};
use crate::config::{EnvSettings, unusable};
use crate::disposition::{DispositionSettings, FailedRecords};
use crate::env::process_env;
use crate::error::ConfigError;
use crate::handler::{PrepareRecord, WithEnvelope};
use crate::idempotency::{DriverSettings, Effect};
#[cfg(feature = "testing")]
use crate::key::Namespace;
use crate::record::{Correlate, Envelope};
use crate::report::RecordLevels;
use crate::telemetry::{Identity, Meter, Metrics};

use super::namesakes;

const DEFAULT_CONCURRENCY: NonZeroUsize = NonZeroUsize::new(10).expect("10 is not zero");

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
    pub(super) disposition: DispositionSettings,
    pub(super) visibility_timeout: Option<Duration>,
    pub(super) missing_key: MissingKey,
    pub(super) envelope: Option<Arc<dyn Envelope>>,
    pub(super) correlate: Option<Correlate>,
    pub(super) hooks: Hooks,
    pub(super) raise_on_total_failure: bool,
    pub(super) service: Option<Arc<str>>,
    pub(super) metrics: Option<Metrics>,
    pub(super) record_levels: Option<RecordLevels>,
    /// For a test bench, where the handler's place gives no default.
    #[cfg(feature = "testing")]
    pub(super) unique_namespace: Option<Namespace>,
    #[cfg(feature = "opentelemetry")]
    pub(super) after_answer: Option<super::AfterAnswer>,
}

/// A consumer with everything decided.
pub(super) struct Resolved {
    pub(super) engine: Arc<Engine>,
    pub(super) identity: Identity,
    pub(super) meter: Meter,
}

impl Settings {
    /// Fills in the values of the environment, and the defaults.
    pub(super) async fn resolve(
        &self,
        handler: Arc<dyn PrepareRecord<()>>,
    ) -> Result<Resolved, ConfigError> {
        let env = EnvSettings::read(&process_env)?;
        handler.check()?;
        let effect = handler.effect();
        let mut requests = self.requests;
        if effect != Effect::APART {
            if self.missing_key == MissingKey::ProcessUnprotected {
                return Err(unusable(
                    "the setting `missing_key`",
                    "is `ProcessUnprotected`, but the handler's effect commits with the record of its key",
                    "`Terminal` or `Retry`",
                ));
            }
            // Each effect is a transaction of its own.
            requests = Requests::Single;
        }
        let idempotency = self.idempotency.resolve(&env, effect).await?;
        namesakes::check(&idempotency, handler.handler_type())?;
        let mismatch = match (idempotency.codec.has_fingerprints(), self.mismatch) {
            (true, mismatch) => mismatch,
            (false, PayloadMismatch::Reject) => {
                return Err(unusable(
                    "the setting `payload_mismatch`",
                    "is `Reject`, but what stands under its key codec has no fingerprint of this library's",
                    "`Warn` or `Ignore`, which compare nothing there",
                ));
            }
            (false, _) => PayloadMismatch::Ignore,
        };
        let (clock, random) = (&idempotency.clock, &idempotency.random);
        let FailedRecords {
            dead_letters,
            visibility,
            after_dead_letter,
        } = self.disposition.resolve(&env, clock, random).await?;
        let handler = Arc::new(WithEnvelope {
            inner: handler,
            envelope: self.envelope.clone(),
            correlate: self.correlate.clone(),
        });
        let concurrency =
            match self.concurrency {
                Some(concurrency) => {
                    let checked = NonZeroUsize::new(concurrency);
                    Some(checked.ok_or_else(|| {
                        unusable("the setting `concurrency`", "is 0", "1 or more")
                    })?)
                }
                None => env.concurrency,
            };
        if self.record_timeout.is_some_and(|timeout| timeout.is_zero()) {
            return Err(unusable(
                "the setting `record_timeout`",
                "is 0, so that every handler would be cancelled at once",
                "more than zero, or no such setting",
            ));
        }
        if self
            .service
            .as_ref()
            .is_some_and(|name| name.trim().is_empty())
        {
            return Err(unusable("the setting `service`", "is blank", "a name"));
        }
        let service = self
            .service
            .clone()
            .or_else(|| env.service.as_deref().map(Arc::from));
        let service = service.unwrap_or_else(|| idempotency.namespace.as_str().into());
        Ok(Resolved {
            meter: Meter::new(
                self.metrics.or(env.metrics),
                env.metrics_namespace.as_deref(),
                Arc::clone(&service),
            ),
            identity: Identity::new(service, env.sample_rate, Arc::clone(random)),
            engine: Arc::new(Engine {
                handler,
                idempotency,
                concurrency: concurrency.unwrap_or(DEFAULT_CONCURRENCY),
                record_timeout: self.record_timeout,
                mismatch,
                fifo_failure: self.fifo_failure,
                in_progress: self.in_progress,
                requests,
                missing_key: self.missing_key,
                dead_letters,
                visibility,
                visibility_timeout: self.visibility_timeout.or(env.visibility_timeout),
                after_dead_letter,
                hooks: self.hooks.clone(),
                record_levels: self.record_levels.unwrap_or(env.record_levels),
            }),
        })
    }
}
