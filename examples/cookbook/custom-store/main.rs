//! Keeps the keys in a store of its own, an S3 bucket: `store.rs`.

mod store;

use std::sync::Arc;

use object_store::aws::AmazonS3Builder;
use serde::Deserialize;
use sqs_once::{Consumer, Error, HandlerError, ResultExt};

use store::Bucket;

#[derive(Deserialize)]
struct OrderPlaced {
    order_id: String,
    pieces: u32,
}

#[sqs_once::handler(key = order.order_id, namespace = "shipments")]
async fn ship(order: OrderPlaced) -> Result<(), HandlerError> {
    if order.pieces == 0 {
        return Err("the order is for no pieces").terminal();
    }
    Ok(()) // your effect
}

fn consumer(bucket: Bucket) -> Consumer {
    ship::consumer().store(bucket)
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let bucket = AmazonS3Builder::from_env().with_bucket_name(std::env::var("KEYS_BUCKET")?);
    sqs_once::run(consumer(Bucket(Arc::new(bucket.build()?)))).await
}

#[cfg(test)]
mod tests;
