//! The message that comes in, and the one that goes out.

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Some pieces of an article were ordered.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct OrderPlaced {
    pub(crate) order_id: String,
    pub(crate) customer_id: String,
    pub(crate) article: String,
    pub(crate) pieces: u32,
}

/// An order that can't be reserved.
#[derive(Debug, Error, PartialEq, Eq)]
pub(crate) enum InvalidOrder {
    #[error("the order names no article")]
    Article,
    #[error("the order is for no pieces")]
    Pieces,
}

impl OrderPlaced {
    pub(crate) fn check(&self) -> Result<(), InvalidOrder> {
        if self.article.is_empty() {
            Err(InvalidOrder::Article)
        } else if self.pieces == 0 {
            Err(InvalidOrder::Pieces)
        } else {
            Ok(())
        }
    }
}

/// A message that is to be sent, as it lies in the outbox.
#[derive(Debug, Serialize)]
pub(crate) struct OutboxMessage {
    /// The same however often it is sent: its receivers know it by that.
    id: String,
    kind: &'static str,
    /// What is sent, in JSON.
    body: String,
}

impl OutboxMessage {
    pub(crate) fn about(order: &OrderPlaced) -> Result<Self, serde_json::Error> {
        Ok(Self {
            id: order.order_id.clone(),
            kind: "stock-reserved",
            body: serde_json::to_string(order)?,
        })
    }
}
