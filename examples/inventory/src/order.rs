//! The incoming message and the outgoing one.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// How long a message stays in the outbox. It must exceed the longest outage of the sender.
const KEPT: Duration = Duration::from_secs(14 * 24 * 60 * 60);

/// A customer ordered some pieces of an article.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct OrderPlaced {
    pub(crate) order_id: String,
    pub(crate) customer_id: String,
    pub(crate) article: String,
    pub(crate) pieces: u32,
}

/// The order is invalid.
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

/// A message in the outbox, waiting to be sent.
#[derive(Debug, Serialize)]
pub(crate) struct OutboxMessage {
    /// A repeated send has the same ID, by which receivers recognise duplicates.
    id: String,
    kind: &'static str,
    /// The content, in JSON.
    body: String,
    /// When the table deletes the message, in seconds since the epoch: days after it was sent.
    expires_at: u64,
}

impl OutboxMessage {
    pub(crate) fn about(order: &OrderPlaced, now: SystemTime) -> Result<Self, serde_json::Error> {
        let expires = (now + KEPT).duration_since(UNIX_EPOCH);
        Ok(Self {
            id: order.order_id.clone(),
            kind: "stock-reserved",
            body: serde_json::to_string(order)?,
            expires_at: expires.unwrap_or_default().as_secs(),
        })
    }
}
