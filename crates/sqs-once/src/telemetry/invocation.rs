//! The fields that every log line of an invocation has, and the filter that shows more detail of sampled ones.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lambda_runtime::Context as Invocation;
use tracing::subscriber::Interest;
use tracing::{Metadata, Span, Subscriber, error_span};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::{Context, Filter};
use tracing_subscriber::registry::LookupSpan;

use crate::env::process_env;
use crate::random::Random;
use crate::record::trace_part;

use super::CONSUMER;

/// The target of the span around an invocation whose lines are logged in more detail.
pub(super) const SAMPLED: &str = "sqs_once::sampled";

/// The service name of a consumer's log lines and metrics, and which of its invocations are first or sampled.
pub(crate) struct Identity {
    pub(crate) service: Arc<str>,
    sample_rate: f64,
    random: Arc<dyn Random>,
    /// Whether an earlier invocation, or an environment that Lambda initialized ahead of time, has paid for the start.
    is_warm: AtomicBool,
}

impl Identity {
    pub(crate) fn new(
        service: Arc<str>,
        sample_rate: Option<f64>,
        random: Arc<dyn Random>,
    ) -> Self {
        let initialization = process_env("AWS_LAMBDA_INITIALIZATION_TYPE");
        Self {
            service,
            sample_rate: sample_rate.unwrap_or_default(),
            random,
            is_warm: AtomicBool::new(initialization.is_some_and(|kind| kind != "on-demand")),
        }
    }

    /// Returns whether this is the first invocation of its process and waited for the start: `true` at most once.
    pub(crate) fn is_cold_start(&self) -> bool {
        !self.is_warm.swap(true, Ordering::Relaxed)
    }

    /// Returns the span of an invocation. Each log line of the invocation contains the span's fields.
    pub(crate) fn span(&self, invocation: &Invocation, cold_start: bool) -> Span {
        let header = invocation.xray_trace_id.as_deref();
        let trace = header.and_then(|header| trace_part(header, "Root"));
        // The outer span: the other span is created inside it.
        let _sampled = self
            .is_sampled()
            .then(|| error_span!(target: SAMPLED, "sampled").entered());
        error_span!(
            "invocation",
            service = &*self.service,
            function_request_id = invocation.request_id,
            xray_trace_id = trace,
            cold_start,
            otel.kind = CONSUMER,
        )
    }

    fn is_sampled(&self) -> bool {
        // An `f64` represents this many bits exactly.
        let drawn = || (self.random.bits() >> 75) as f64 / (1_u64 << 53) as f64;
        self.sample_rate > 0.0 && drawn() < self.sample_rate
    }
}

/// Applies the filter `usual`, and inside the span of a sampled invocation also `sampled`.
pub(super) struct Sampling {
    pub(super) usual: Targets,
    pub(super) sampled: Targets,
}

impl Sampling {
    fn is_sampled<S>(context: &Context<'_, S>) -> bool
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        let span = context.lookup_current();
        span.is_some_and(|span| span.scope().any(|span| span.metadata().target() == SAMPLED))
    }
}

impl<S> Filter<S> for Sampling
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn enabled(&self, metadata: &Metadata<'_>, context: &Context<'_, S>) -> bool {
        lets(&self.usual, metadata) || (lets(&self.sampled, metadata) && Self::is_sampled(context))
    }

    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> Interest {
        match (lets(&self.usual, metadata), lets(&self.sampled, metadata)) {
            (true, _) => Interest::always(),
            (false, true) => Interest::sometimes(),
            (false, false) => Interest::never(),
        }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        let most = Filter::<S>::max_level_hint;
        most(&self.usual).max(most(&self.sampled))
    }
}

fn lets(levels: &Targets, metadata: &Metadata<'_>) -> bool {
    levels.would_enable(metadata.target(), metadata.level())
}
