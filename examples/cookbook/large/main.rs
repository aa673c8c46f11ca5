//! Publishes each catalogue once. The producer puts large bodies into S3, with one of Amazon's Extended Client Libraries.

use serde::Deserialize;
use sqs_once::body::LargeMessages;
use sqs_once::{Consumer, Error, HandlerError};

#[derive(Deserialize)]
struct Catalogue {
    catalogue_id: String,
    items: Vec<String>,
}

/// The key and the payload are those of the body in S3.
#[sqs_once::handler(key = catalogue.catalogue_id, namespace = "catalogues")]
async fn publish(catalogue: Catalogue) -> Result<(), HandlerError> {
    tracing::info!(items = catalogue.items.len(), "published"); // your effect
    Ok(())
}

/// A batch takes memory for 2 × 4 bodies of this size.
fn consumer(bodies: LargeMessages) -> Consumer {
    publish::consumer()
        .large_messages(bodies.max_size(16 * 1024 * 1024))
        .concurrency(4)
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    sqs_once::run(consumer(LargeMessages::from_env())).await
}

#[cfg(test)]
mod tests;
