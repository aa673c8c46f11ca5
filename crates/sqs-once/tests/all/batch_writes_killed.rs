//! A batch handler that returns `BatchWrites`, on an embedded DynamoDB with the real SDK: killed at every request, and
//! without the answer to each, every order's effect happens exactly once.

use std::sync::Arc;

use aws_sdk_dynamodb::types::{AttributeValue, Put, Update};
use serde_json::{Value, json};
use sqs_once::handler::ClaimFirst;
use sqs_once::policy::Disposition;
use sqs_once::unstable::Simulated;
use sqs_once::{Batch, BatchWrites, Consumer, HandlerError, Writes};
use sqs_once_local::{LocalDynamoDb, TableDescription};
use tokio::sync::Notify;

use crate::support::wire::{Death, Turn, Wire};
use crate::support::{At, Order, deliver_until, dynamodb, failures, order, orders};

const NOW: u64 = 4_102_444_800_000;
const MINUTE: u64 = 60_000;

/// The first two orders are of one article, the third is sold out, and the last repeats the fourth.
const ORDERS: usize = 8;

fn ids() -> Vec<String> {
    let ids = (0..ORDERS).map(|at| match at {
        2 => "sold-out".to_owned(),
        _ => format!("o-{at}"),
    });
    ids.chain(["o-3".to_owned()]).collect()
}

fn article(id: &str) -> String {
    match id {
        "o-0" | "o-1" => "shared".to_owned(),
        id => format!("article of {id}"),
    }
}

/// Keeps each order, and counts its article. Neither could happen twice unnoticed.
async fn sell(orders: Batch<Order>) -> Result<BatchWrites, HandlerError> {
    let mut writes = orders.writes();
    for record in &orders {
        let id = &record.payload().id;
        let text = AttributeValue::S;
        let put = Put::builder().table_name("orders");
        let put = put.item("id", text(id.clone())).build()?;
        let count = Update::builder()
            .table_name("stock")
            .key("id", text(article(id)))
            .update_expression("ADD sold :one")
            .condition_expression("attribute_not_exists(is_sold_out)")
            .expression_attribute_values(":one", AttributeValue::N("1".to_owned()))
            .build()?;
        let one = Writes::new().put_item(put).update(count);
        writes.succeeded(record, one.on_conflict(|_| Disposition::Terminal));
    }
    Ok(writes)
}

struct Shop {
    dynamodb: LocalDynamoDb,
    claims_first: bool,
}

impl Shop {
    async fn new(claims_first: bool) -> Self {
        let dynamodb = dynamodb::local(&TableDescription::default()).await;
        dynamodb::create_shop(&dynamodb);
        let sold_out =
            json!({ "id": { "S": article("sold-out") }, "is_sold_out": { "BOOL": true } });
        dynamodb.put_item("stock", sold_out).unwrap();
        Self {
            dynamodb,
            claims_first,
        }
    }

    fn consumer(&self, endpoint: &str, now: u64) -> Consumer {
        let handler = match self.claims_first {
            true => orders().call_batch(ClaimFirst(sell)),
            false => orders().call_batch(sell),
        };
        let consumer = Consumer::new(handler.namespace("shop")).store(dynamodb::store(endpoint));
        consumer.with_clock(At(now))
    }

    /// Delivers all orders at this time, to another process. Returns the failures.
    async fn deliver(&self, endpoint: &str, now: u64) -> Vec<String> {
        let consumer = self.consumer(endpoint, now);
        let records = ids().into_iter().map(|id| order(&id));
        let response = deliver_until(now + MINUTE / 2, &consumer, records).await;
        failures(&response.unwrap())
    }

    /// Delivers all orders once more, after every lease has lapsed. Each was sold once.
    async fn assert_sold_once(&self, what: &str) {
        let (endpoint, later) = (self.dynamodb.endpoint(), NOW + 2 * MINUTE);
        let failed = self.deliver(&endpoint, later).await;
        assert_eq!(failed, ["m-2"], "{what}");
        let sold = |article: &str| {
            let key = json!({ "id": { "S": article } });
            let item = self.dynamodb.item("stock", key).unwrap().unwrap();
            item["sold"]["N"].as_str().map(str::to_owned)
        };
        assert_eq!(sold("shared").as_deref(), Some("2"), "{what}");
        for id in ids() {
            let expected = match &*id {
                "o-0" | "o-1" => continue,
                "sold-out" => None,
                _ => Some("1"),
            };
            assert_eq!(sold(&article(&id)).as_deref(), expected, "{id}: {what}");
        }
        let completed = |item: &Value| item["status"]["S"] == "COMPLETED";
        let table = TableDescription::default().name;
        let items = self.dynamodb.items(&table).unwrap();
        let completed = items.iter().filter(|item| completed(item)).count();
        assert_eq!(completed, ORDERS - 1);
        assert_eq!(self.dynamodb.items("orders").unwrap().len(), ORDERS - 1);
    }

    /// The number of requests of an undisturbed delivery.
    async fn requests(claims_first: bool) -> usize {
        let shop = Self::new(claims_first).await;
        let wire = Wire::to(&shop.dynamodb.endpoint()).await;
        assert_eq!(shop.deliver(&wire.endpoint(), NOW).await, ["m-2"]);
        let seen = wire.seen();
        shop.assert_sold_once("undisturbed").await;
        let transactions = seen.iter().filter(|one| *one == "TransactWriteItems");
        // The first order alone, the others with the sold-out one, and again without it.
        assert_eq!(transactions.count(), 3, "{seen:?}");
        seen.len()
    }
}

/// Whether the keys are claimed first.
const MODES: [bool; 2] = [false, true];

#[tokio::test]
async fn each_order_is_sold_once_though_the_process_dies_at_any_request() {
    for mode in MODES {
        for at in 0..Shop::requests(mode).await {
            for death in [Death::Before, Death::After] {
                let what = format!("claims first {mode}: {death:?} request {at}");
                let shop = Shop::new(mode).await;
                let wire = Wire::to(&shop.dynamodb.endpoint()).await;
                let dies = Arc::new(Notify::new());
                let mut turns = vec![Turn::Pass; at];
                turns.push(Turn::Die(death, Arc::clone(&dies)));
                turns.resize(at + 101, Turn::Hang);
                wire.next(turns);
                let endpoint = wire.endpoint();
                tokio::select! {
                    failed = shop.deliver(&endpoint, NOW) => panic!("{what}: {failed:?}"),
                    () = dies.notified() => {}
                }
                shop.assert_sold_once(&what).await;
            }
        }
    }
}

#[tokio::test]
async fn each_order_is_sold_once_though_any_answer_is_lost() {
    for mode in MODES {
        for at in 0..Shop::requests(mode).await {
            let what = format!("{mode:?}: the answer to request {at}");
            let shop = Shop::new(mode).await;
            let wire = Wire::to(&shop.dynamodb.endpoint()).await;
            wire.next(std::iter::repeat_n(Turn::Pass, at).chain([Turn::LoseAnswer]));
            assert_eq!(shop.deliver(&wire.endpoint(), NOW).await, ["m-2"], "{what}");
            shop.assert_sold_once(&what).await;
        }
    }
}
