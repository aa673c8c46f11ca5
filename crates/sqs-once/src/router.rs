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

type Find = Arc<dyn Fn(&Message) -> Option<String> + Send + Sync>;

/// What a [router](crate::Router) reads in a message to choose its route.
///
/// ```
/// use sqs_once::policy::RouteBy;
///
/// let by_attribute = RouteBy::attribute("type");
/// let by_field = RouteBy::json_pointer("/type");
/// let by_tenant = RouteBy::function(|message| Some(message.group_id()?.to_owned()));
/// ```
#[derive(Clone)]
pub struct RouteBy(By);

#[derive(Clone)]
enum By {
    Attribute(Arc<str>),
    Field(Arc<str>, JsonPointer),
    DetailType,
    Function(Find),
}

impl RouteBy {
    /// Reads a message attribute (types `String` and `Number`). If the router opens an envelope of SNS, the attributes of
    /// the published message count too.
    pub fn attribute(name: &str) -> Self {
        Self(By::Attribute(name.into()))
    }

    /// Reads a text, an integer or a boolean in the body's JSON, at a JSON pointer such as `/type`. If the router opens an
    /// envelope, this is the JSON inside it. An invalid pointer fails at [`init`](crate::Consumer::init).
    ///
    /// The body is parsed once more for it. An attribute costs less.
    pub fn json_pointer(pointer: &str) -> Self {
        Self(By::Field(pointer.into(), JsonPointer::new(pointer)))
    }

    /// Reads the detail type of an EventBridge event. A router that opens no other envelope opens
    /// [`EventBridge`](crate::body::EventBridge).
    pub fn detail_type() -> Self {
        Self(By::DetailType)
    }

    /// Calls a function. `None` means that the message names no route. A function that panics makes its message terminal.
    pub fn function(find: impl Fn(&Message) -> Option<String> + Send + Sync + 'static) -> Self {
        Self(By::Function(Arc::new(find)))
    }

    /// Returns the envelope that it needs if the router opens none.
    pub(crate) fn envelope(&self) -> Option<Arc<dyn Envelope>> {
        match self.0 {
            By::DetailType => Some(Arc::new(EventBridge)),
            By::Attribute(_) | By::Field(..) | By::Function(_) => None,
        }
    }

    /// Refuses what no message can have.
    pub(crate) fn check(&self, envelope: Option<&dyn Envelope>) -> Result<(), ConfigError> {
        match &self.0 {
            By::Attribute(name) if name.is_empty() => Err(ConfigError::invalid(
                "the router",
                "reads a message attribute without a name",
                "the name of the attribute, such as `type`",
            )),
            By::Field(_, pointer) => pointer.check(),
            By::DetailType => {
                let by = "RouteBy::detail_type()";
                Needed::check_all(
                    &[Needed::new::<EventBridgeMeta>(by, "EventBridge")],
                    envelope,
                )
            }
            By::Attribute(_) | By::Function(_) => Ok(()),
        }
    }

    fn find<'a>(&self, message: &'a Message) -> Option<Cow<'a, str>> {
        match &self.0 {
            By::Attribute(name) => message.attribute(name).map(Cow::Borrowed),
            By::Field(_, pointer) => pointer.text_in(message.content()?).map(Cow::Owned),
            By::DetailType => {
                let event = message.metadata::<EventBridgeMeta>()?;
                event.detail_type.as_deref().map(Cow::Borrowed)
            }
            By::Function(find) => find(message).map(Cow::Owned),
        }
    }
}

/// Names what the router reads, for the reason of a message that no route takes.
impl fmt::Display for RouteBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            By::Attribute(name) => write!(f, "message attribute {name:?}"),
            By::Field(pointer, _) => write!(f, "JSON field {pointer:?}"),
            By::DetailType => f.write_str("detail type of EventBridge"),
            By::Function(_) => f.write_str("name by the router's function"),
        }
    }
}

impl fmt::Debug for RouteBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RouteBy({self})")
    }
}

/// Chooses what happens to a message that no route of a [router](crate::Router) takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unrouted {
    /// The message is terminal, because no retry adds a route (the default).
    #[default]
    Terminal,
    /// The message returns to the queue, until the queue's redrive policy moves it. A version with the route may be about to
    /// be deployed.
    Retry,
}

/// Which route of an engine takes a message.
pub(crate) struct Routing {
    pub(crate) by: RouteBy,
    /// The place of each route, by its name.
    pub(crate) places: HashMap<Arc<str>, usize>,
    /// The place of the route for what no other route takes.
    pub(crate) fallback: Option<usize>,
    pub(crate) unrouted: Unrouted,
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
    Unnamed(RouteBy),
    /// The name is left out, because it may come from the body.
    #[error("no route takes it: its {0} names none of them")]
    Unknown(RouteBy),
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
        let error = match name {
            None => RouteError::Unnamed(self.by.clone()),
            Some(_) => RouteError::Unknown(self.by.clone()),
        };
        Err(match self.unrouted {
            Unrouted::Terminal => NoRoute::Terminal(error),
            Unrouted::Retry => NoRoute::Retry(error),
        })
    }
}
