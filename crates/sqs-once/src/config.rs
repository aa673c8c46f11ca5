//! The settings of the environment: read once and checked.

use std::num::NonZeroUsize;
use std::time::Duration;

use crate::env::{Env, read, warn_of_unknown};
use crate::error::ConfigError;
use crate::key::Namespace;
use crate::report::RecordLevels;
use crate::telemetry::{Metrics, SAMPLE_RATE};
use crate::variables::{duration_from, switch_from};

pub(crate) const SHORTEST_RETENTION: Duration = Duration::from_secs(1);
/// A lease without a margin ends while its owner may still work: clocks differ, and Lambda ends a process late.
pub(crate) const SHORTEST_LEASE_MARGIN: Duration = Duration::from_secs(1);

pub(crate) const NAMESPACE_VARIABLE: &str = "SQS_ONCE_NAMESPACE";

/// The formats that error messages about code and environment name as expected.
pub(crate) const NAMESPACE: &str = "1 to 255 bytes without `#`";
pub(crate) const RETENTION: &str = "1s or more, such as 12h or 28d";
pub(crate) const LEASE_MARGIN: &str = "1s or more, such as 3s";
pub(crate) const DEADLINE_MARGIN: &str = "more than zero, such as 500ms or 1s";
pub(crate) const QUEUE_URL: &str = "the URL of an SQS queue";

pub(crate) const LARGE_MESSAGES: &str = "SQS_ONCE_LARGE_MESSAGES";

/// Returns whether a text can be a queue's URL, from code or environment.
pub(crate) fn is_url(text: &str) -> bool {
    text.starts_with("https://") || text.starts_with("http://")
}

/// The second form of ids under which keys are looked up, from the environment.
#[derive(Debug)]
pub(crate) enum AlsoRead {
    Nothing,
    /// The same namespace without a secret.
    WithoutSecret,
    /// The same namespace with the secret of this ARN.
    SecretArn(String),
}

/// The settings of the environment; `None` for a variable that is not set.
#[derive(Debug, Default)]
pub(crate) struct EnvSettings {
    pub(crate) namespace: Option<Namespace>,
    pub(crate) key_secret_arn: Option<String>,
    pub(crate) also_read: Option<AlsoRead>,
    pub(crate) concurrency: Option<NonZeroUsize>,
    pub(crate) retention: Option<Duration>,
    pub(crate) lease_margin: Option<Duration>,
    pub(crate) deadline_margin: Option<Duration>,
    pub(crate) dlq_url: Option<String>,
    /// The text, which `large_messages` parses.
    pub(crate) large_messages: Option<String>,
    /// The function's memory in MiB, from Lambda.
    #[cfg(feature = "s3")]
    pub(crate) memory: Option<usize>,
    pub(crate) disabled: bool,
    pub(crate) service: Option<String>,
    pub(crate) record_levels: RecordLevels,
    pub(crate) has_single_requests: bool,
    pub(crate) sample_rate: Option<f64>,
    pub(crate) metrics: Option<Metrics>,
    pub(crate) metrics_namespace: Option<String>,
}

impl EnvSettings {
    pub(crate) fn read(env: &Env<'_>) -> Result<Self, ConfigError> {
        warn_of_unknown();
        // Powertools treats these values as true.
        let powertools_off = env("POWERTOOLS_METRICS_DISABLED").is_some_and(|text| {
            let text = text.trim().to_ascii_lowercase();
            ["1", "y", "yes", "t", "true", "on"].contains(&&*text)
        });
        Ok(Self {
            namespace: read(env, NAMESPACE_VARIABLE, NAMESPACE, |text| {
                Namespace::new(text).ok()
            })?,
            key_secret_arn: secret_arn(env, KEY_SECRET_ARN)?,
            also_read: match env(ALSO_READ).as_deref().map(str::trim) {
                Some("nothing") => Some(AlsoRead::Nothing),
                Some("no-secret") => Some(AlsoRead::WithoutSecret),
                _ => secret_arn(env, ALSO_READ)?.map(AlsoRead::SecretArn),
            },
            concurrency: read(
                env,
                "SQS_ONCE_CONCURRENCY",
                "a whole number from 1",
                |text| text.parse().ok(),
            )?,
            retention: read(env, "SQS_ONCE_RETENTION", RETENTION, |text| {
                duration_from(text).filter(|retention| *retention >= SHORTEST_RETENTION)
            })?,
            lease_margin: read(env, "SQS_ONCE_LEASE_MARGIN", LEASE_MARGIN, |text| {
                duration_from(text).filter(|margin| *margin >= SHORTEST_LEASE_MARGIN)
            })?,
            deadline_margin: read(env, "SQS_ONCE_DEADLINE_MARGIN", DEADLINE_MARGIN, |text| {
                duration_from(text).filter(|margin| !margin.is_zero())
            })?,
            dlq_url: read(env, "SQS_ONCE_DLQ_URL", QUEUE_URL, |text| {
                is_url(text).then(|| text.to_owned())
            })?,
            large_messages: env(LARGE_MESSAGES),
            #[cfg(feature = "s3")]
            memory: env("AWS_LAMBDA_FUNCTION_MEMORY_SIZE").and_then(|text| text.parse().ok()),
            disabled: read(env, "SQS_ONCE_DISABLED", "true or false", switch_from)?
                .unwrap_or(false),
            service: ["SQS_ONCE_SERVICE", "POWERTOOLS_SERVICE_NAME"]
                .into_iter()
                .filter_map(env)
                .find(|name| !name.trim().is_empty()),
            record_levels: read(
                env,
                "SQS_ONCE_RECORD_LEVELS",
                "outcomes and their levels, such as processed=debug,duplicate=debug",
                RecordLevels::parse,
            )?
            .unwrap_or_default(),
            has_single_requests: read(env, "SQS_ONCE_REQUESTS", "batched or single", |text| {
                match text {
                    "batched" => Some(false),
                    "single" => Some(true),
                    _ => None,
                }
            })?
            .unwrap_or_default(),
            sample_rate: read(
                env,
                SAMPLE_RATE,
                "a share from 0 to 1, such as 0.01",
                |text| text.parse().ok().filter(|rate| (0.0..=1.0).contains(rate)),
            )?,
            metrics: match metrics(env)? {
                None if powertools_off => Some(Metrics::Off),
                metrics => metrics,
            },
            metrics_namespace: read(
                env,
                "POWERTOOLS_METRICS_NAMESPACE",
                "1 to 255 letters, digits and `.-_/#: `, the first no colon",
                |text| {
                    let is_allowed =
                        |byte: u8| byte.is_ascii_alphanumeric() || b".-_/#: ".contains(&byte);
                    let fits = (1..=255).contains(&text.len()) && !text.starts_with(':');
                    (fits && text.bytes().all(is_allowed)).then(|| text.to_owned())
                },
            )?,
        })
    }
}

pub(crate) const KEY_SECRET_ARN: &str = "SQS_ONCE_KEY_SECRET_ARN";
pub(crate) const ALSO_READ: &str = "SQS_ONCE_ALSO_READ";

fn secret_arn(env: &Env<'_>, variable: &'static str) -> Result<Option<String>, ConfigError> {
    let expected = match variable {
        ALSO_READ => "nothing, no-secret, or the ARN of a secret in Secrets Manager",
        _ => "the ARN of a secret in Secrets Manager",
    };
    let Some(text) = env(variable) else {
        return Ok(None);
    };
    let parts: Vec<_> = text.trim().split(':').collect();
    let is_secret = matches!(
        parts[..],
        ["arn", _, "secretsmanager", region, _, "secret", name] if !region.is_empty() && !name.is_empty()
    );
    match is_secret {
        true => Ok(Some(text.trim().to_owned())),
        false => Err(ConfigError::invalid(
            variable,
            "is something else, which is not shown because it may be the secret itself",
            expected,
        )),
    }
}

fn metrics(env: &Env<'_>) -> Result<Option<Metrics>, ConfigError> {
    const VARIABLE: &str = "SQS_ONCE_METRICS";
    #[cfg(not(feature = "opentelemetry"))]
    if env(VARIABLE).is_some_and(|text| text.trim() == "opentelemetry") {
        return Err(ConfigError::unsupported(
            VARIABLE,
            "is \"opentelemetry\", but sqs-once was built without its feature `opentelemetry`",
            "the feature, or emf or off",
        ));
    }
    let expected = match cfg!(feature = "opentelemetry") {
        true => "emf, opentelemetry or off",
        false => "emf or off",
    };
    read(env, VARIABLE, expected, |text| match text {
        "emf" => Some(Metrics::Emf),
        #[cfg(feature = "opentelemetry")]
        "opentelemetry" => Some(Metrics::OpenTelemetry),
        "off" => Some(Metrics::Off),
        _ => None,
    })
}
