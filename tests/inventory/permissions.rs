//! The role may do what the function asks AWS for, and nothing else.

use std::path::Path;

use serde_json::{Value, json};

use crate::bench::{Bench, TIMEOUT};
use crate::recorded::{Aws, event, granted};

fn order(id: &str, pieces: u32) -> Value {
    json!({ "order_id": id, "customer_id": "c-7", "article": "mug-blue", "pieces": pieces })
}

#[tokio::test]
async fn the_template_grants_what_the_function_asks_for_and_nothing_else() {
    let bench = Bench::new().await;
    let aws = Aws::start(&bench.dynamodb.endpoint()).await;
    let batches = [
        vec![order("a", 1), order("b", 1)],
        // Seen before, and seen by its own conditions alone.
        vec![order("a", 1), order("a", 1)],
        // More than there are.
        vec![order("c", 100)],
        vec![json!("no order")],
    ];
    let run = async |batch: &[Value]| {
        let launch = aws.serves(bench.launch(), "InventoryDeadLetterQueue");
        let function = launch.start().await.unwrap();
        let event = event("InventoryQueue", batch);
        function.invoke(event.payload(), TIMEOUT).await.unwrap();
        function.stop().await
    };
    for batch in &batches {
        run(batch).await;
    }

    // An item that a version before this one, which claimed first, has left in progress.
    let mut item = bench.dynamodb.items("IdempotencyTable").unwrap()[0].clone();
    item["status"] = json!({ "S": "INPROGRESS" });
    item["in_progress_expiration"] = json!({ "N": "99999999999999" });
    bench.dynamodb.put_item("IdempotencyTable", item).unwrap();
    run(&[order("a", 1), order("b", 1)]).await;

    let template = Path::new(env!("CARGO_MANIFEST_DIR")).join("template.yaml");
    assert_eq!(aws.needed(), granted(&template));
}
