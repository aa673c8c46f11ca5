//! Every form a key can have.

use serde::Deserialize;
use sqs_once::extract::Message;
use sqs_once::key::{KeyError, KeyPart, KeyWriter, MessageKey};
use sqs_once::{BusinessKey, HandlerError};
use std::sync::Arc;

#[derive(Deserialize)]
struct OrderPlaced {
    tenant: Tenant,
    order_id: String,
    number: Option<u64>,
    tags: Vec<String>,
}

#[derive(Deserialize)]
struct Tenant {
    name: String,
    region: String,
}

impl OrderPlaced {
    fn business_key(&self) -> Result<BusinessKey, KeyError> {
        BusinessKey::new(&self.order_id)
    }
}

mod order {
    pub fn key(order: &super::OrderPlaced) -> String {
        order.order_id.clone()
    }
}

#[sqs_once::handler(key = order.tenant.name, namespace = "test")]
async fn mutable(mut order: OrderPlaced) {
    order.order_id.clear();
}

#[sqs_once::handler(key = order.tags.iter().map(String::as_str).collect::<Vec<_>>().join("/"), namespace = "test")]
async fn computed(order: OrderPlaced) {}

#[sqs_once::handler(key = format!("{}-{}", order.tenant.name, order.order_id), namespace = "test")]
async fn formatted(order: OrderPlaced) {}

#[sqs_once::handler(key = format!("{order_id}-{number:?}"), namespace = "test")]
async fn captured(
    OrderPlaced {
        order_id, number, ..
    }: OrderPlaced,
) {
}

#[sqs_once::handler(key = if order.tags[..order.tags.len()].is_empty() { "none" } else { &order.order_id }, namespace = "test")]
async fn branching(order: OrderPlaced) {}

#[sqs_once::handler(key = ((order.tenant.region, order.tenant.name), order.order_id, 1), namespace = "test")]
async fn nested(order: OrderPlaced) {}

#[sqs_once::handler(key = (name, id), namespace = "test")]
async fn deeply_destructured(
    OrderPlaced {
        tenant: Tenant { mut name, .. },
        order_id: id,
        tags,
        ..
    }: OrderPlaced,
) {
    name.push_str(&tags.concat());
    drop((name, id));
}

#[sqs_once::handler(key = order::key, namespace = "test")]
async fn function_in_a_module_with_the_payloads_name(order: OrderPlaced) {}

#[sqs_once::handler(key = OrderPlaced::business_key, namespace = "test")]
async fn fallible_function(order: OrderPlaced) -> Result<(), HandlerError> {
    drop(order);
    Ok(())
}

#[sqs_once::handler(key = |order: &OrderPlaced| order.order_id.clone(), namespace = "test")]
async fn closure(order: OrderPlaced) {}

#[sqs_once::handler(key = MessageKey::group_id(), namespace = "test")]
async fn group(_: OrderPlaced, _meta: Arc<Message>) {}

#[sqs_once::handler(key = (MessageKey::group_id(), MessageKey::json_pointer("/order_id"), OrderPlaced::business_key), namespace = "test")]
async fn several_extractors(order: OrderPlaced) {}

#[sqs_once::handler(key = (order.tenant.name, MessageKey::attribute("shop"), order.order_id, MessageKey::group_id()), namespace = "test")]
async fn payload_and_attributes(order: OrderPlaced) {}

#[sqs_once::handler(key = (sqs_once::key::MessageKey::group_id(), id), namespace = "test")]
async fn group_and_field(OrderPlaced { order_id: id, .. }: OrderPlaced) {
    drop(id);
}

const SHOP: &str = "shop";

enum Kind {
    Order,
}

impl KeyPart for Kind {
    fn write(&self, key: &mut KeyWriter) -> Result<(), KeyError> {
        match self {
            Self::Order => key.text("order"),
        }
    }
}

#[sqs_once::handler(key = (SHOP, Kind::Order, order.order_id), namespace = "test")]
async fn constants_beside_the_payload(order: OrderPlaced) {}
