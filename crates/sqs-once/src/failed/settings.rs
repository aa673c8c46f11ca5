//! The settings for failed messages, from code and environment.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::Instant;

use crate::breaker::QueueLimits;
use crate::config::EnvSettings;
#[cfg(feature = "sqs")]
use crate::env::process_env;
use crate::error::ConfigError;
use crate::record::Message;
use crate::time::{Clock, Timestamp};

#[cfg(all(feature = "sqs", feature = "testing"))]
use super::isolated::Queues;
use super::limits::Answers;
use super::{DeadLetters, Visibility};
#[cfg(feature = "sqs")]
use super::{
    dead_letters::DeadLetterQueue, queue::Queue, sqs::LazyClient, visibility::SourceQueue,
};

/// How many more deliveries than those that are counted a queue that keeps order must allow.
pub(crate) const SILENT_DELIVERIES: u32 = 100;

/// The settings of the code.
#[derive(Clone, Default)]
pub(crate) struct FailedSettings {
    /// By ARN. `None` describes any other queue.
    #[cfg(feature = "sqs")]
    queues: BTreeMap<Option<String>, Queue>,
    /// The queues of a test bench, for queues without a client from the code.
    #[cfg(all(feature = "sqs", feature = "testing"))]
    pub(crate) bench: Option<Queues>,
}

/// Where the failed messages of each queue go.
#[derive(Default)]
pub(crate) struct FailedRecords {
    by_arn: BTreeMap<String, Ways>,
    others: Ways,
    limits: Answers,
}

/// Where a queue's failed messages go: to its dead-letter queue, or back after a while.
#[derive(Clone, Default)]
pub(crate) struct Ways {
    pub(crate) dead_letters: Option<Arc<dyn DeadLetters>>,
    pub(crate) visibility: Option<Arc<dyn Visibility>>,
    /// How often a message is tried before it blocks its message group.
    pub(crate) keep_order: Option<NonZeroU32>,
}

impl FailedRecords {
    /// Returns where a message of its queue goes.
    pub(crate) fn ways_for(&self, message: &Message) -> &Ways {
        let arn = message.queue_arn();
        arn.and_then(|arn| self.by_arn.get(arn))
            .unwrap_or(&self.others)
    }

    /// Returns what a message's queue says about its deliveries, if it can be asked and has answered.
    pub(crate) async fn limits(
        &self,
        message: &Message,
        now: Timestamp,
        by: Instant,
    ) -> Option<QueueLimits> {
        let ways = self.ways_for(message);
        let queue = ways.visibility.as_deref()?;
        let limits = self.limits.limits(queue, message, now, by).await;
        if limits.is_none() && ways.keep_order.is_some() {
            // Without an answer no message of the queue runs, so it is asked again for each batch.
            self.limits.forget(message);
        }
        let limits = limits?;
        match ways.keep_order.filter(|_| message.is_fifo()) {
            Some(deliveries) => limits.counted(deliveries.get(), SILENT_DELIVERIES),
            None => Some(limits),
        }
    }

    /// Returns whether a queue keeps the order of its message groups behind a dead letter.
    pub(crate) fn keeps_order(&self) -> bool {
        let mut ways = self.by_arn.values().chain([&self.others]);
        ways.any(|ways| ways.keep_order.is_some())
    }

    /// Hides each message for its time from now; `ran` is how long its batch ran.
    pub(crate) async fn hide(&self, waits: Vec<(&Message, Duration)>, ran: Duration) {
        let mut by_arn: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (message, wait) in waits {
            let waits = by_arn.entry(message.queue_arn()).or_default();
            waits.push((message, wait));
        }
        let hidden = by_arn.into_values().filter_map(|waits| {
            let visibility = self.ways_for(waits.first()?.0).visibility.as_deref()?;
            Some(visibility.hide(waits, ran))
        });
        join_all(hidden).await;
    }
}

#[cfg(feature = "sqs")]
impl FailedSettings {
    /// Adds a queue. The later one of the same ARN holds.
    pub(crate) fn add(&mut self, queue: Queue) {
        self.queues.insert(queue.arn.clone(), queue);
    }

    /// `has_backoff` is true if the consumer or one of its routes has a backoff.
    pub(crate) fn resolve(
        &self,
        env: &EnvSettings,
        clock: &Arc<dyn Clock>,
        has_backoff: bool,
    ) -> Result<FailedRecords, ConfigError> {
        let mut any = self.queues.get(&None).cloned().unwrap_or_default();
        any.dead_letter_queue = any.dead_letter_queue.or_else(|| env.dlq_url.clone());
        let mut failed = FailedRecords::default();
        // One client serves all queues whose client the code does not set.
        let shared = LazyClient::default();
        for queue in self.queues.values() {
            queue.check()?;
            if let Some(arn) = &queue.arn {
                let queue = queue.clone().or(&any);
                queue.check_order()?;
                let ways = self.ways(queue, &shared, clock, has_backoff);
                failed.by_arn.insert(arn.clone(), ways);
            }
        }
        any.check_order()?;
        failed.others = self.ways(any, &shared, clock, has_backoff);
        Ok(failed)
    }

    fn ways(
        &self,
        queue: Queue,
        shared: &LazyClient,
        clock: &Arc<dyn Clock>,
        has_backoff: bool,
    ) -> Ways {
        let keep_order = queue.keep_order;
        let dead_letter_queue = queue.dead_letter_queue;
        #[cfg(feature = "testing")]
        if let (Some(queues), None) = (&self.bench, &queue.client) {
            let queues = Arc::new(*queues);
            return Ways {
                dead_letters: dead_letter_queue
                    .map(|_| Arc::clone(&queues) as Arc<dyn DeadLetters>),
                visibility: Some(queues),
                keep_order,
            };
        }
        // A handler may ask for a pause, or another worker may hold a record's key. Outside Lambda, for example in a
        // test, neither should call AWS.
        let postpones = queue.client.is_some()
            || has_backoff
            || keep_order.is_some()
            || process_env("AWS_LAMBDA_FUNCTION_NAME").is_some();
        let client = queue
            .client
            .map_or_else(|| shared.clone(), LazyClient::from);
        let dead_letters = dead_letter_queue.map(|url| {
            Arc::new(DeadLetterQueue {
                client: client.clone(),
                url: url.trim_end_matches('/').to_owned(),
                function: process_env("AWS_LAMBDA_FUNCTION_NAME"),
            }) as Arc<dyn DeadLetters>
        });
        let visibility = postpones
            .then(|| Arc::new(SourceQueue::new(client, Arc::clone(clock))) as Arc<dyn Visibility>);
        Ways {
            dead_letters,
            visibility,
            keep_order,
        }
    }
}

#[cfg(not(feature = "sqs"))]
impl FailedSettings {
    /// Without the SQS client no queue can be reached, so a variable must not be ignored silently.
    pub(crate) fn resolve(
        &self,
        env: &EnvSettings,
        _: &Arc<dyn Clock>,
        _has_backoff: bool,
    ) -> Result<FailedRecords, ConfigError> {
        match &env.dlq_url {
            Some(_) => Err(ConfigError::unsupported(
                "SQS_ONCE_DLQ_URL",
                "is set, but sqs-once was built without its feature `sqs`",
                "the feature, or no such variable (the queue's redrive policy then moves failed messages)",
            )),
            None => Ok(FailedRecords::default()),
        }
    }
}
