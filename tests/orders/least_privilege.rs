//! The orders' role may do what the function asks AWS for, and nothing else.

use std::path::Path;

use crate::permissions::{Aws, event, granted};
use crate::support::{Answer, Bench, TIMEOUT, body, run};
use serde_json::json;

#[tokio::test]
async fn the_template_grants_what_the_function_asks_for_and_nothing_else() {
    let bench = Bench::new().await;
    let aws = Aws::start(&bench.dynamodb.endpoint()).await;
    let launch = || aws.serves(bench.launch(), "OrdersDeadLetterQueue");
    bench.payments.answer("late", Answer::Later);
    bench.payments.answer("busy", Answer::Status(503));
    bench.payments.answer("refused", Answer::Status(402));

    let ids = |ids: &[&str]| ids.iter().map(|id| body(id)).collect::<Vec<_>>();
    let batches = [
        // New alone, and together.
        ids(&["a"]),
        ids(&["b", "c", "d"]),
        // Seen before, alone, together, and beside new ones.
        ids(&["a"]),
        ids(&["a", "b", "c"]),
        ids(&["a", "e"]),
        // Given up, away for a while, sent to the dead-letter queue; alone and together.
        ids(&["busy"]),
        ids(&["late"]),
        ids(&["refused"]),
        ids(&["busy", "late", "refused", "f"]),
        // The first line of JSON Lines is an object.
        vec![body("g"), json!("no order")],
    ];
    for batch in &batches {
        let batch = event("OrdersQueue", batch);
        run(launch().start().await.unwrap(), &batch).await;
    }

    // In progress elsewhere: the process dies with its claims, and another finds them.
    let held = event("OrdersQueue", &ids(&["held", "h"]));
    bench.payments.hold("held");
    let function = launch().start().await.unwrap();
    tokio::select! {
        answer = function.invoke(held.payload(), TIMEOUT) => panic!("answered: {answer:?}"),
        () = bench.payments.charged_for("held") => drop(function),
    }
    run(launch().start().await.unwrap(), &held).await;

    let template = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../template.yaml");
    assert_eq!(aws.needed(), granted(&template));
}
