//! AWS's limits on the settings of functions, queues and event source mappings.

use std::ops::RangeInclusive;
use std::time::Duration;

/// A setting that AWS refuses outside its range.
#[derive(Debug)]
pub struct Limit {
    /// The property in a template. After it, the resources that the limit is for, if it is not for all.
    pub setting: &'static str,
    /// The argument in Terraform's language.
    pub argument: &'static str,
    /// The range. Times are in seconds.
    pub range: RangeInclusive<u64>,
    /// The page that states it.
    pub source: &'static str,
}

const MAPPING: &str = "https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-parameters.html";
const MAPPING_OF_LAMBDA: &str =
    "https://docs.aws.amazon.com/lambda/latest/api/API_CreateEventSourceMapping.html";
const POLLERS: &str =
    "https://docs.aws.amazon.com/lambda/latest/api/API_ProvisionedPollerConfig.html";
const QUEUE: &str = "https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SetQueueAttributes.html";
const TIMEOUT: &str = "https://docs.aws.amazon.com/lambda/latest/dg/configuration-timeout.html";

/// The limits that the doctor knows.
#[rustfmt::skip]
pub static LIMITS: &[Limit] = &[
    Limit { setting: "BatchSize", argument: "batch_size", range: 1..=10_000, source: MAPPING },
    Limit { setting: "BatchSize of a FIFO queue", argument: "batch_size", range: 1..=LARGEST_BATCH, source: MAPPING },
    Limit { setting: "MaximumBatchingWindowInSeconds", argument: "maximum_batching_window_in_seconds", range: 0..=300,
        source: MAPPING_OF_LAMBDA },
    Limit { setting: "MaximumBatchingWindowInSeconds with a batch size above 10", argument: "maximum_batching_window_in_seconds",
        range: 1..=300, source: MAPPING_OF_LAMBDA },
    Limit { setting: "MaximumBatchingWindowInSeconds of a FIFO queue", argument: "maximum_batching_window_in_seconds",
        range: 0..=0, source: MAPPING },
    Limit { setting: "ScalingConfig.MaximumConcurrency", argument: "maximum_concurrency", range: MAXIMUM_CONCURRENCY,
        source: "https://docs.aws.amazon.com/lambda/latest/api/API_ScalingConfig.html" },
    Limit { setting: "ProvisionedPollerConfig.MinimumPollers", argument: "minimum_pollers", range: 2..=200, source: POLLERS },
    Limit { setting: "ProvisionedPollerConfig.MaximumPollers", argument: "maximum_pollers", range: 2..=10_000, source: POLLERS },
    Limit { setting: "VisibilityTimeout", argument: "visibility_timeout_seconds",
        range: 0..=LONGEST_VISIBILITY_TIMEOUT.as_secs(), source: QUEUE },
    Limit { setting: "MessageRetentionPeriod", argument: "message_retention_seconds",
        range: 60..=LONGEST_RETENTION.as_secs(), source: QUEUE },
    Limit { setting: "DelaySeconds", argument: "delay_seconds", range: 0..=900, source: QUEUE },
    Limit { setting: "RedrivePolicy.maxReceiveCount", argument: "maxReceiveCount", range: 1..=1000,
        source: "https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-configure-dead-letter-queue.html" },
    Limit { setting: "Timeout", argument: "timeout", range: 1..=900, source: TIMEOUT },
    Limit { setting: "Timeout on Lambda Managed Instances", argument: "timeout", range: 1..=5400, source: TIMEOUT },
];

pub(crate) const MAXIMUM_CONCURRENCY: RangeInclusive<u64> = 2..=1000;
pub(crate) const LONGEST_RETENTION: Duration = Duration::from_secs(14 * 24 * 3600);
pub(crate) const LONGEST_VISIBILITY_TIMEOUT: Duration = Duration::from_secs(12 * 3600);
/// The largest batch without a batching window, and of a FIFO queue, which has no batching window.
pub(crate) const LARGEST_BATCH: u64 = 10;
