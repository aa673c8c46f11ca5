//! Paths of messages whose body is in S3.

use serde_json::json;
use sqs_once::Consumer;
use sqs_once::large_messages::LargeMessages;

use crate::no_secrets::world::{World, order};
use crate::support::SECOND;
use crate::support::s3::{S3, Turn};

/// A consumer of bodies in S3, which deletes them.
fn consumer(world: &World, s3: &S3) -> Consumer {
    let settings = LargeMessages::in_bucket("bodies").client(s3.client());
    let settings = settings.max_size(1000).delete_acknowledged();
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

/// Handles a record whose body can be fetched. `deleting` is what follows.
async fn fetched(world: World, deleting: Turn) {
    let s3 = S3::turns([Turn::Do, deleting]);
    s3.put("bodies/canary-object", order("a"));
    world
        .invoke(&consumer(&world, &s3), [pointer("bodies")])
        .await;
}

pub(crate) async fn not_deleted() {
    for deleting in [
        Turn::Refuse(403, "AccessDenied"),
        Turn::RefuseEach("AccessDenied"),
        Turn::LoseAnswer,
    ] {
        fetched(World::new(), deleting).await;
    }
}

pub(crate) async fn not_deleted_in_time() {
    let mut world = World::new();
    world.timeout = 3 * SECOND;
    fetched(world, Turn::Hang).await;
}
