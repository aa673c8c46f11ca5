//! The layers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use sqs_once::extract::RecordParts;
use sqs_once::handler::{Done, Next};
use sqs_once::{HandlerError, ResultExt};
use tokio::sync::Semaphore;

/// The unique ID of the role that may order: `aws iam get-role --role-name shop --query Role.RoleId`.
const SHOP: &str = "AROAIENQZJOLO23YVJ4VO";

/// Logs how long each kind of message takes.
pub(crate) async fn timed(record: RecordParts, next: Next) -> Result<Done, HandlerError> {
    let began = Instant::now();
    let outcome = next.run().await;
    let (kind, took) = (record.message().attribute("type"), began.elapsed());
    tracing::info!(
        kind,
        micros = took.as_micros() as u64,
        failed = outcome.is_err(),
        "timed"
    );
    outcome
}

/// SQS sets the sender, unlike a message attribute.
pub(crate) async fn authorised(record: RecordParts, next: Next) -> Result<Done, HandlerError> {
    let sender = record.message().system_attribute("SenderId");
    if sender.and_then(|sender| sender.split(':').next()) != Some(SHOP) {
        return Err("the sender may not order").terminal();
    }
    next.run().await
}

/// At most two messages of a tenant run at once in this environment. The others come back after five seconds.
pub(crate) async fn limited(record: RecordParts, next: Next) -> Result<Done, HandlerError> {
    /// The tenants whose messages run.
    static TENANTS: Mutex<BTreeMap<String, Weak<Semaphore>>> = Mutex::new(BTreeMap::new());
    let tenant = record.message().attribute("tenant").unwrap_or_default();
    let limit = {
        let mut tenants = TENANTS.lock().unwrap_or_else(PoisonError::into_inner);
        tenants.retain(|_, limit| limit.strong_count() > 0);
        let running = tenants.get(tenant).and_then(Weak::upgrade);
        let limit = running.unwrap_or_else(|| Arc::new(Semaphore::new(2)));
        tenants.insert(tenant.to_owned(), Arc::downgrade(&limit));
        limit
    };
    let _slot = limit.try_acquire().retry_after(Duration::from_secs(5))?;
    next.run().await
}
