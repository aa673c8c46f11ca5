{%- if effect == "elsewhere" -%}
//! Ships every order in a queue once.
{%- else -%}
//! Reserves ordered pieces once.
{%- endif %}
//!
//! A message is `{"order_id": "o-1001", "customer_id": "c-7", "article": "mug-blue", "pieces": 2}`
{%- if source == "sns" %}, in SNS's envelope{% elsif source == "bus" %}, in the bus's envelope{% endif %}.

mod order;
{%- if effect == "dynamodb" %}
mod tables;
{%- endif %}
#[cfg(test)]
mod tests;
{%- if effect == "elsewhere" %}
mod warehouse;
{%- endif %}

{% if source == "sns" -%}
use sqs_once::body::Sns;
{% elsif source == "bus" -%}
use sqs_once::body::EventBus;
{% endif -%}
{% if effect == "postgres" -%}
use sqs_once::{Error, HandlerError, ResultExt};
use sqs_once_postgres::{PostgresStore, Transaction, without_values};
{%- elsif effect == "dynamodb" -%}
use sqs_once::{Error, HandlerError, ResultExt, State, Writes};
{%- else -%}
use sqs_once::{Error, HandlerError, IdempotencyToken, ResultExt, State};
{%- endif %}

use order::OrderPlaced;
{%- if effect == "dynamodb" %}
use tables::Tables;
{%- elsif effect == "elsewhere" %}
use warehouse::Warehouse;
{%- endif %}

{% capture settings -%}
key = order.order_id, namespace = "{{ project_name }}"{% if source == "sns" %}, envelope = Sns{% elsif source == "bus" %}, envelope = EventBus{% endif %}
{%- endcapture -%}
{% if effect == "postgres" -%}
/// Stores an order, reserves its pieces and completes its key in one transaction.
#[sqs_once::handler({{ settings }})]
async fn reserve(order: OrderPlaced, tx: Transaction) -> Result<(), HandlerError> {
    order.check().terminal()?; // a retry can't fix it
    let keep =
        "INSERT INTO orders (order_id, customer_id, article, pieces) VALUES ($1, $2, $3, $4)";
    tx.execute(
        keep,
        &[
            &order.order_id,
            &order.customer_id,
            &order.article,
            &order.pieces,
        ],
    )
    .await
    .map_err(without_values)?;
    let reserve = "INSERT INTO stock (article, reserved) VALUES ($1, $2)
                   ON CONFLICT (article) DO UPDATE SET reserved = stock.reserved + excluded.reserved";
    tx.execute(reserve, &[&order.article, &order.pieces])
        .await
        .map_err(without_values)?;
    Ok(())
}
{%- elsif effect == "dynamodb" -%}
/// Stores an order, reserves its pieces and completes its key in one transaction.
#[sqs_once::handler({{ settings }})]
async fn reserve(order: OrderPlaced, State(tables): State<Tables>) -> Result<Writes, HandlerError> {
    order.check().terminal()?; // a retry can't fix it
    Ok(Writes::new()
        .put(&tables.orders, &order)
        .update(tables.reserve(&order)?))
}
{%- else -%}
/// Requests the shipment of one order.
#[sqs_once::handler({{ settings }})]
async fn ship(
    order: OrderPlaced,
    token: IdempotencyToken,
    State(warehouse): State<Warehouse>,
) -> Result<(), HandlerError> {
    order.check().terminal()?; // a retry can't fix it
    warehouse.ship(&order, &token).await
}
{%- endif %}

#[tokio::main]
async fn main() -> Result<(), Error> {
{%- if effect == "postgres" %}
    let store = PostgresStore::from_env()?; // DATABASE_URL
    sqs_once::run(reserve::consumer().store(store)).await
{%- elsif effect == "dynamodb" %}
    let tables = Tables::from_env()?;
    sqs_once::run(reserve::consumer(tables)).await
{%- else %}
    sqs_once::run(ship::consumer(Warehouse::default())).await
{%- endif %}
}
