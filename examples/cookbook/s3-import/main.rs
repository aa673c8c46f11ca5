//! Imports each file that is uploaded to a bucket. One call handles all files of a batch.

use std::sync::Arc;

use object_store::{ObjectStore, ObjectStoreExt, aws::AmazonS3Builder};
use serde::de::IgnoredAny;
use sqs_once::body::S3;
use sqs_once::extract::S3Object;
use sqs_once::key::MessageKey;
use sqs_once::{Batch, BatchOutcome, Error, HandlerError, ResultExt, State};

type Bucket = Arc<dyn ObjectStore>;

/// The key is the upload: the same file can be uploaded again, and is imported again.
#[sqs_once::batch_handler(key = MessageKey::s3_event(), envelope = S3, namespace = "imports")]
async fn import(
    uploads: Batch<IgnoredAny>,
    State(bucket): State<Bucket>,
) -> Result<BatchOutcome, HandlerError> {
    let (mut outcome, mut rows) = (uploads.outcome(), Vec::new());
    for upload in &uploads {
        let object: S3Object = upload.extract().await?;
        match read(&bucket, &object).await {
            Ok(text) => rows.push((upload, text)),
            Err(error) => outcome.failed(upload, error), // only this file returns to the queue
        }
    }
    // Your effect, for example one INSERT of all rows.
    for (upload, text) in rows {
        tracing::info!(lines = text.lines().count(), "imported");
        outcome.succeeded(upload);
    }
    Ok(outcome)
}

async fn read(bucket: &Bucket, object: &S3Object) -> Result<String, HandlerError> {
    let bytes = bucket
        .get(&object.key.as_str().into())
        .await?
        .bytes()
        .await?;
    String::from_utf8(bytes.into()).terminal()
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let bucket = AmazonS3Builder::from_env().with_bucket_name(std::env::var("BUCKET")?);
    sqs_once::run(import::consumer(Arc::new(bucket.build()?))).await
}

#[cfg(test)]
mod tests;
