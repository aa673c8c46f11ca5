//! The setting that needs OpenTelemetry.

use std::sync::Arc;

use super::Consumer;

/// The hook that is called after each answer.
pub(crate) type AfterAnswer = Arc<dyn Fn() + Send + Sync>;

/// Settings of the feature `opentelemetry`, in any phase.
impl<Phase> Consumer<Phase> {
    /// Calls `flush` after each answer to Lambda, under [`run`](crate::run). Default: nothing is called.
    ///
    /// Export spans and metrics here. Lambda freezes the process when it asks for the next event; data that was not
    /// exported waits for the next invocation, or is lost. The answer has been sent, so a slow or unreachable collector costs
    /// time and no message. The call runs on a thread that may block, and has the rest of the invocation's time. If it
    /// panics or takes longer, the log has a warning.
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
