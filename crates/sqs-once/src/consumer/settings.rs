//! The settings of a consumer, from code and environment.

use std::num::NonZeroUsize;
use std::sync::Arc;

use crate::batch::{Engine, Requests, Route};
use crate::breaker::{Breakers, Dependency};
use crate::config::EnvSettings;
use crate::env::process_env;
use crate::error::ConfigError;
use crate::failed::FailedSettings;
use crate::idempotency::StoreSettings;
use crate::large_messages::LargeMessageSettings;
use crate::telemetry::{Identity, Meter, Telemetry};

use super::builder::Handles;

const DEFAULT_CONCURRENCY: NonZeroUsize = NonZeroUsize::new(10).expect("10 is not zero");

/// The settings of the code; `None` leaves a setting to the environment and the defaults.
#[derive(Clone, Default)]
pub(super) struct Settings {
    pub(super) store: StoreSettings,
    pub(super) concurrency: Option<usize>,
    pub(super) is_pipe_target: bool,
    /// Of a simulation. A function has the one of its environment.
    pub(super) requests: Option<Requests>,
    pub(super) failed: FailedSettings,
    pub(super) large_messages: LargeMessageSettings,
    pub(super) telemetry: Telemetry,
}

impl Settings {
    pub(super) async fn resolve(&self, handles: &Handles) -> Result<Arc<Engine>, ConfigError> {
        let env = EnvSettings::read(&process_env)?;
        let (routes, mut router) = match handles {
            Handles::One(handler) => {
                let route = handler
                    .settings
                    .route(&self.store, &env, None, (handler.bind)()?);
                (vec![route.await?], None)
            }
            Handles::Routes(router) => {
                let (routes, router) = router.resolve(&self.store, &env).await?;
                (routes, Some(router))
            }
        };
        let (mut routes, dependencies) = with_breakers(routes)?;
        // All routes fetch with one client.
        let bodies = self.large_messages.resolve(&env).await?;
        for route in &mut routes {
            route.handler.bodies.clone_from(&bodies);
            route
                .handler
                .correlate
                .clone_from(&self.telemetry.correlate);
        }
        if let Some(router) = &mut router {
            router.correlate.clone_from(&self.telemetry.correlate);
        }
        let [first, ..] = &routes[..] else {
            return Err(ConfigError::invalid(
                "the router",
                "has no routes",
                "a route",
            ));
        };
        let rules = &first.idempotency;
        let (clock, random) = (&rules.driver.clock, &rules.driver.random);
        // A message that no route takes has these: the handler's, or the router's defaults.
        let common = handles.common();
        let backoff = common.checked_backoff()?;
        let has_backoff = backoff.is_some() || routes.iter().any(|route| route.backoff.is_some());
        let failed = self.failed.resolve(&env, clock, has_backoff)?;
        if failed.keeps_order() && first.handler.inner.batch_call.is_some() {
            return Err(ConfigError::conflicting(
                "the setting `keep_order`",
                "is of a batch handler, which gets the messages of a group at once",
                "a handler of single messages",
            ));
        }
        if failed.keeps_order() && env.disabled {
            return Err(ConfigError::conflicting(
                "SQS_ONCE_DISABLED",
                "is set, but the order behind dead letters is kept in the store",
                "false for a consumer with `keep_order`",
            ));
        }
        let concurrency = self.concurrency.map(|concurrency| {
            let zero = || ConfigError::invalid("the setting `concurrency`", "is 0", "1 or more");
            NonZeroUsize::new(concurrency).ok_or_else(zero)
        });
        let concurrency = concurrency.transpose()?.or(env.concurrency);
        let is_blank = |name: &Arc<str>| name.trim().is_empty();
        if self.telemetry.service.as_ref().is_some_and(is_blank) {
            return Err(ConfigError::invalid(
                "the setting `service`",
                "is blank",
                "a name",
            ));
        }
        let service = self.telemetry.service.clone();
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
        Ok(Arc::new(Engine {
            meter: Meter::new(
                self.telemetry.metrics.or(env.metrics),
                env.metrics_namespace.as_deref(),
                Arc::clone(&service),
            ),
            identity: Identity::new(service, env.sample_rate, Arc::clone(random)),
            routes,
            router,
            concurrency,
            requests: self.requests.unwrap_or(match env.has_single_requests {
                true => Requests::Single,
                false => Requests::Batched,
            }),
            failed,
            backoff,
            breakers: Breakers::new(&dependencies, most).into(),
            hooks: common.hooks.clone(),
            errors: common.errors.clone(),
            record_levels: self
                .telemetry
                .record_levels
                .clone()
                .unwrap_or(env.record_levels),
        }))
    }
}

/// Gives each route the places of its dependencies among those of all routes.
fn with_breakers(mut routes: Vec<Route>) -> Result<(Vec<Route>, Vec<Dependency>), ConfigError> {
    let mut all: Vec<Dependency> = Vec::new();
    for route in &mut routes {
        let mut places = Vec::new();
        for one in &route.errors.dependencies {
            let known = all.iter().position(|known| known.name() == one.name());
            if let Some(at) = known.filter(|&at| !all[at].is_set_like(one)) {
                return Err(ConfigError::conflicting(
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
