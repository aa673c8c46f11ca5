//! The router: several handlers, and which one takes a message.

use std::collections::HashMap;
use std::sync::Arc;

use crate::batch::Route;
use crate::config::{EnvSettings, NAMESPACE_VARIABLE};
use crate::error::ConfigError;
use crate::idempotency::{StoreSettings, shared_name_error};
use crate::key::{IdForm, JsonPointer};
use crate::record::Message;
use crate::router::{RouteBy, Routing};

use super::handler::{Bound, Defaults, Handler};
use super::handler_settings::HandlerSettings;

/// The name of the route for what no other route takes, in logs and metrics.
const FALLBACK: &str = "fallback";

/// Several handlers, for a queue with several kinds of messages. Each kind has a route to a handler with its own
/// payload, key, namespace, policies and hooks.
///
/// One engine runs the messages of all routes. A FIFO message group stays in order across routes, the routes share the
/// concurrency, and claims of different routes travel in the same requests. Two messages of a batch are duplicates of each
/// other only within a namespace.
///
/// - What a handler does not set, it takes from the router's [`defaults`](Router::defaults).
/// - Each handler needs a namespace of its own, and `SQS_ONCE_NAMESPACE` must not be set.
/// - A message that no route takes is terminal, unless [`retry_unrouted`](Router::retry_unrouted) or
///   [`fallback`](Router::fallback) is set.
///
/// Two routes with one name or one namespace, an empty name, a router without routes, and an attribute without a name
/// fail at [`init`](crate::Consumer::init). So does a route whose handler needs a store that can do more.
///
/// ```
/// use serde::Deserialize;
/// use sqs_once::{Consumer, HandlerError};
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
/// let orders = sqs_once::Router::by_attribute("type")
///     .route("OrderPlaced", charge::handler())
///     .route("OrderCancelled", refund::handler());
/// let consumer = Consumer::new(orders).concurrency(20);
/// ```
#[derive(Clone)]
#[must_use = "a router does nothing until it runs: `sqs_once::run(router)`"]
pub struct Router {
    by: RouteBy,
    routes: Vec<(Arc<str>, Bound)>,
    fallback: Option<Box<Bound>>,
    retries_unrouted: bool,
    pub(super) defaults: HandlerSettings,
}

impl std::fmt::Debug for Router {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<_> = self.routes.iter().map(|(name, _)| name).collect();
        f.debug_struct("Router")
            .field("by", &self.by)
            .field("routes", &names)
            .finish_non_exhaustive()
    }
}

impl Router {
    /// Creates a router that reads a message attribute (types `String` and `Number`). If the router opens an envelope of
    /// SNS, the attributes of the published message count too.
    pub fn by_attribute(name: &str) -> Self {
        Self::new(RouteBy::Attribute(name.into()))
    }

    /// Creates a router that reads a text, an integer or a boolean in the body's JSON, at a JSON pointer such as `/type`. If
    /// the router opens an envelope, this is the JSON inside it. An invalid pointer fails at
    /// [`init`](crate::Consumer::init).
    ///
    /// The body is parsed once more for it. An attribute costs less.
    pub fn by_json_pointer(pointer: &str) -> Self {
        Self::new(RouteBy::Field(pointer.into(), JsonPointer::new(pointer)))
    }

    /// Creates a router that reads the detail type of an EventBridge event. If it opens no other envelope, it opens
    /// [`EventBridge`](crate::body::EventBridge).
    pub fn by_detail_type() -> Self {
        Self::new(RouteBy::DetailType)
    }

    /// Creates a router that calls a function. `None` means that the message names no route. A function that panics makes its
    /// message terminal.
    ///
    /// ```
    /// use sqs_once::Router;
    ///
    /// let by_tenant = Router::by(|message| Some(message.group_id()?.to_owned()));
    /// ```
    pub fn by(find: impl Fn(&Message) -> Option<String> + Send + Sync + 'static) -> Self {
        Self::new(RouteBy::Function(Arc::new(find)))
    }

    fn new(by: RouteBy) -> Self {
        Self {
            by,
            routes: Vec::new(),
            fallback: None,
            retries_unrouted: false,
            defaults: HandlerSettings::default(),
        }
    }

    /// Adds a route: messages in which the router reads `name` go to this handler. The name is compared as it is.
    ///
    /// The name is the value of `route` in logs, and of the dimension `route` in metrics. A route put in front of a
    /// [`fallback`](Self::fallback) changes the keys and tokens of its messages: see [the guide](crate::guide::routes).
    pub fn route(mut self, name: &str, handler: Handler) -> Self {
        self.routes.push((name.into(), handler.into()));
        self
    }

    /// Sets the handler of messages that no route takes. Default: none, and they are terminal, or [retried](Self::retry_unrouted). The
    /// last call counts. Its name in logs and metrics is `fallback`.
    pub fn fallback(mut self, handler: Handler) -> Self {
        self.fallback = Some(Box::new(handler.into()));
        self
    }

    /// Returns messages that no route takes to the queue, until the queue's redrive policy moves them. Use it while a version
    /// with the route may be about to be deployed. Default: they are terminal, because no retry adds a route. A router with
    /// this and a [`fallback`](Self::fallback) fails at [`init`](crate::Consumer::init).
    pub fn retry_unrouted(mut self) -> Self {
        self.retries_unrouted = true;
        self
    }

    /// Sets what all handlers of this router share. A handler's own setting takes precedence. Its layers run inside those
    /// of the defaults, and its dependencies are added to theirs. The last call counts. Default: nothing.
    ///
    /// The router opens the envelope of the defaults before it chooses a route, so that it can choose by the content. Their
    /// [`on_failure`](Handler::on_failure) and backoff also apply to messages that no route takes.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use sqs_once::Handler;
    ///
    /// # #[derive(serde::Deserialize)] struct OrderPlaced { order_id: String }
    /// # #[sqs_once::handler(key = order.order_id, namespace = "charges")]
    /// # async fn charge(order: OrderPlaced) {}
    /// let week = Duration::from_secs(7 * 24 * 60 * 60);
    /// let orders = sqs_once::Router::by_attribute("type")
    ///     .defaults(Handler::defaults().retention(week))
    ///     .route("OrderPlaced", charge::handler());
    /// ```
    pub fn defaults(mut self, defaults: Handler<Defaults>) -> Self {
        self.defaults = defaults.settings;
        self
    }

    /// Returns whether a route opens an envelope of its own.
    pub(super) fn opens_envelopes(&self) -> bool {
        let handlers = self.routes.iter().map(|(_, handler)| handler);
        let mut handlers = handlers.chain(self.fallback.as_deref());
        self.by.envelope().is_some() || handlers.any(|one| one.settings.envelope.is_some())
    }

    pub(super) async fn resolve(
        &self,
        shared: &StoreSettings,
        env: &EnvSettings,
    ) -> Result<(Vec<Route>, Routing), ConfigError> {
        if env.namespace.is_some() {
            return Err(ConfigError::conflicting(
                NAMESPACE_VARIABLE,
                "is set, but each route of the router has a namespace of its own",
                "no such variable: the code sets the namespace of each route",
            ));
        }
        let fallback = self.fallback.as_deref();
        if self.routes.is_empty() {
            return Err(wrong("has no routes", "a route for each kind of message"));
        }
        if fallback.is_some() && self.retries_unrouted {
            let problem =
                "has the setting `retry_unrouted`, and a fallback that takes what no route takes";
            return Err(wrong(problem, "one of them"));
        }
        let mut shared = shared.clone();
        let mut defaults = self.defaults.clone();
        defaults.envelope = defaults.envelope.or_else(|| self.by.envelope());
        let envelope = defaults.envelope.clone();
        self.by.check(envelope.as_deref())?;
        let mut routes: Vec<Route> = Vec::new();
        let mut places = HashMap::new();
        let named = self
            .routes
            .iter()
            .map(|(name, handler)| (name, handler, true));
        let last: Arc<str> = FALLBACK.into();
        let all = named.chain(fallback.map(|handler| (&last, handler, false)));
        for (name, handler, is_named) in all {
            if name.is_empty() {
                return Err(wrong("has a route without a name", "a name for each route"));
            }
            if routes.iter().any(|one| one.name.as_ref() == Some(name)) {
                let problem = format!("has two routes with the name {name:?}");
                return Err(wrong(problem, "a route for each name"));
            }
            let route = one(&defaults, &shared, env, Arc::clone(name), handler).await;
            let route = route.map_err(|error| error.of_route(name))?;
            // The first route creates the store, and fetches the secret, if none is set.
            shared.share(&route.idempotency.driver);
            if handler.settings.keys.ids.is_none() && defaults.keys.ids.is_none() {
                let secret = route.idempotency.namespace.secret().cloned();
                defaults.keys.ids = secret.map(IdForm::Secret);
            }
            let rules = &route.idempotency;
            let mut others = routes.iter();
            let common = others.find_map(|other| {
                let common = rules.shared_name(&other.idempotency.names())?;
                Some((other.name.as_deref().unwrap_or_default(), common))
            });
            if let Some((other, common)) = common {
                let routes = format!("{other:?} and {name:?}");
                return Err(shared_name_error(&common, "routes", &routes));
            }
            if is_named {
                places.insert(Arc::clone(name), routes.len());
            }
            routes.push(route);
        }
        let routing = Routing {
            by: self.by.clone(),
            fallback: fallback.map(|_| routes.len() - 1),
            places,
            retries_unrouted: self.retries_unrouted,
            envelope,
            correlate: None,
        };
        Ok((routes, routing))
    }
}

async fn one(
    defaults: &HandlerSettings,
    shared: &StoreSettings,
    env: &EnvSettings,
    name: Arc<str>,
    handler: &Bound,
) -> Result<Route, ConfigError> {
    if !handler.settings.keys.names_namespace() {
        return Err(ConfigError::missing(
            "the setting `namespace`",
            "is not set",
            "a name that no other route and no other consumer of this table has",
        ));
    }
    let settings = handler.settings.within(defaults)?;
    let route = settings.route(shared, env, Some(name), (handler.bind)()?);
    route.await
}

fn wrong(problem: impl Into<String>, expected: &'static str) -> ConfigError {
    ConfigError::invalid("the router", problem, expected)
}
