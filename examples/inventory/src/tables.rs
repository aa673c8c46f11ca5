//! The tables and the conditional writes.

use sqs_once::HandlerError;
use sqs_once::sdk::dynamodb::types::{AttributeValue, Put, Update};
use thiserror::Error;

use crate::order::OrderPlaced;

/// The names of the tables.
#[derive(Clone, Debug)]
pub(crate) struct Tables {
    pub(crate) orders: String,
    pub(crate) stock: String,
    pub(crate) outbox: String,
    /// The pieces of an article that the stock table does not list.
    pub(crate) initial_stock: u32,
}

/// An environment variable is missing or malformed.
#[derive(Debug, Error)]
pub(crate) enum SetupError {
    #[error("{0} is not set: expected the name of a DynamoDB table")]
    NoTable(&'static str),
    #[error(
        "INITIAL_STOCK is not a number: expected the pieces of an article that is not listed, such as 0"
    )]
    InitialStock(#[source] std::num::ParseIntError),
}

impl Tables {
    pub(crate) fn from_env() -> Result<Self, SetupError> {
        let set = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        let table = |name| set(name).ok_or(SetupError::NoTable(name));
        Ok(Self {
            orders: table("ORDERS_TABLE")?,
            stock: table("STOCK_TABLE")?,
            outbox: table("OUTBOX_TABLE")?,
            initial_stock: set("INITIAL_STOCK")
                .map_or(Ok(0), |pieces| pieces.parse())
                .map_err(SetupError::InitialStock)?,
        })
    }

    /// Puts an order that does not exist yet.
    pub(crate) fn new_order(&self, order: &OrderPlaced) -> Result<Put, HandlerError> {
        let put = Put::builder()
            .table_name(&self.orders)
            .set_item(Some(serde_dynamo::to_item(order)?))
            .condition_expression("attribute_not_exists(order_id)");
        Ok(put.build()?)
    }

    /// Takes an order's pieces from the stock, if there are enough.
    pub(crate) fn less_stock(&self, order: &OrderPlaced) -> Result<Update, HandlerError> {
        let number = |pieces: u32| AttributeValue::N(pieces.to_string());
        let enough = match order.pieces <= self.initial_stock {
            true => "attribute_not_exists(pieces) OR pieces >= :ordered",
            false => "pieces >= :ordered",
        };
        let update = Update::builder()
            .table_name(&self.stock)
            .key("article", AttributeValue::S(order.article.clone()))
            .update_expression("SET pieces = if_not_exists(pieces, :initial) - :ordered")
            .condition_expression(enough)
            .expression_attribute_values(":initial", number(self.initial_stock))
            .expression_attribute_values(":ordered", number(order.pieces));
        Ok(update.build()?)
    }
}
