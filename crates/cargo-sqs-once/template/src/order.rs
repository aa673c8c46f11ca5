//! The message.

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A customer ordered some pieces of an article.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct OrderPlaced {
    pub(crate) order_id: String,
    pub(crate) customer_id: String,
    pub(crate) article: String,
    pub(crate) pieces: {% if effect == "postgres" %}i64{% else %}u32{% endif %},
}

/// An order that can never succeed.
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
        } else if self.pieces {% if effect == "postgres" %}<= 0{% else %}== 0{% endif %} {
            Err(InvalidOrder::Pieces)
        } else {
            Ok(())
        }
    }
}
