//! The settings of a handler, from code and environment.

use std::sync::Arc;
use std::time::Duration;

use crate::batch::{ErrorRules, Hooks, MissingKey, PayloadMismatch, Route, UnknownOutcome};
use crate::breaker::checked;
use crate::config::EnvSettings;
use crate::error::ConfigError;
use crate::failed::Backoff;
use crate::handler::{ErasedHandler, Layers, WithEnvelope};
use crate::idempotency::{KeySettings, StoreSettings};
use crate::record::{Envelope, Needed};

/// The settings of the code; `None` leaves a setting to the environment and the defaults.
#[derive(Clone, Default)]
pub(super) struct HandlerSettings {
    /// The name of a hook that another one has replaced.
    pub(super) replaced: Option<&'static str>,
    pub(super) keys: KeySettings,
    pub(super) attempt_timeout: Option<Duration>,
    pub(super) mismatch: Option<PayloadMismatch>,
    pub(super) in_progress_wait: Option<Duration>,
    pub(super) backoff: Option<Backoff>,
    pub(super) errors: ErrorRules,
    pub(super) missing_key: Option<MissingKey>,
    pub(super) envelope: Option<Arc<dyn Envelope>>,
    pub(super) hooks: Hooks,
    pub(super) layers: Layers,
    pub(super) unknown_outcome: Option<UnknownOutcome>,
}

impl HandlerSettings {
    /// Returns the settings of a route: its own, then the defaults of its router.
    pub(super) fn within(&self, defaults: &Self) -> Result<Self, ConfigError> {
        let envelope = match (&self.envelope, &defaults.envelope) {
            (Some(own), Some(outer)) if own.kind() != outer.kind() => {
                return Err(ConfigError::conflicting(
                    "the setting `envelope`",
                    "is another than the router's, which opens the message first",
                    "the router's, or none among its defaults",
                ));
            }
            (own, outer) => own.clone().or_else(|| outer.clone()),
        };
        let unknown_outcome = self.unknown_outcome.clone();
        Ok(Self {
            replaced: self.replaced.or(defaults.replaced),
            keys: self.keys.within(&defaults.keys),
            attempt_timeout: self.attempt_timeout.or(defaults.attempt_timeout),
            mismatch: self.mismatch.or(defaults.mismatch),
            in_progress_wait: self.in_progress_wait.or(defaults.in_progress_wait),
            backoff: self.backoff.or(defaults.backoff),
            errors: self.errors.within(&defaults.errors),
            missing_key: self.missing_key.or(defaults.missing_key),
            envelope,
            hooks: self.hooks.within(&defaults.hooks),
            layers: self.layers.within(&defaults.layers),
            unknown_outcome: unknown_outcome.or_else(|| defaults.unknown_outcome.clone()),
        })
    }

    /// Resolves the settings of a handler. `name` is that of its route.
    pub(super) async fn route(
        &self,
        shared: &StoreSettings,
        env: &EnvSettings,
        name: Option<Arc<str>>,
        handler: ErasedHandler,
    ) -> Result<Route, ConfigError> {
        Needed::check_all(&handler.needs, self.envelope.as_deref())?;
        check_replaced(self.replaced)?;
        let mode = handler.mode;
        let missing_key = self.missing_key.unwrap_or_default();
        if mode.commits_effects() && missing_key == MissingKey::ProcessUnprotected {
            return Err(ConfigError::conflicting(
                "the setting `missing_key`",
                "is `ProcessUnprotected`, but the handler's effect commits with the completion of its key",
                "`Terminal` or `Retry`",
            ));
        }
        let mut idempotency = self.keys.resolve(shared, env, mode).await?;
        let unknown_outcome = self.unknown_outcome.clone().unwrap_or_default();
        if !unknown_outcome.is_repeat()
            && (!idempotency.claims_before() || idempotency.commits_effects())
        {
            return Err(ConfigError::conflicting(
                "the setting `unknown_outcome`",
                "is set, but only a handler that is called for each message, after its key was claimed, can be kept \
                 from repeating an effect",
                "no such setting, also not among the router's defaults, for `RecordAfter` and effects that commit with \
                 their completion",
            ));
        }
        if unknown_outcome.is_contradictory() {
            return Err(ConfigError::conflicting(
                "the setting `unknown_outcome`",
                "is `repeat`, with a time for which tokens are valid",
                "`dead_letter` or `reconcile` with that time, or `repeat` without it",
            ));
        }
        idempotency.on_unknown = unknown_outcome.on_unknown();
        if let Some(valid_for) = unknown_outcome.validity()
            && valid_for > idempotency.retention
        {
            return Err(ConfigError::conflicting(
                "the setting `unknown_outcome`",
                format!(
                    "applies after {valid_for:?}, but the table forgets a key, and when its token was first used, after the \
                     retention of {:?}",
                    idempotency.retention
                ),
                "a retention that is at least as long",
            ));
        }
        idempotency.check_namesakes(handler.handler_type, false)?;
        let mismatch = match (idempotency.codec.has_fingerprints(), self.mismatch) {
            (true, mismatch) => handler.compares.then(|| mismatch.unwrap_or_default()),
            (false, Some(refused @ (PayloadMismatch::Terminal | PayloadMismatch::Retry))) => {
                return Err(ConfigError::conflicting(
                    "the setting `payload_mismatch`",
                    format!(
                        "is `{refused:?}`, but what stands under its key codec has no fingerprint of this library's"
                    ),
                    "no such setting, also not among the router's defaults, because nothing is compared there",
                ));
            }
            (false, _) => None,
        };
        checked(&self.errors.dependencies)?;
        if self
            .attempt_timeout
            .is_some_and(|timeout| timeout.is_zero())
        {
            return Err(ConfigError::invalid(
                "the setting `attempt_timeout`",
                "is 0, so that every handler would be cancelled at once",
                "more than zero, or no such setting",
            ));
        }
        Ok(Route {
            name,
            handler: WithEnvelope {
                inner: Arc::new(handler),
                envelope: self.envelope.clone(),
                correlate: None,
                bodies: None,
            },
            idempotency,
            attempt_timeout: self.attempt_timeout,
            backoff: self.checked_backoff()?,
            mismatch,
            in_progress_wait: self.in_progress_wait.unwrap_or_default(),
            missing_key,
            errors: Arc::new(self.errors.clone()),
            breakers: Arc::default(),
            unknown_outcome,
            hooks: self.hooks.clone(),
            layers: self.layers.clone(),
        })
    }

    pub(super) fn checked_backoff(&self) -> Result<Option<Backoff>, ConfigError> {
        self.backoff.map_or(Ok(()), Backoff::check)?;
        Ok(self.backoff)
    }
}

fn check_replaced(replaced: Option<&'static str>) -> Result<(), ConfigError> {
    replaced.map_or(Ok(()), |name| {
        Err(ConfigError::conflicting(
            "a setting",
            format!("`{name}` is set twice, and only the last function would be called"),
            "one function, which may call both",
        ))
    })
}
