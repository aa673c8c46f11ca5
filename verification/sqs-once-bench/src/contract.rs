//! What every contender does, whatever it is written in: the payload, the work, the environment.
//!
//! An event holds orders, `{"order_id": "o-17", "customer_id": …}`. A contender keeps one item an
//! order in the table `$BENCH_TABLE`, under a key made of `order_id`: in progress before the work,
//! completed after it. It answers with the records that failed, which is none. The work is to sleep
//! for `$BENCH_HANDLER_MS` milliseconds, that is, nothing where that is 0.

use std::env;
use std::fmt::Write;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

/// The variable that names the table.
pub const TABLE: &str = "BENCH_TABLE";
/// The variable that says how many records, or claims of 25, a contender has under way at a time, where
/// that is its choice.
pub const CONCURRENCY: &str = "BENCH_CONCURRENCY";
/// The variable that says how long the work of a record takes, in milliseconds.
pub const HANDLER_MS: &str = "BENCH_HANDLER_MS";

/// The variable that is `1` where a contender that can remember completed keys in its process does so.
pub const CACHED: &str = "BENCH_CACHED";
/// The variable that is `1` where sqs-once sends a request for each key.
pub const SINGLE_REQUESTS: &str = "BENCH_SINGLE_REQUESTS";

/// How long a completed order is remembered: 28 days.
pub const RETENTION: Duration = Duration::from_secs(28 * 24 * 60 * 60);

/// The payload.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Order {
    /// The business key.
    pub order_id: String,
    /// Who is charged.
    pub customer_id: String,
    /// How much.
    pub amount_cents: u64,
    /// Of what.
    pub currency: String,
}

/// The work of one record.
#[derive(Clone, Copy, Debug)]
pub struct Work(Duration);

impl Work {
    /// The work that the environment asks for.
    pub fn from_env() -> Self {
        let millis = env::var(HANDLER_MS).ok().and_then(|text| text.parse().ok());
        Self(Duration::from_millis(millis.unwrap_or(0)))
    }

    /// Does it.
    pub async fn run(self) {
        if !self.0.is_zero() {
            tokio::time::sleep(self.0).await;
        }
    }
}

/// Milliseconds since the Unix epoch.
pub fn now_ms() -> u64 {
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since_epoch.map_or(0, |duration| duration.as_millis() as u64)
}

/// An SQS event as Lambda sends it, with one record for each number of an order: 600 bytes each, so
/// that 10,000 of them are the 6 MB that Lambda sends at most.
pub fn event(orders: impl IntoIterator<Item = u64>) -> Vec<u8> {
    let sent = now_ms();
    let mut records = String::new();
    for order in orders {
        let body = format!(
            r#"{{\"order_id\":\"o-{order:012}\",\"customer_id\":\"c-{}\",\"amount_cents\":{},\"currency\":\"EUR\"}}"#,
            order % 1000,
            100 + order % 10_000,
        );
        if !records.is_empty() {
            records.push(',');
        }
        // Writing to a string can't fail.
        let _ = write!(
            records,
            r#"{{"messageId":"00000000-0000-4000-8000-{order:012x}","receiptHandle":"{order:0>76}","body":"{body}","attributes":{{"ApproximateReceiveCount":"1","SentTimestamp":"{sent}","SenderId":"AIDAIENQZJOLO23YVJ4VO","ApproximateFirstReceiveTimestamp":"{sent}"}},"messageAttributes":{{}},"md5OfBody":"e4e68fb7bd0e697a0ae8f1bb342846b3","eventSource":"aws:sqs","eventSourceARN":"arn:aws:sqs:eu-central-1:123456789012:orders","awsRegion":"eu-central-1"}}"#
        );
    }
    format!(r#"{{"Records":[{records}]}}"#).into_bytes()
}
