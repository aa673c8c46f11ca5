//! The result of a batch on the bench, and assertions about it.

use std::fmt::{self, Write};
use std::time::Duration;

use aws_lambda_events::event::sqs::SqsBatchResponse;

use crate::lambda::Reports;
use crate::report::{Code, Outcome, Report};

/// The outcome of each message of a batch, and the messages that the consumer reported to Lambda for a retry.
///
/// Every assertion returns the answer, so that assertions can be chained. A failed assertion panics and prints the whole
/// batch. So does every method with a message id that no message has.
#[derive(Clone)]
pub struct Answer {
    reports: Reports,
    retried: Vec<String>,
}

impl Answer {
    pub(super) fn new(reports: Reports, response: SqsBatchResponse) -> Self {
        let failures = response.batch_item_failures.into_iter();
        Self {
            reports,
            retried: failures.map(|failure| failure.item_identifier).collect(),
        }
    }

    /// Asserts that the handler ran and its key is completed.
    #[track_caller]
    pub fn assert_processed(&self, message_id: &str) -> &Self {
        self.assert_outcome(message_id, Outcome::Processed)
    }

    /// Asserts that the event was handled before and the handler did not run.
    #[track_caller]
    pub fn assert_duplicate(&self, message_id: &str) -> &Self {
        self.assert_outcome(message_id, Outcome::Duplicate)
    }

    /// Asserts that the message failed and will be retried.
    #[track_caller]
    pub fn assert_failed(&self, message_id: &str) -> &Self {
        self.assert_outcome(message_id, Outcome::Failed)
    }

    /// Asserts that no retry can help. The message still returns to the queue unless it was moved to a dead-letter
    /// queue.
    #[track_caller]
    pub fn assert_terminal(&self, message_id: &str) -> &Self {
        self.assert_outcome(message_id, Outcome::Terminal)
    }

    /// Asserts that another worker has claimed the key.
    #[track_caller]
    pub fn assert_in_progress(&self, message_id: &str) -> &Self {
        self.assert_outcome(message_id, Outcome::InProgress)
    }

    /// Asserts that the envelope contained no event.
    #[track_caller]
    pub fn assert_ignored(&self, message_id: &str) -> &Self {
        self.assert_outcome(message_id, Outcome::Ignored)
    }

    /// Asserts the outcomes of all messages, in the batch's order.
    ///
    /// ```
    /// use serde_json::json;
    /// use sqs_once::telemetry::Outcome::{Duplicate, Processed};
    /// use sqs_once::testing::{Bench, Event};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # let handler = sqs_once::Handler::json::<serde_json::Value>()
    /// #     .key(|order: &serde_json::Value| order["order_id"].as_str().map(str::to_owned))
    /// #     .call(async |_: serde_json::Value| {});
    /// let order = json!({ "order_id": "o-1001" });
    /// let answer = Bench::new(handler).run(Event::new([&order, &order])).await;
    /// answer.assert_outcomes([Processed, Duplicate]);
    /// # }
    /// ```
    #[track_caller]
    pub fn assert_outcomes(&self, expected: impl IntoIterator<Item = Outcome>) -> &Self {
        let (outcomes, expected) = (self.outcomes(), Vec::from_iter(expected));
        assert!(
            outcomes == expected,
            "the outcomes should be {expected:?}, but are {outcomes:?}\n\n{self:?}"
        );
        self
    }

    /// Asserts that the reason in the message's log line contains `text`.
    #[track_caller]
    pub fn assert_reason(&self, message_id: &str, text: &str) -> &Self {
        let reason = self.reason(message_id);
        let fits = reason.is_some_and(|reason| reason.contains(text));
        assert!(
            fits,
            "the reason of {message_id} should say {text:?}, but is {reason:?}\n\n{self:?}"
        );
        self
    }

    /// Asserts that exactly these messages return to the queue, in the batch's order. Lambda deletes the others.
    #[track_caller]
    pub fn assert_retried<I: AsRef<str>>(&self, message_ids: impl IntoIterator<Item = I>) -> &Self {
        let ids = message_ids.into_iter();
        let expected: Vec<_> = ids.map(|id| id.as_ref().to_owned()).collect();
        assert!(
            self.retried == expected,
            "exactly {expected:?} should be retried, but {:?} are\n\n{self:?}",
            self.retried
        );
        self
    }

    /// Asserts that no message returns to the queue.
    #[track_caller]
    pub fn assert_all_acknowledged(&self) -> &Self {
        self.assert_retried::<&str>([])
    }

    /// Returns the outcomes of all messages, in the batch's order.
    pub fn outcomes(&self) -> Vec<Outcome> {
        let reports = self.reports.iter();
        reports.map(|(_, report)| report.outcome()).collect()
    }

    /// Returns the message's outcome.
    #[track_caller]
    pub fn outcome(&self, message_id: &str) -> Outcome {
        self.report(message_id).outcome()
    }

    /// Returns the code of the reason, as in the log, such as `lease-lost`; `None` without a reason.
    #[track_caller]
    pub fn code(&self, message_id: &str) -> Option<&'static str> {
        self.report(message_id).code().map(Code::as_str)
    }

    /// Returns the reason of the message's outcome, as in the log.
    #[track_caller]
    pub fn reason(&self, message_id: &str) -> Option<&str> {
        self.report(message_id).reason()
    }

    /// Returns how long a message that returns to the queue stays hidden: for the handler's
    /// [`retry_after`](crate::ResultExt::retry_after), for its backoff, or until another worker's lease on
    /// its key lapses.
    #[track_caller]
    pub fn delay(&self, message_id: &str) -> Option<Duration> {
        self.report(message_id).wait()
    }

    /// Returns the message ids in the response to Lambda, in the batch's order.
    pub fn retried(&self) -> &[String] {
        &self.retried
    }

    #[track_caller]
    fn assert_outcome(&self, message_id: &str, expected: Outcome) -> &Self {
        for report in self.reports_of(message_id) {
            let outcome = report.outcome();
            if outcome != expected {
                let because = report.reason();
                let because = because.map_or(String::new(), |reason| format!(": {reason}"));
                panic!("{message_id} should be {expected}, but is {outcome}{because}\n\n{self:?}");
            }
        }
        self
    }

    #[track_caller]
    fn report(&self, message_id: &str) -> &Report {
        self.reports_of(message_id)[0]
    }

    /// Returns the reports with this message id. SQS never sends an id twice in a batch, but a test may.
    #[track_caller]
    fn reports_of(&self, message_id: &str) -> Vec<&Report> {
        let reports = self.reports.iter().filter(|(id, _)| **id == *message_id);
        let reports: Vec<_> = reports.map(|(_, report)| report).collect();
        assert!(
            !reports.is_empty(),
            "no message has the id {message_id:?}\n\n{self:?}"
        );
        reports
    }
}

/// Shows the batch as a table with one line for each message.
impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.reports.is_empty() {
            return f.write_str("the batch was empty");
        }
        let mut table = "the batch:".to_owned();
        for (id, report) in &self.reports {
            let fate = match report.is_acknowledged() {
                true => "acknowledged",
                false => "retried",
            };
            write!(table, "\n  {id}  {}, {fate}", report.outcome())?;
            if let Some(reason) = report.reason() {
                write!(table, ": {reason}")?;
            }
        }
        f.write_str(&table)
    }
}
