//! The settings for large messages, from code and environment.

use std::sync::Arc;

use crate::config::EnvSettings;
use crate::error::ConfigError;
use crate::handler::FetchBody;

#[cfg(feature = "s3")]
use super::LargeMessages;

/// The settings of the code.
#[derive(Clone, Default)]
pub(crate) struct LargeMessageSettings {
    #[cfg(feature = "s3")]
    pub(crate) code: Option<LargeMessages>,
}

impl LargeMessageSettings {
    #[cfg(feature = "s3")]
    pub(crate) async fn resolve(
        &self,
        env: &EnvSettings,
    ) -> Result<Option<Arc<dyn FetchBody>>, ConfigError> {
        match (&self.code, &env.large_messages) {
            (None, None) => Ok(None),
            (code, sources) => {
                let settings = code.clone().unwrap_or_else(LargeMessages::from_env);
                let bodies = settings.connect(sources.as_deref(), env.memory).await?;
                Ok(Some(Arc::new(bodies)))
            }
        }
    }

    /// Without the client of S3 no body can be fetched, so a variable must not be ignored silently.
    #[cfg(not(feature = "s3"))]
    pub(crate) async fn resolve(
        &self,
        env: &EnvSettings,
    ) -> Result<Option<Arc<dyn FetchBody>>, ConfigError> {
        match env.large_messages {
            None => Ok(None),
            Some(_) => Err(ConfigError::unsupported(
                crate::config::LARGE_MESSAGES,
                "is set, but sqs-once was built without its feature `s3`",
                "the feature, or no such variable",
            )),
        }
    }
}
