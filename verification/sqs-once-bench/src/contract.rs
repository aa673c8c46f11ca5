//! The behaviour that all contenders share, in any language: the payload, the work, the environment.
//!
//! An event contains orders, `{"order_id": "o-17", "customer_id": …}`. A contender keeps one item per order in the
//! table `$BENCH_TABLE`. The item's key is derived from `order_id`. The item is in progress before the work and
//! completed after it. The contender answers with the failed records, normally none. The work sleeps for
//! `$BENCH_HANDLER_MS` milliseconds; 0 means no work.

use std::env;
use std::fmt::Write;
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

/// The variable with the name of the table.
pub const TABLE: &str = "BENCH_TABLE";
/// The variable with the number of records, or claims of 25 keys, that a contender keeps in flight, if it can choose.
pub const CONCURRENCY: &str = "BENCH_CONCURRENCY";
/// The variable with the duration of a record's work, in milliseconds.
pub const HANDLER_MS: &str = "BENCH_HANDLER_MS";

/// The variable that is `1` if a contender with a cache of completed keys uses it.
pub const CACHED: &str = "BENCH_CACHED";

/// How long a completed order is remembered: 28 days.
pub const RETENTION: Duration = Duration::from_secs(28 * 24 * 60 * 60);

/// The payload.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Order {
    /// The business key.
    pub order_id: String,
    /// The customer to charge.
    pub customer_id: String,
    /// The amount.
    pub amount_cents: u64,
    /// The currency.
    pub currency: String,
}

/// The work of one record.
#[derive(Clone, Copy, Debug)]
pub struct Work(Duration);

impl Work {
    /// Reads the duration of the work from the environment.
    pub fn from_env() -> Self {
        let millis = env::var(HANDLER_MS).ok().and_then(|text| text.parse().ok());
        Self(Duration::from_millis(millis.unwrap_or(0)))
    }

    /// Does the work.
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

/// An SQS event as Lambda sends it, with one record per order number. A record has 600 bytes, so 10,000 records are
/// Lambda's maximum of 6 MB.
pub fn event(orders: impl IntoIterator<Item = u64>) -> Vec<u8> {
    // A message that is delivered again was sent once, so the cache may answer it.
    static SENT: OnceLock<u64> = OnceLock::new();
    let sent = SENT.get_or_init(now_ms);
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
        // Writing to a string cannot fail.
        let _ = write!(
            records,
            r#"{{"messageId":"00000000-0000-4000-8000-{order:012x}","receiptHandle":"{order:0>76}","body":"{body}","attributes":{{"ApproximateReceiveCount":"1","SentTimestamp":"{sent}","SenderId":"AIDAIENQZJOLO23YVJ4VO","ApproximateFirstReceiveTimestamp":"{sent}"}},"messageAttributes":{{}},"md5OfBody":"e4e68fb7bd0e697a0ae8f1bb342846b3","eventSource":"aws:sqs","eventSourceARN":"arn:aws:sqs:eu-central-1:123456789012:orders","awsRegion":"eu-central-1"}}"#
        );
    }
    format!(r#"{{"Records":[{records}]}}"#).into_bytes()
}
