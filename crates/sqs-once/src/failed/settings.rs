//! The settings for failed records, from code and environment.

use std::sync::Arc;

use crate::config::EnvSettings;
#[cfg(feature = "sqs")]
use crate::config::{QUEUE_URL, is_url};
#[cfg(feature = "sqs")]
use crate::env::process_env;
use crate::error::ConfigError;
use crate::time::Clock;

use super::{DeadLetters, Visibility};
#[cfg(feature = "sqs")]
use super::{
    dead_letters::{DeadLetterQueue, place},
    sqs,
    visibility::SourceQueue,
};

/// The settings of the code; `None` leaves a setting to the environment.
#[derive(Clone, Default)]
pub(crate) struct FailedSettings {
    #[cfg(feature = "sqs")]
    pub(crate) client: Option<aws_sdk_sqs::Client>,
    #[cfg(feature = "sqs")]
    pub(crate) dead_letter_queue: Option<String>,
    #[cfg(feature = "sqs")]
    pub(crate) queue: Option<String>,
    /// Reaches queues only through a client that the code provides.
    #[cfg(all(feature = "sqs", feature = "testing"))]
    pub(crate) is_isolated: bool,
}

/// The resolved settings for records that did not succeed.
#[derive(Default)]
pub(crate) struct FailedRecords {
    pub(crate) dead_letters: Option<Arc<dyn DeadLetters>>,
    pub(crate) visibility: Option<Arc<dyn Visibility>>,
}

impl FailedSettings {
    /// `has_backoff` is true if the consumer or one of its routes has a backoff.
    #[cfg(feature = "sqs")]
    pub(crate) async fn resolve(
        &self,
        env: &EnvSettings,
        clock: &Arc<dyn Clock>,
        has_backoff: bool,
    ) -> Result<FailedRecords, ConfigError> {
        self.check()?;
        let dead_letter_queue = self.dead_letter_queue.as_ref().or(env.dlq_url.as_ref());
        let queue = self.queue.as_ref().or(env.queue_url.as_ref());
        if let (Some(dead_letters), Some(source)) = (dead_letter_queue, queue)
            && place(dead_letters) == place(source)
        {
            return Err(ConfigError::new(
                match self.dead_letter_queue {
                    Some(_) => "the setting `dead_letter_queue`",
                    None => "SQS_ONCE_DLQ_URL",
                },
                "is the consumer's own queue, to which its terminal messages would come back for ever",
                "the URL of another queue",
            ));
        }
        #[cfg(feature = "testing")]
        if self.is_isolated && self.client.is_none() {
            let queues = Arc::new(super::isolated::Queues);
            return Ok(FailedRecords {
                dead_letters: dead_letter_queue
                    .map(|_| Arc::clone(&queues) as Arc<dyn DeadLetters>),
                visibility: Some(queues),
            });
        }
        // A handler may ask for a pause, or another worker may hold a record's key. Outside Lambda, for example in a
        // test, neither should call AWS.
        let asked = self.client.is_some() || queue.is_some() || has_backoff;
        let postpones = asked || process_env("AWS_LAMBDA_FUNCTION_NAME").is_some();
        if dead_letter_queue.is_none() && !postpones {
            return Ok(FailedRecords::default());
        }
        let client = match &self.client {
            Some(client) => client.clone(),
            None => sqs::client_from_env().await,
        };
        let dead_letters = dead_letter_queue.map(|url| {
            Arc::new(DeadLetterQueue {
                client: client.clone(),
                url: url.clone(),
                function: process_env("AWS_LAMBDA_FUNCTION_NAME"),
            }) as Arc<dyn DeadLetters>
        });
        let visibility = postpones.then(|| {
            Arc::new(SourceQueue {
                client,
                url: queue.cloned(),
                endpoint: SourceQueue::endpoint(),
                clock: Arc::clone(clock),
            }) as Arc<dyn Visibility>
        });
        Ok(FailedRecords {
            dead_letters,
            visibility,
        })
    }

    /// Returns the URL of the consumer's own queue, if it is set.
    pub(crate) fn queue_url(&self, env: &EnvSettings) -> Option<String> {
        #[cfg(feature = "sqs")]
        let set = self.queue.clone();
        #[cfg(not(feature = "sqs"))]
        let set = None;
        set.or_else(|| env.queue_url.clone())
    }

    /// Checks values from the code by the same rules as values from the environment.
    #[cfg(feature = "sqs")]
    fn check(&self) -> Result<(), ConfigError> {
        for (setting, url) in [
            ("the setting `dead_letter_queue`", &self.dead_letter_queue),
            ("the setting `queue_url`", &self.queue),
        ] {
            if let Some(url) = url.as_ref().filter(|url| !is_url(url)) {
                return Err(ConfigError::new(setting, format!("is {url:?}"), QUEUE_URL));
            }
        }
        Ok(())
    }

    /// Without the SQS client no queue can be reached, so a variable must not be ignored silently.
    #[cfg(not(feature = "sqs"))]
    pub(crate) async fn resolve(
        &self,
        env: &EnvSettings,
        _: &Arc<dyn Clock>,
        _has_backoff: bool,
    ) -> Result<FailedRecords, ConfigError> {
        if env.dlq_url.is_some() {
            return Err(crate::config::needs_sqs("SQS_ONCE_DLQ_URL"));
        }
        if env.queue_url.is_some() {
            return Err(crate::config::needs_sqs("SQS_ONCE_QUEUE_URL"));
        }
        Ok(FailedRecords::default())
    }
}
