//! The tables of orders and stock.

use sqs_once::HandlerError;
use sqs_once::sdk::dynamodb::types::{AttributeValue, Update};
use thiserror::Error;

use crate::order::OrderPlaced;

/// The names of the tables.
#[derive(Clone, Debug)]
pub(crate) struct Tables {
    pub(crate) orders: String,
    pub(crate) stock: String,
}

/// An environment variable is missing.
#[derive(Debug, Error)]
#[error("{0} is not set: expected the name of a DynamoDB table")]
pub(crate) struct NoTable(&'static str);

impl Tables {
    pub(crate) fn from_env() -> Result<Self, NoTable> {
        let table = |name| {
            let set = std::env::var(name).ok();
            set.filter(|value| !value.is_empty()).ok_or(NoTable(name))
        };
        Ok(Self {
            orders: table("ORDERS_TABLE")?,
            stock: table("STOCK_TABLE")?,
        })
    }

    /// Adds an order's pieces to the reserved pieces. Running it twice would count them twice, so this write commits
    /// together with the completion of the order's key.
    pub(crate) fn reserve(&self, order: &OrderPlaced) -> Result<Update, HandlerError> {
        let update = Update::builder()
            .table_name(&self.stock)
            .key("article", AttributeValue::S(order.article.clone()))
            .update_expression("ADD reserved :pieces")
            .expression_attribute_values(":pieces", AttributeValue::N(order.pieces.to_string()));
        Ok(update.build()?)
    }
}
