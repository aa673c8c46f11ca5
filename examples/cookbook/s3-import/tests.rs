use std::sync::Arc;

use object_store::{ObjectStoreExt, memory::InMemory};
use serde_json::{Value, json};
use sqs_once::testing::{Bench, Event, Record};

use super::import;

async fn bench() -> Bench {
    let bucket = InMemory::new();
    let files: [(&str, &[u8]); 2] = [("orders.csv", b"o-1\no-2\n"), ("image.csv", &[0xff])];
    for (name, content) in files {
        bucket
            .put(&name.into(), content.to_vec().into())
            .await
            .unwrap();
    }
    Bench::new(import::handler(Arc::new(bucket)))
}

/// The sample for another file, or for another upload of the same one.
fn upload(key: &str, sequencer: &str) -> Record {
    let mut sample: Value = serde_json::from_str(include_str!("event.json")).unwrap();
    sample["Records"][0]["s3"]["object"] = json!({ "key": key, "sequencer": sequencer });
    Record::json(&sample).message_id(key)
}

#[tokio::test]
async fn a_notification_that_comes_twice_is_imported_once_and_another_upload_again() {
    let bench = bench().await;
    let sample = Event::new([Record::text(include_str!("event.json"))]);
    bench.run(&sample).await.assert_processed("m-1");
    bench.run(&sample).await.assert_duplicate("m-1");
    let uploaded_again = Event::new([upload("orders.csv", "0055AED6DCD90281E6")]);
    bench
        .run(uploaded_again)
        .await
        .assert_processed("orders.csv");
}

#[tokio::test]
async fn files_that_fail_hold_up_no_other() {
    let files = ["missing.csv", "orders.csv", "image.csv"];
    let event = Event::new(files.map(|file| upload(file, "0A")));
    bench()
        .await
        .run(event)
        .await
        .assert_failed("missing.csv")
        .assert_processed("orders.csv")
        .assert_terminal("image.csv")
        .assert_retried(["missing.csv", "image.csv"]);
}
