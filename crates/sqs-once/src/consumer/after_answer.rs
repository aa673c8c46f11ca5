//! The setting that needs OpenTelemetry.

use std::sync::Arc;

use super::Consumer;

/// The hook that is called after each answer.
pub(crate) type AfterAnswer = Arc<dyn Fn() + Send + Sync>;

/// Settings of the feature `opentelemetry`, in any phase.
impl<Phase> Consumer<Phase> {
    /// Calls `flush` after each answer to Lambda, under [`run`](crate::run). Default: nothing is called.
    ///
    /// This is where spans and metrics leave the process: Lambda freezes it as soon as it asks for the next event, and
    /// what is not exported by then waits for the thaw, or is lost. The answer is out by then, so that a collector
    /// that is slow or away costs time and no message. The call runs on a thread that may block. It has what is left
    /// of the invocation, and what is not done by then is a warning in the log, as is a panic.
    ///
    /// ```no_run
    /// # #[derive(serde::Deserialize)] struct OrderPlaced { order_id: String }
    /// # #[sqs_once::handler(key = order.order_id)]
    /// # async fn charge(order: OrderPlaced) {}
    /// use opentelemetry_sdk::trace::SdkTracerProvider;
    ///
    /// # async fn example() -> Result<(), sqs_once::Error> {
    /// let tracer_provider = SdkTracerProvider::builder().build(); // with an exporter
    /// opentelemetry::global::set_tracer_provider(tracer_provider.clone());
    /// let consumer = charge::consumer().after_answer(move || {
    ///     let _ = tracer_provider.force_flush();
    /// });
    /// sqs_once::run(consumer).await
    /// # }
    /// ```
    #[must_use]
    pub fn after_answer(self, flush: impl Fn() + Send + Sync + 'static) -> Self {
        self.set(|settings| settings.after_answer = Some(Arc::new(flush)))
    }
}
