//! Adds the points of each order to its customer, exactly once: the write and the key commit in one DynamoDB transaction.

use serde::Deserialize;
use sqs_once::policy::Disposition;
use sqs_once::sdk::dynamodb::types::{AttributeValue, Update};
use sqs_once::{Error, HandlerError, State, Writes};

#[derive(Deserialize)]
struct OrderPaid {
    order_id: String,
    customer_id: String,
    points: u32,
}

/// The name of the table.
#[derive(Clone)]
struct Customers(String);

/// The handler computes the write. The consumer sends it, with the completion of the key.
#[sqs_once::handler(key = order.order_id, namespace = "points")]
async fn add_points(
    order: OrderPaid,
    State(customers): State<Customers>,
) -> Result<Writes, HandlerError> {
    let add = Update::builder()
        .table_name(customers.0)
        .key("customer_id", AttributeValue::S(order.customer_id))
        .update_expression("ADD points :points")
        .condition_expression("attribute_exists(customer_id)")
        .expression_attribute_values(":points", AttributeValue::N(order.points.to_string()))
        .build()?;
    // Without that customer, no retry helps.
    Ok(Writes::new()
        .update(add)
        .on_conflict(|_| Disposition::Terminal))
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let customers = Customers(std::env::var("CUSTOMERS_TABLE")?);
    sqs_once::run(add_points::consumer(customers)).await
}

#[cfg(test)]
mod tests;
