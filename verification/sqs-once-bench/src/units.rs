//! The request units of each kind of message. The stand-in counts them, with consumers in this process. The results do
//! not depend on the clock.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use aws_lambda_events::event::sqs::SqsEvent;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{BehaviorVersion, Config, Credentials, Region};
use lambda_runtime::{Context, LambdaEvent};
use serde::Serialize;
use sqs_once::consumer::Cache;
use sqs_once::handler::RecordAfter;
use sqs_once::key::MessageKey;
use sqs_once::policy::MissingKey;
use sqs_once::{Consumer, DynamoDbStore, Handler, HandlerError};
use tower_service::Service;

use crate::contract::{self, Order};
use crate::process::Orders;
use crate::table::{Latency, Table, Units};

/// The number of records in a batch, if more than one.
const RECORDS: usize = 100;
/// The number of new keys that share a request with a duplicate: a request takes 25 keys.
const OTHERS: usize = 24;
/// The timeout of a batch, in milliseconds.
const TIME: u64 = 60_000;

/// The consumption of a kind of record.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Consumption {
    /// The kind of record.
    pub record: &'static str,
    /// The request units of each record.
    pub units: Units,
}

/// What each kind of record consumes with sqs-once.
pub fn consumptions() -> Result<Vec<Consumption>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(count())
}

async fn count() -> Result<Vec<Consumption>> {
    let table = Table::start(Latency::default());
    let table = table.context("the stand-in for DynamoDB can't be started")?;
    let store = DynamoDbStore::new(client(&table), "units");
    let keyed = || Handler::json::<Order>().key(|order: &Order| order.order_id.clone());
    let consumer =
        |handler: Handler| Consumer::new(handler.namespace("bench")).store(store.clone());
    let done = async |_: Order| Ok::<(), HandlerError>(());
    let plain = consumer(keyed().call(done));
    let cached = consumer(keyed().call(done)).cache(Cache::new(RECORDS));
    let after = consumer(keyed().call(RecordAfter(done)));
    let failing = async |_: Order| Err::<(), _>(HandlerError::from("not yet"));
    let failing = consumer(keyed().call(failing));
    let keyless = Handler::json::<Order>().key(MessageKey::attribute("none"));
    let keyless = keyless
        .call(done)
        .missing_key(MissingKey::ProcessUnprotected);
    let keyless = consumer(keyless);

    let mut orders = Orders::default();
    let (one, many) = (orders.batch(&[], 1, 1), orders.batch(&[], RECORDS, 1));
    let twice = orders.batch(&[], RECORDS, 2);
    // Order 0 is the order of `one`, which is completed by then.
    let (mixed, others) = (orders.batch(&[0], OTHERS, 1), orders.batch(&[], OTHERS, 1));
    let mut fresh = || orders.batch(&[], RECORDS, 1);
    let new = consumed(&table, plain.clone(), &many).await?;
    let alone = consumed(&table, plain.clone(), &one).await?;
    // The first copies consume as much as new keys.
    let pairs = consumed(&table, plain.clone(), &twice).await?;
    let mixed = consumed(&table, plain.clone(), &mixed).await?;
    let others = consumed(&table, plain.clone(), &others).await?;
    // This first call fills the cache.
    consumed(&table, cached.clone(), &many).await?;
    let after = consumed(&table, after, &fresh()).await?;
    let failed = consumed(&table, failing, &fresh()).await?;
    let duplicates = consumed(&table, plain.clone(), &many).await?;
    let duplicate = consumed(&table, plain, &one).await?;
    let cached = consumed(&table, cached, &many).await?;
    let keyless = consumed(&table, keyless, &fresh()).await?;
    let among = "duplicate, the only one among 24 new keys";
    let all = [
        ("new key", RECORDS, new),
        ("new key, alone in its batch", 1, alone),
        ("new key, recorded after the work", RECORDS, after),
        ("failed attempt", RECORDS, failed),
        ("duplicate in a batch", RECORDS, duplicates),
        (among, 1, mixed - others),
        ("duplicate, alone in its batch", 1, duplicate),
        ("duplicate, cached", RECORDS, cached),
        ("second copy in one batch", RECORDS, pairs - new),
        ("no key, unprotected", RECORDS, keyless),
    ];
    let each = |(record, records, units): (_, usize, Units)| Consumption {
        record,
        units: units.each_of(records),
    };
    Ok(all.map(each).to_vec())
}

/// The consumption of a batch.
async fn consumed(table: &Table, mut consumer: Consumer, event: &Arc<[u8]>) -> Result<Units> {
    let before = table.counts();
    let event: SqsEvent =
        serde_json::from_slice(event).context("the benchmark's own event can't be read")?;
    let mut context = Context::default();
    context.deadline = contract::now_ms() + TIME;
    let answer = consumer.call(LambdaEvent::new(event, context)).await;
    answer.context("sqs-once refused the event")?;
    Ok(table.counts().since(&before).units)
}

/// A client of the stand-in.
pub fn client(table: &Table) -> Client {
    let config = Config::builder()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .endpoint_url(table.endpoint())
        .region(Region::new("eu-central-1"))
        .credentials_provider(Credentials::new("local", "local", None, None, "bench"))
        .http_client(aws_smithy_http_client::Builder::new().build_http());
    Client::from_conf(config.build())
}
