//! The router: a consumer whose routes are consumers.

use std::collections::HashMap;
use std::sync::Arc;

use crate::batch::Route;
use crate::config::{EnvSettings, NAMESPACE_VARIABLE};
use crate::error::ConfigError;
use crate::idempotency::shared_name_error;
use crate::router::{RouteBy, Router, Unrouted};

use super::builder::{Consumer, Handles};
use super::runnable::Runnable;
use super::settings::Settings;

/// The name of the route for what no other route takes, in logs and metrics.
const FALLBACK: &str = "fallback";

/// A router: see [`router`].
#[derive(Clone)]
pub struct Routes {
    by: RouteBy,
    routes: Vec<(Arc<str>, Consumer)>,
    fallback: Option<Box<Consumer>>,
    unrouted: Option<Unrouted>,
}

impl std::fmt::Debug for Routes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<_> = self.routes.iter().map(|(name, _)| name).collect();
        f.debug_struct("Routes")
            .field("by", &self.by)
            .field("routes", &names)
            .finish_non_exhaustive()
    }
}

/// Starts building a router: a consumer of a queue with several kinds of messages. Each kind has a route, and each route
/// is a consumer with its own payload, key, namespace, policies and hooks.
///
/// One engine runs the records of all routes. A FIFO message group stays in order across routes, the routes share the
/// concurrency, and claims of different routes travel in the same requests. Two records of a batch are duplicates of each
/// other only within a namespace.
///
/// - What a route does not set, it takes from the router. What concerns the whole batch can only be set on the router: the
///   store, the concurrency, the queues, metrics and logs, margins, and `fifo`.
/// - Each route needs a namespace of its own, and `SQS_ONCE_NAMESPACE` must not be set.
/// - A message that no route takes is [terminal](Unrouted::Terminal), unless [`unrouted`](Consumer::unrouted) or
///   [`fallback`](Consumer::fallback) is set.
/// - A batch handler can't be a route, nor can a router.
///
/// Two routes with one name or one namespace, an empty name, a router without routes, and routes that no message could
/// reach fail at [`init`](Consumer::init). So does a route whose handler needs a store that can do more.
///
/// ```
/// use serde::Deserialize;
/// use sqs_once::policy::RouteBy;
/// use sqs_once::HandlerError;
///
/// #[derive(Deserialize)]
/// struct OrderPlaced { order_id: String, amount_cents: u64 }
///
/// #[derive(Deserialize)]
/// struct OrderCancelled { order_id: String, reason: Option<String> }
///
/// #[sqs_once::handler(key = order.order_id, namespace = "charges")]
/// async fn charge(order: OrderPlaced) -> Result<(), HandlerError> { Ok(()) }
///
/// #[sqs_once::handler(key = order.order_id, namespace = "refunds")]
/// async fn refund(order: OrderCancelled) -> Result<(), HandlerError> { Ok(()) }
///
/// let orders = sqs_once::router(RouteBy::attribute("type"))
///     .route("OrderPlaced", charge::consumer())
///     .route("OrderCancelled", refund::consumer())
///     .concurrency(20);
/// ```
pub fn router(by: RouteBy) -> Consumer<Routes> {
    Consumer::new(Routes {
        by,
        routes: Vec::new(),
        fallback: None,
        unrouted: None,
    })
}

impl Consumer<Routes> {
    /// Adds a route: messages in which the router reads `name` go to this consumer. The name is compared as it is.
    ///
    /// The name is the value of `route` in logs, and of the dimension `route` in metrics. A route put in front of a
    /// [`fallback`](Self::fallback) changes the keys and tokens of its messages: see [the guide](crate::guide::routes).
    #[must_use]
    pub fn route(self, name: &str, consumer: impl Runnable) -> Self {
        let route = (name.into(), consumer.into_consumer());
        self.into_phase(|mut routes| {
            routes.routes.push(route);
            routes
        })
    }

    /// Sets the consumer of messages that no route takes. Default: none, and [`unrouted`](Self::unrouted) applies. The
    /// last call counts. Its name in logs and metrics is `fallback`.
    #[must_use]
    pub fn fallback(self, consumer: impl Runnable) -> Self {
        let fallback = Some(Box::new(consumer.into_consumer()));
        self.into_phase(|routes| Routes { fallback, ..routes })
    }

    /// Sets what happens to messages that no route takes. Default: [`Unrouted::Terminal`]. A router with this and a
    /// [`fallback`](Self::fallback) fails at [`init`](Self::init).
    #[must_use]
    pub fn unrouted(self, unrouted: Unrouted) -> Self {
        let unrouted = Some(unrouted);
        self.into_phase(|routes| Routes { unrouted, ..routes })
    }
}

impl Runnable for Consumer<Routes> {
    fn into_consumer(self) -> Consumer {
        self.into_phase(|routes| super::builder::Ready {
            handles: Handles::Routes(Arc::new(routes)),
        })
    }
}

impl Routes {
    /// Returns whether a route opens an envelope of its own.
    pub(super) fn opens_envelopes(&self) -> bool {
        let consumers = self.routes.iter().map(|(_, consumer)| consumer);
        let mut consumers = consumers.chain(self.fallback.as_deref());
        self.by.envelope().is_some() || consumers.any(|one| one.settings.envelope.is_some())
    }

    pub(super) async fn resolve(
        &self,
        router: &Settings,
        env: &EnvSettings,
    ) -> Result<(Vec<Route>, Router), ConfigError> {
        router.check_router()?;
        if env.namespace.is_some() {
            return Err(ConfigError::new(
                NAMESPACE_VARIABLE,
                "is set, but each route of the router has a namespace of its own",
                "no such variable: the code sets the namespace of each route",
            ));
        }
        let fallback = self.fallback.as_deref();
        if self.routes.is_empty() {
            return Err(wrong("has no routes", "a route for each kind of message"));
        }
        if fallback.is_some() && self.unrouted.is_some() {
            let problem =
                "has the setting `unrouted`, and a fallback that takes what no route takes";
            return Err(wrong(problem, "one of them"));
        }
        let envelope = router.envelope.clone().or_else(|| self.by.envelope());
        self.by.check(envelope.as_deref())?;
        let mut common = Settings {
            envelope: envelope.clone(),
            ..router.clone()
        };
        let mut routes: Vec<Route> = Vec::new();
        let mut places = HashMap::new();
        let named = self
            .routes
            .iter()
            .map(|(name, consumer)| (name, consumer, true));
        let last: Arc<str> = FALLBACK.into();
        let all = named.chain(fallback.map(|consumer| (&last, consumer, false)));
        for (name, consumer, is_named) in all {
            if name.is_empty() {
                return Err(wrong("has a route without a name", "a name for each route"));
            }
            if routes.iter().any(|one| one.name.as_ref() == Some(name)) {
                let problem = format!("has two routes with the name {name:?}");
                return Err(wrong(problem, "a route for each name"));
            }
            let route = one(&common, env, Arc::clone(name), consumer).await;
            let route = route.map_err(|error| error.of_route(name))?;
            // The first route creates the store, and fetches the secret, if none is set.
            common.idempotency.share(&route.idempotency.driver);
            if consumer.settings.idempotency.key_secret.is_none() {
                common.idempotency.share_secret(&route.idempotency);
            }
            let rules = &route.idempotency;
            let mut others = routes.iter();
            let shared = others.find_map(|other| {
                let shared = rules.shared_name(&other.idempotency.names())?;
                Some((other.name.as_deref().unwrap_or_default(), shared))
            });
            if let Some((other, shared)) = shared {
                let routes = format!("{other:?} and {name:?}");
                return Err(shared_name_error(&shared, "routes", &routes));
            }
            if is_named {
                places.insert(Arc::clone(name), routes.len());
            }
            routes.push(route);
        }
        let router = Router {
            by: self.by.clone(),
            fallback: fallback.map(|_| routes.len() - 1),
            places,
            unrouted: self.unrouted.unwrap_or_default(),
            envelope,
            correlate: router.correlate.clone(),
        };
        Ok((routes, router))
    }
}

async fn one(
    router: &Settings,
    env: &EnvSettings,
    name: Arc<str>,
    consumer: &Consumer,
) -> Result<Route, ConfigError> {
    let handler = match &consumer.phase.handles {
        Handles::One(bind) => bind(Arc::default())?,
        Handles::Routes(_) => return Err(wrong("is a router", "a consumer with a handler")),
    };
    if handler.batch_call.is_some() {
        return Err(wrong("has a batch handler", "a handler of one record"));
    }
    if !consumer.settings.idempotency.names_namespace() {
        return Err(ConfigError::new(
            "the setting `namespace`",
            "is not set",
            "a name that no other route and no other consumer of this table has",
        ));
    }
    let settings = consumer.settings.within(router)?;
    settings.route(env, Some(name), handler).await
}

fn wrong(problem: impl Into<String>, expected: &'static str) -> ConfigError {
    ConfigError::new("the router", problem, expected)
}
