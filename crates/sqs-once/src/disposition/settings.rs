//! What the code sets of all this, and what becomes of it with the environment's word.

use std::sync::Arc;

use crate::config::{ConfigError, EnvSettings};

use super::DeadLetters;
#[cfg(feature = "sqs")]
use super::{dead_letters::DeadLetterQueue, sqs};

/// What the code sets; `None` leaves it to the environment.
#[derive(Clone, Default)]
pub(crate) struct DispositionSettings {
    #[cfg(feature = "sqs")]
    pub(crate) client: Option<aws_sdk_sqs::Client>,
    #[cfg(feature = "sqs")]
    pub(crate) dead_letter_queue: Option<String>,
}

/// What a consumer does about records that did not succeed.
pub(crate) struct Disposition {
    pub(crate) dead_letters: Option<Arc<dyn DeadLetters>>,
}

impl DispositionSettings {
    #[cfg(feature = "sqs")]
    pub(crate) async fn resolve(&self, env: &EnvSettings) -> Result<Disposition, ConfigError> {
        let dead_letter_queue = self.dead_letter_queue.as_ref().or(env.dlq_url.as_ref());
        let Some(url) = dead_letter_queue else {
            return Ok(Disposition { dead_letters: None });
        };
        let client = match &self.client {
            Some(client) => client.clone(),
            None => sqs::client_from_env().await,
        };
        Ok(Disposition {
            dead_letters: Some(Arc::new(DeadLetterQueue::new(client, url.clone()))),
        })
    }

    /// Without SQS's client nothing can be sent there: a variable that does nothing would be a trap.
    #[cfg(not(feature = "sqs"))]
    pub(crate) async fn resolve(&self, env: &EnvSettings) -> Result<Disposition, ConfigError> {
        match env.dlq_url {
            Some(_) => Err(crate::config::dlq_without_feature()),
            None => Ok(Disposition { dead_letters: None }),
        }
    }
}
