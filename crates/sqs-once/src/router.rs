//! Chooses the route of a message.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use thiserror::Error;

use crate::error::ConfigError;
use crate::key::JsonPointer;
use crate::record::{
    Correlate, DecodeError, Envelope, EventBridge, EventBridgeMeta, Message, Needed,
};

pub(crate) type Find = Arc<dyn Fn(&Message) -> Option<String> + Send + Sync>;

/// What a router reads in a message to choose its route.
#[derive(Clone)]
pub(crate) enum RouteBy {
    Attribute(Arc<str>),
    Field(Arc<str>, JsonPointer),
    DetailType,
    Function(Find),
}

impl RouteBy {
    /// Returns the envelope that it needs if the router opens none.
    pub(crate) fn envelope(&self) -> Option<Arc<dyn Envelope>> {
        match self {
            Self::DetailType => Some(Arc::new(EventBridge)),
            Self::Attribute(_) | Self::Field(..) | Self::Function(_) => None,
        }
    }

    /// Refuses what no message can have.
    pub(crate) fn check(&self, envelope: Option<&dyn Envelope>) -> Result<(), ConfigError> {
        match self {
            Self::Attribute(name) if name.is_empty() => Err(ConfigError::invalid(
                "the router",
                "reads a message attribute without a name",
                "the name of the attribute, such as `type`",
            )),
            Self::Field(_, pointer) => pointer.check(),
            Self::DetailType => {
                let by = "Router::by_detail_type";
                Needed::check_all(
                    &[Needed::new::<EventBridgeMeta>(by, "EventBridge")],
                    envelope,
                )
            }
            Self::Attribute(_) | Self::Function(_) => Ok(()),
        }
    }

    fn find<'a>(&self, message: &'a Message) -> Option<Cow<'a, str>> {
        match self {
            Self::Attribute(name) => message.attribute(name).map(Cow::Borrowed),
            Self::Field(_, pointer) => pointer.text_in(message.content()?).map(Cow::Owned),
            Self::DetailType => {
                let event = message.metadata::<EventBridgeMeta>()?;
                event.detail_type.as_deref().map(Cow::Borrowed)
            }
            Self::Function(find) => find(message).map(Cow::Owned),
        }
    }
}

/// Names what the router reads, for the reason of a message that no route takes.
impl fmt::Display for RouteBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Attribute(name) => write!(f, "message attribute {name:?}"),
            Self::Field(pointer, _) => write!(f, "JSON field {pointer:?}"),
            Self::DetailType => f.write_str("detail type of EventBridge"),
            Self::Function(_) => f.write_str("name by the router's function"),
        }
    }
}

impl fmt::Debug for RouteBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RouteBy({self})")
    }
}

/// Which route of an engine takes a message.
pub(crate) struct Routing {
    pub(crate) by: RouteBy,
    /// The place of each route, by its name.
    pub(crate) places: HashMap<Arc<str>, usize>,
    /// The place of the route for what no other route takes.
    pub(crate) fallback: Option<usize>,
    /// Whether a message that no route takes returns to the queue, instead of being terminal.
    pub(crate) retries_unrouted: bool,
    pub(crate) envelope: Option<Arc<dyn Envelope>>,
    pub(crate) correlate: Option<Correlate>,
}

/// Why a message has no route.
pub(crate) enum NoRoute {
    /// The message is valid but contains no event.
    Ignored(String),
    Terminal(RouteError),
    Retry(RouteError),
}

#[derive(Debug, Error)]
pub(crate) enum RouteError {
    #[error(transparent)]
    Envelope(#[from] DecodeError),
    #[error("no route takes it: it has no {0}")]
    Unnamed(String),
    #[error("no route takes it: its {0}")]
    Unknown(String),
    #[error("the envelope, or the router's function, panicked")]
    Panic,
}

impl Routing {
    /// Returns the place of the message's route. Opens the router's envelope, if it has one.
    pub(crate) fn choose(&self, message: &Message) -> Result<usize, NoRoute> {
        if let Some(envelope) = &self.envelope {
            let opened = message.open(&**envelope);
            message.correlate(self.correlate.as_ref());
            opened.map_err(|error| NoRoute::Terminal(error.into()))?;
            if let Some(reason) = message.ignored_because() {
                return Err(NoRoute::Ignored(reason.to_owned()));
            }
        }
        let name = self.by.find(message);
        let place = name.as_deref().and_then(|name| self.places.get(name));
        if let Some(&place) = place.or(self.fallback.as_ref()) {
            return Ok(place);
        }
        message.correlate(self.correlate.as_ref());
        let (by, routes) = (&self.by, self.names());
        let error = match name {
            None => RouteError::Unnamed(format!("{by}; the routes are {routes}")),
            Some(name) => {
                let name = if_harmless(&name);
                RouteError::Unknown(format!("{by}{name} names none of the routes {routes}"))
            }
        };
        Err(match self.retries_unrouted {
            false => NoRoute::Terminal(error),
            true => NoRoute::Retry(error),
        })
    }

    /// Returns the names of the routes, for a reason. A long list is cut with the reason.
    fn names(&self) -> String {
        let mut names: Vec<_> = self.places.keys().map(|name| format!("`{name}`")).collect();
        names.sort_unstable();
        names.join(", ")
    }
}

/// Returns a route's name for a log line if it looks like the name of a type. It may come from the body, and a number or
/// an address there must not be logged.
fn if_harmless(name: &str) -> String {
    let is_harmless = name.len() <= 64
        && name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"._-:/".contains(&byte));
    match is_harmless {
        true => format!(" (`{name}`)"),
        false => String::new(),
    }
}
