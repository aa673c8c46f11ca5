//! Reads orders in Protobuf. SQS carries text, so the producer encodes the bytes in base64.

use sqs_once::body::{Base64, Decode, DecodeError};
use sqs_once::extract::Message;
use sqs_once::{Error, HandlerError, ResultExt};

/// As `prost-build` generates it from
/// `message OrderPlaced { string order_id = 1; uint64 amount_cents = 2; }`.
#[derive(Clone, PartialEq, prost::Message)]
struct OrderPlaced {
    #[prost(string, tag = "1")]
    order_id: String,
    #[prost(uint64, tag = "2")]
    amount_cents: u64,
}

#[derive(Clone, Copy)]
struct Protobuf;

impl<T: prost::Message + Default> Decode<T> for Protobuf {
    fn decode(&self, body: &str, message: &Message) -> Result<T, DecodeError> {
        let bytes = Base64.decode(body, message)?;
        T::decode(bytes.as_slice()).map_err(|_| DecodeError::other("the body is not this message"))
    }
}

/// Protobuf reads a missing id as an empty text. A blank key makes the message terminal.
#[sqs_once::handler(key = order.order_id, decode = Protobuf, namespace = "charges")]
async fn charge(order: OrderPlaced) -> Result<(), HandlerError> {
    if order.amount_cents == 0 {
        return Err("the amount is zero").terminal();
    }
    tracing::info!(order.amount_cents, "charged"); // your effect
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    sqs_once::run(charge::consumer()).await
}

#[cfg(test)]
mod tests;
