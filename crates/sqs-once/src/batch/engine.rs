//! The parts of a consumer that all its batches share.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use crate::breaker::Breakers;
use crate::failed::{Backoff, FailedRecords};
use crate::handler::{BatchCall, Layers, WithEnvelope};
use crate::idempotency::{Driver, KeyRules};
use crate::report::{RecordLevels, RouteTally};
use crate::router::Routing;
use crate::telemetry::{Identity, Meter};

use super::error_rules::ErrorRules;
use super::hooks::Hooks;
use super::unknown_outcome::UnknownOutcome;

/// Chooses what happens to a message whose key was completed for another payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum PayloadMismatch {
    /// The message is terminal (the default): it goes to the dead-letter queue at once, with the reason. Its FIFO message
    /// group continues. Without a declared fingerprint, a message with other top-level fields is a duplicate with a warning.
    #[default]
    Terminal,
    /// The message fails. It is retried until the queue's redrive policy moves it. In a FIFO queue, its message group waits
    /// for that.
    Retry,
    /// The message is acknowledged as a duplicate, with a warning in the log. Its own effect never happens.
    Acknowledge,
}

/// Chooses what happens to a message without a business key, whose extractor returns
/// [`KeyError::Missing`](crate::key::KeyError::Missing). Keys that are empty, too long or of the wrong kind, and extractors
/// that fail, are always terminal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum MissingKey {
    /// The message is terminal, because no retry can add a key (the default).
    #[default]
    Terminal,
    /// The message runs without a claim and without a completion, on every delivery. Its log line is a warning.
    ///
    /// The extractors [`IdempotencyToken`](crate::IdempotencyToken) and [`BusinessKey`](struct@crate::BusinessKey) use the
    /// message id instead of the key. A message that is sent again or redriven has a new id. The fence is the same as for a
    /// first claim.
    ///
    /// A consumer whose handler returns [`Writes`](crate::Writes) or takes a transaction refuses to start with this policy,
    /// because its effect commits with the completion of the key.
    ProcessUnprotected,
    /// The message returns to the queue until the queue's redrive policy moves it.
    Retry,
}

/// How many keys a request to the store carries.
#[derive(Clone, Copy)]
pub(crate) enum Requests {
    /// Up to 25, with up to 8 requests for claims and 8 for completions in flight. A lone key does not wait for others. The
    /// transactions of a batch handler that returns [`BatchWrites`](crate::BatchWrites) carry as many keys as fit.
    Batched,
    /// One, with up to 32 requests for claims and 32 for completions in flight.
    Single,
}

impl Requests {
    pub(super) const fn keys(self) -> usize {
        match self {
            Self::Batched => 25,
            Self::Single => 1,
        }
    }

    /// The most requests for claims in flight, and the most full requests for settlements.
    pub(super) const fn in_flight(self) -> usize {
        match self {
            Self::Batched => 8,
            Self::Single => 32,
        }
    }
}

/// The most effects of a batch handler that are sent to the store together. As many fit in one transaction if they write
/// nothing.
const COMMITS: usize = 100;

/// The settings and parts that all batches of a consumer share.
pub(crate) struct Engine {
    /// The only route of a consumer, or all routes of a router.
    pub(crate) routes: Vec<Route>,
    /// Chooses the route of a record. `None` if there is only one.
    pub(crate) router: Option<Routing>,
    pub(crate) concurrency: NonZeroUsize,
    pub(crate) requests: Requests,
    pub(crate) failed: FailedRecords,
    /// The backoff of records that no route takes.
    pub(crate) backoff: Option<Backoff>,
    pub(crate) breakers: Arc<Breakers>,
    /// The hooks of records that no route takes, and what their errors mean.
    pub(crate) hooks: Hooks,
    pub(crate) errors: ErrorRules,
    pub(crate) record_levels: RecordLevels,
    pub(crate) identity: Identity,
    pub(crate) meter: Meter,
}

/// A handler, with the settings that concern only its own records.
pub(crate) struct Route {
    /// The name in a router.
    pub(crate) name: Option<Arc<str>>,
    pub(crate) handler: WithEnvelope,
    pub(crate) idempotency: KeyRules,
    pub(crate) attempt_timeout: Option<Duration>,
    pub(crate) backoff: Option<Backoff>,
    /// `None` if no payloads are compared.
    pub(crate) mismatch: Option<PayloadMismatch>,
    /// How long a message waits for another worker that has claimed its key.
    pub(crate) in_progress_wait: Duration,
    pub(crate) missing_key: MissingKey,
    pub(crate) errors: Arc<ErrorRules>,
    /// The places of the dependencies in the engine's breakers.
    pub(crate) breakers: Arc<[usize]>,
    pub(crate) unknown_outcome: UnknownOutcome,
    pub(crate) hooks: Hooks,
    pub(crate) layers: Layers,
}

impl Engine {
    /// Returns what is the same in all routes.
    pub(crate) fn driver(&self) -> &Driver {
        &self.routes[0].idempotency.driver
    }

    /// Returns the single call for all records of a batch, if the handler is a batch handler. It is never in a router.
    pub(crate) fn batch_call(&self) -> Option<&BatchCall> {
        match &self.routes[..] {
            [route] => route.handler.inner.batch_call.as_ref(),
            _ => None,
        }
    }

    fn commits_effects(&self) -> bool {
        let mut routes = self.routes.iter();
        routes.any(|route| route.idempotency.commits_effects())
    }

    /// Returns how many requests for claims may be in flight, and how many for settlements.
    pub(super) fn requests_in_flight(&self) -> usize {
        // Each effect of a handler of single records that commits with the completion of its key is a request of its own.
        match self.commits_effects() {
            true => Requests::Single.in_flight(),
            false => self.requests.in_flight(),
        }
    }

    /// Returns how many effects that commit with the completion of their key one request carries.
    pub(super) fn commits_in_a_request(&self) -> usize {
        match self.requests {
            Requests::Batched if self.batch_call().is_some() && self.commits_effects() => COMMITS,
            _ => 1,
        }
    }

    /// Returns the counts of a batch, all zero.
    pub(super) fn tallies(&self) -> Vec<RouteTally> {
        let tally = |route: &Route| RouteTally {
            name: route.name.clone(),
            has_dependencies: !route.breakers.is_empty(),
            outcomes_unknown: (!route.unknown_outcome.is_repeat()).then_some(0),
            ..RouteTally::default()
        };
        let mut tallies: Vec<_> = self.routes.iter().map(tally).collect();
        if self.router.is_some() {
            // The records that no route takes.
            tallies.push(RouteTally::default());
        }
        tallies
    }
}
