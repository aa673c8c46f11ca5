//! Paths of messages whose body is in S3.

use serde_json::json;
use sqs_once::Consumer;
use sqs_once::large_messages::LargeMessages;

use crate::no_secrets::world::World;
use crate::support::s3::{S3, Turn};

const QUEUE: &str = "arn:aws:sqs:eu-central-1:123456789012:orders";

/// A consumer of bodies in S3.
fn consumer(world: &World, s3: &S3) -> Consumer {
    let settings = LargeMessages::for_queue(QUEUE, "bodies/*").client(s3.client());
    let settings = settings.max_size(1000);
    println!("{settings:?}");
    world.recording().large_messages(settings)
}

/// A pointer to an object whose key is a secret.
fn pointer(bucket: &str) -> String {
    let place = json!({ "s3BucketName": bucket, "s3Key": "canary-object" });
    json!(["software.amazon.payloadoffloading.PayloadS3Pointer", place]).to_string()
}

pub(crate) async fn not_fetched() {
    for turn in [
        Turn::Do,
        Turn::Refuse(403, "AccessDenied"),
        Turn::Refuse(503, "SlowDown"),
        Turn::LoseAnswer,
        Turn::Break(b"canary-card"),
        Turn::Parts(vec![Some(b"canary-card"), None]),
        Turn::Parts(vec![Some(b"canary-card \xff")]),
        Turn::Parts(vec![Some(&[b'c'; 1001])]),
    ] {
        let world = World::new();
        let consumer = consumer(&world, &S3::always(turn));
        let malformed = pointer("bodies").replace("s3Key", "canary-key");
        let bodies = [&pointer("bodies"), &pointer("other"), &malformed];
        world.invoke(&consumer, bodies).await;
    }
}
