//! The fields that every log line of an invocation has.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lambda_runtime::Context as Invocation;
use tracing::{Span, error_span};

use crate::env::process_env;
use crate::random::Random;

use super::CONSUMER;

/// The target of the span around an invocation whose lines are logged in more detail.
pub(super) const SAMPLED: &str = "sqs_once::sampled";

/// Which service the lines and metrics of a consumer are of, and which of its invocations come first or are
/// sampled.
pub(crate) struct Identity {
    pub(crate) service: Arc<str>,
    sample_rate: f64,
    random: Arc<dyn Random>,
    /// Whether an environment that was made ready ahead of time, or an invocation before, took the start's cost.
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

    /// Whether this invocation is the first of its process, and waited for its start. True once at most.
    pub(crate) fn is_cold_start(&self) -> bool {
        !self.is_warm.swap(true, Ordering::Relaxed)
    }

    /// The span of an invocation, whose fields are in each of its lines.
    pub(crate) fn span(&self, invocation: &Invocation, cold_start: bool) -> Span {
        let trace = invocation.xray_trace_id.as_deref().and_then(trace_id);
        // Around the other, which is made while it is entered.
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
        // As many bits as fit into an `f64` without loss.
        let drawn = || (self.random.bits() >> 75) as f64 / (1_u64 << 53) as f64;
        self.sample_rate > 0.0 && drawn() < self.sample_rate
    }
}

/// The trace id of the header `Root=1-…;Parent=…;Sampled=1`.
fn trace_id(header: &str) -> Option<&str> {
    header
        .split(';')
        .find_map(|part| part.trim().strip_prefix("Root="))
}
