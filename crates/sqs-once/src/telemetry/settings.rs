//! The settings of logs, metrics and traces.

use std::fmt;
use std::sync::Arc;

use crate::record::{Correlate, Message};
use crate::report::RecordLevels;

use super::{Metrics, Outcome};

#[cfg(feature = "opentelemetry")]
pub(crate) type AfterAnswer = Arc<dyn Fn() + Send + Sync>;

/// What a consumer logs and measures, for [`Consumer::telemetry`](crate::Consumer::telemetry).
///
/// ```
/// use sqs_once::telemetry::{Metrics, Telemetry};
///
/// let telemetry = Telemetry::new().service("payments").metrics(Metrics::Off);
/// ```
#[derive(Clone, Default)]
#[must_use = "it does nothing until a consumer has it: `.telemetry(…)`"]
pub struct Telemetry {
    pub(crate) service: Option<Arc<str>>,
    pub(crate) metrics: Option<Metrics>,
    pub(crate) record_levels: Option<RecordLevels>,
    pub(crate) correlate: Option<Correlate>,
    #[cfg(feature = "opentelemetry")]
    pub(crate) after_answer: Option<AfterAnswer>,
}

impl Telemetry {
    /// Creates settings that leave everything to the environment and the defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the name of the service in log lines and metrics. Default: `SQS_ONCE_SERVICE`, else `POWERTOOLS_SERVICE_NAME`,
    /// else the namespace, or the function's name for a [router](crate::Router). A blank name fails at
    /// [`init`](crate::Consumer::init).
    pub fn service(mut self, service: &str) -> Self {
        self.service = Some(service.into());
        self
    }

    /// Sets where the metrics of each batch go. Default: the value of `SQS_ONCE_METRICS` (`emf`, `off`, or `opentelemetry`
    /// with that feature); else nowhere if `POWERTOOLS_METRICS_DISABLED` is set; else [`Metrics::Emf`] on Lambda, and
    /// nowhere elsewhere.
    ///
    /// Their namespace in CloudWatch is `POWERTOOLS_METRICS_NAMESPACE`, else `sqs-once`. Their dimension is the
    /// [`service`](Self::service), and in a router the route too.
    pub fn metrics(mut self, metrics: Metrics) -> Self {
        self.metrics = Some(metrics);
        self
    }

    /// Sets the log level of messages that end with `outcome`. Default: `WARN` for [`Failed`](Outcome::Failed), `ERROR` for
    /// [`Terminal`](Outcome::Terminal), `INFO` for the others. A message that succeeds with a warning is logged at `WARN`
    /// at least.
    ///
    /// `SQS_ONCE_RECORD_LEVELS=processed=debug,duplicate=debug` sets the levels of several outcomes. One call of this method
    /// replaces the whole variable.
    pub fn record_level(mut self, outcome: Outcome, level: tracing::Level) -> Self {
        let levels = self.record_levels.get_or_insert_default();
        levels.set(outcome, level);
        self
    }

    /// Sets where a message's correlation id comes from. Default: the places that
    /// [`CorrelationId`](crate::extract::CorrelationId) lists. If the function returns `None` or panics, the message has no
    /// correlation id.
    ///
    /// The consumer calls the function after it opened the message's envelope. A message that returns to the queue before
    /// that has no correlation id in the log.
    ///
    /// ```
    /// use sqs_once::telemetry::Telemetry;
    ///
    /// let telemetry = Telemetry::new()
    ///     .correlation_id(|message| message.attribute("request-id").map(str::to_owned));
    /// ```
    pub fn correlation_id<F>(mut self, correlate: F) -> Self
    where
        F: Fn(&Message) -> Option<String> + Send + Sync + 'static,
    {
        self.correlate = Some(Arc::new(correlate));
        self
    }

    /// Calls `flush` after each answer to Lambda, under [`run`](crate::run). Default: nothing is called.
    ///
    /// Export spans and metrics here. Lambda freezes the process when it asks for the next event; data that was not
    /// exported waits for the next invocation, or is lost. The answer has been sent, so a slow or unreachable collector
    /// costs time and no message. The call runs on a thread that may block, and has the rest of the invocation's time. If
    /// it panics or takes longer, the log has a warning.
    ///
    /// ```no_run
    /// # #[derive(serde::Deserialize)] struct OrderPlaced { order_id: String }
    /// # #[sqs_once::handler(key = order.order_id, namespace = "charges")]
    /// # async fn charge(order: OrderPlaced) {}
    /// use opentelemetry_sdk::trace::SdkTracerProvider;
    /// use sqs_once::telemetry::Telemetry;
    ///
    /// # async fn example() -> Result<(), sqs_once::Error> {
    /// let tracer_provider = SdkTracerProvider::builder().build(); // with an exporter
    /// opentelemetry::global::set_tracer_provider(tracer_provider.clone());
    /// let telemetry = Telemetry::new().after_answer(move || {
    ///     let _ = tracer_provider.force_flush();
    /// });
    /// sqs_once::run(charge::consumer().telemetry(telemetry)).await
    /// # }
    /// ```
    #[cfg(feature = "opentelemetry")]
    pub fn after_answer(mut self, flush: impl Fn() + Send + Sync + 'static) -> Self {
        self.after_answer = Some(Arc::new(flush));
        self
    }
}

impl fmt::Debug for Telemetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Telemetry").finish_non_exhaustive()
    }
}
