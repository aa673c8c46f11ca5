//! The settings of a consumer, before and after the environment is applied.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use crate::batch::{
    Engine, FifoFailure, Hooks, InProgress, MissingKey, PayloadMismatch, Requests, Route,
    UnknownOutcome,
};
use crate::breaker::{Breakers, Dependency, checked};
use crate::config::EnvSettings;
use crate::env::process_env;
use crate::error::ConfigError;
use crate::failed::{Backoff, FailedSettings};
use crate::handler::{ErasedHandler, Layers, WithEnvelope};
use crate::idempotency::{DriverSettings, Effect};
use crate::large_messages::LargeMessageSettings;
use crate::record::{Correlate, Envelope, Needed};
use crate::report::RecordLevels;
use crate::telemetry::{Identity, Meter, Metrics};

use super::builder::Handles;

const DEFAULT_CONCURRENCY: NonZeroUsize = NonZeroUsize::new(10).expect("10 is not zero");

#[cfg(feature = "opentelemetry")]
pub(crate) type AfterAnswer = Arc<dyn Fn() + Send + Sync>;

/// The settings of the code; `None` leaves a setting to the environment and the defaults.
#[derive(Clone, Default)]
pub(super) struct Settings {
    /// The names of the settings in code that concern the whole batch.
    pub(super) of_batch: Vec<&'static str>,
    /// The name of a setting whose function another one has replaced.
    pub(super) replaced: Option<&'static str>,
    pub(super) idempotency: DriverSettings,
    pub(super) concurrency: Option<usize>,
    pub(super) record_timeout: Option<Duration>,
    pub(super) mismatch: Option<PayloadMismatch>,
    pub(super) fifo_failure: Option<FifoFailure>,
    pub(super) in_progress: Option<InProgress>,
    pub(super) requests: Option<Requests>,
    pub(super) failed: FailedSettings,
    pub(super) backoff: Option<Backoff>,
    pub(super) large_messages: LargeMessageSettings,
    pub(super) visibility_timeout: Option<Duration>,
    pub(super) dependencies: Vec<Dependency>,
    pub(super) max_receive_count: Option<u32>,
    pub(super) missing_key: Option<MissingKey>,
    pub(super) envelope: Option<Arc<dyn Envelope>>,
    pub(super) correlate: Option<Correlate>,
    pub(super) hooks: Hooks,
    pub(super) layers: Layers,
    pub(super) unknown_outcome: Option<UnknownOutcome>,
    pub(super) raise_on_total_failure: bool,
    pub(super) service: Option<Arc<str>>,
    pub(super) metrics: Option<Metrics>,
    pub(super) record_levels: Option<RecordLevels>,
    #[cfg(feature = "opentelemetry")]
    pub(super) after_answer: Option<AfterAnswer>,
}

impl Settings {
    pub(super) async fn resolve(&self, handles: &Handles<()>) -> Result<Arc<Engine>, ConfigError> {
        let env = EnvSettings::read(&process_env)?;
        let (routes, router) = match handles {
            Handles::One(bind) => {
                let handler = bind(Arc::default())?;
                (vec![self.route(&env, None, handler).await?], None)
            }
            Handles::Routes(routes) => {
                let (routes, router) = routes.resolve(self, &env).await?;
                (routes, Some(router))
            }
        };
        let (mut routes, dependencies) = with_breakers(routes)?;
        // All routes fetch with one client.
        let bodies = self.large_messages.resolve(&env).await?;
        for route in &mut routes {
            route.handler.bodies.clone_from(&bodies);
        }
        let [first, ..] = &routes[..] else {
            return Err(ConfigError::new("the router", "has no routes", "a route"));
        };
        let rules = &first.idempotency;
        let (clock, random) = (&rules.driver.clock, &rules.driver.random);
        let backoff = self.checked_backoff()?;
        let has_backoff = backoff.is_some() || routes.iter().any(|route| route.backoff.is_some());
        let failed = self.failed.resolve(&env, clock, has_backoff).await?;
        let queue_url = self.failed.queue_url(&env);
        let concurrency = self.concurrency.map(|concurrency| {
            let zero = || ConfigError::new("the setting `concurrency`", "is 0", "1 or more");
            NonZeroUsize::new(concurrency).ok_or_else(zero)
        });
        let concurrency = concurrency.transpose()?.or(env.concurrency);
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
        let function = || match router {
            Some(_) => process_env("AWS_LAMBDA_FUNCTION_NAME").map(Arc::from),
            None => None,
        };
        let service = service.or_else(function);
        let service = service.unwrap_or_else(|| rules.namespace.as_str().into());
        let concurrency = concurrency.unwrap_or(DEFAULT_CONCURRENCY);
        // The single call of a batch handler is the whole ramp.
        let most = match first.handler.inner.batch_call {
            Some(_) => 1,
            None => concurrency.get(),
        };
        if self.max_receive_count == Some(0) {
            return Err(ConfigError::new(
                "the setting `max_receive_count`",
                "is 0",
                "1 or more",
            ));
        }
        let max_receive_count = self
            .max_receive_count
            .or(env.max_receive_count.map(u32::from));
        let requests = self.requests.unwrap_or_default();
        Ok(Arc::new(Engine {
            meter: Meter::new(
                self.metrics.or(env.metrics),
                env.metrics_namespace.as_deref(),
                Arc::clone(&service),
            ),
            identity: Identity::new(service, env.sample_rate, Arc::clone(random)),
            routes,
            router,
            concurrency,
            fifo_failure: self.fifo_failure.unwrap_or_default(),
            requests,
            failed,
            backoff,
            breakers: Breakers::new(&dependencies, most, max_receive_count, queue_url).into(),
            visibility_timeout: self.visibility_timeout.or(env.visibility_timeout),
            hooks: self.hooks.clone(),
            record_levels: self.record_levels.clone().unwrap_or(env.record_levels),
        }))
    }

    /// Resolves the settings that concern only the records of one handler.
    pub(super) async fn route(
        &self,
        env: &EnvSettings,
        name: Option<Arc<str>>,
        handler: ErasedHandler,
    ) -> Result<Route, ConfigError> {
        Needed::check_all(&handler.needs, self.envelope.as_deref())?;
        self.check_replaced()?;
        let effect = handler.effect;
        let missing_key = self.missing_key.unwrap_or_default();
        if effect != Effect::APART && missing_key == MissingKey::ProcessUnprotected {
            return Err(ConfigError::new(
                "the setting `missing_key`",
                "is `ProcessUnprotected`, but the handler's effect commits with the record of its key",
                "`Terminal` or `Retry`",
            ));
        }
        let mut idempotency = self.idempotency.resolve(env, effect).await?;
        let unknown_outcome = self.unknown_outcome.clone().unwrap_or_default();
        if !unknown_outcome.is_repeat()
            && (!idempotency.claims_before()
                || idempotency.commits_effects()
                || handler.batch_call.is_some())
        {
            return Err(ConfigError::new(
                "the setting `unknown_outcome`",
                "is set, but only a handler that is called for each record, after its key was claimed, can be kept from \
                 repeating an effect",
                "no such setting for batch handlers, `RecordAfter` and effects that commit with their record",
            ));
        }
        idempotency.on_unknown = unknown_outcome.on_unknown();
        if let Some(valid_for) = unknown_outcome.token_valid_for()
            && valid_for > idempotency.retention
        {
            return Err(ConfigError::new(
                "the setting `unknown_outcome`",
                format!(
                    "applies after {valid_for:?}, but the table forgets a key, and when its token was first used, after the \
                     retention of {:?}",
                    idempotency.retention
                ),
                "a retention that is at least as long",
            ));
        }
        if !self.layers.is_empty() && handler.batch_call.is_some() {
            return Err(ConfigError::new(
                "the setting `layer`",
                "is set, but a layer runs around the call for one record",
                "no such setting for batch handlers",
            ));
        }
        idempotency.check_namesakes(handler.handler_type, false)?;
        let mismatch = match (idempotency.codec.has_fingerprints(), self.mismatch) {
            (true, mismatch) => mismatch.unwrap_or_default(),
            (false, Some(refused @ (PayloadMismatch::Terminal | PayloadMismatch::Reject))) => {
                return Err(ConfigError::new(
                    "the setting `payload_mismatch`",
                    format!(
                        "is `{refused:?}`, but what stands under its key codec has no fingerprint of this library's"
                    ),
                    "no such setting, `Warn` or `Ignore`, which compare nothing there",
                ));
            }
            (false, _) => PayloadMismatch::Ignore,
        };
        checked(&self.dependencies)?;
        // Without the client of SQS, an outage would bury messages all the same.
        #[cfg(not(feature = "sqs"))]
        if !self.dependencies.is_empty() {
            return Err(crate::config::needs_sqs("the setting `depends_on`"));
        }
        if self.record_timeout.is_some_and(|timeout| timeout.is_zero()) {
            return Err(ConfigError::new(
                "the setting `record_timeout`",
                "is 0, so that every handler would be cancelled at once",
                "more than zero, or no such setting",
            ));
        }
        Ok(Route {
            name,
            handler: WithEnvelope {
                inner: Arc::new(handler),
                envelope: self.envelope.clone(),
                correlate: self.correlate.clone(),
                bodies: None,
            },
            idempotency,
            record_timeout: self.record_timeout,
            backoff: self.checked_backoff()?,
            mismatch,
            in_progress: self.in_progress.unwrap_or_default(),
            missing_key,
            dependencies: self.dependencies.clone(),
            breakers: Arc::default(),
            unknown_outcome,
            hooks: self.hooks.clone(),
            layers: self.layers.clone(),
        })
    }

    /// Sets a function of the user's, and remembers if it replaces another one.
    pub(super) fn set_function<F>(
        &mut self,
        name: &'static str,
        place: impl FnOnce(&mut Self) -> &mut Option<F>,
        function: F,
    ) {
        if place(self).replace(function).is_some() {
            self.replaced = Some(name);
        }
    }

    fn check_replaced(&self) -> Result<(), ConfigError> {
        self.replaced.map_or(Ok(()), |name| {
            Err(ConfigError::new(
                "a setting",
                format!("`{name}` is set twice, and only the last function would be called"),
                "one function, which may call both",
            ))
        })
    }

    fn checked_backoff(&self) -> Result<Option<Backoff>, ConfigError> {
        self.backoff.map_or(Ok(()), Backoff::check)?;
        Ok(self.backoff)
    }

    /// Checks the settings that a router itself can't have.
    pub(super) fn check_router(&self) -> Result<(), ConfigError> {
        match self.idempotency.of_one_handler() {
            Some(setting) => Err(ConfigError::new(
                setting,
                "is set on the router, but each route has its own",
                "the setting on the routes",
            )),
            None => Ok(()),
        }
    }

    /// Returns the settings of a route: its own, then those of the router.
    pub(super) fn within(&self, router: &Self) -> Result<Self, ConfigError> {
        let of_batch = self.of_batch.first().copied();
        if let Some(setting) = of_batch.or_else(|| self.idempotency.of_batch()) {
            return Err(ConfigError::new(
                "a setting",
                format!("`{setting}` concerns the whole batch"),
                "the setting on the router",
            ));
        }
        let envelope = match (&self.envelope, &router.envelope) {
            (Some(own), Some(outer)) if own.kind() != outer.kind() => {
                return Err(ConfigError::new(
                    "the setting `envelope`",
                    "is another than the router's, which opens the message first",
                    "the router's, or none on the router",
                ));
            }
            (own, outer) => own.clone().or_else(|| outer.clone()),
        };
        let own = self.dependencies.iter();
        let is_own = |one: &&Dependency| !own.clone().any(|own| own.name() == one.name());
        let more = router.dependencies.iter().filter(is_own);
        Ok(Self {
            idempotency: self.idempotency.within(&router.idempotency),
            record_timeout: self.record_timeout.or(router.record_timeout),
            backoff: self.backoff.or(router.backoff),
            mismatch: self.mismatch.or(router.mismatch),
            in_progress: self.in_progress.or(router.in_progress),
            missing_key: self.missing_key.or(router.missing_key),
            dependencies: own.clone().chain(more).cloned().collect(),
            envelope,
            replaced: self.replaced.or(router.replaced),
            hooks: self.hooks.within(&router.hooks),
            layers: self.layers.within(&router.layers),
            unknown_outcome: self
                .unknown_outcome
                .clone()
                .or_else(|| router.unknown_outcome.clone()),
            ..router.clone()
        })
    }
}

/// Gives each route the places of its dependencies among those of all routes.
fn with_breakers(mut routes: Vec<Route>) -> Result<(Vec<Route>, Vec<Dependency>), ConfigError> {
    let mut all: Vec<Dependency> = Vec::new();
    for route in &mut routes {
        let mut places = Vec::new();
        for one in &route.dependencies {
            let known = all.iter().position(|known| known.name() == one.name());
            if let Some(at) = known.filter(|&at| !all[at].is_set_like(one)) {
                return Err(ConfigError::new(
                    "the setting `depends_on`",
                    format!("has two sets of numbers for {:?}", all[at].name()),
                    "the same numbers in all routes, which share the breaker",
                ));
            }
            places.push(known.unwrap_or(all.len()));
            if known.is_none() {
                all.push(one.clone());
            }
        }
        route.breakers = places.into();
    }
    Ok((routes, all))
}
