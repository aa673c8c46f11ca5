//! The message that comes in, and the one that goes out.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// How long a message lies in the outbox: longer than whatever sends it is ever down.
const KEPT: Duration = Duration::from_secs(14 * 24 * 60 * 60);

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
    /// When the table forgets it, in seconds since the epoch: days after it was sent.
    expires_at: u64,
}

impl OutboxMessage {
    pub(crate) fn about(order: &OrderPlaced, now: SystemTime) -> Result<Self, serde_json::Error> {
        let expires = now + KEPT;
        Ok(Self {
            id: order.order_id.clone(),
            kind: "stock-reserved",
            body: serde_json::to_string(order)?,
            expires_at: expires
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default()
                .as_secs(),
        })
    }
}
