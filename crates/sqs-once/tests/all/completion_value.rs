//! The values that completions keep for duplicates.

use std::collections::HashMap;

use crate::support::{Bench, Mode, Order, codes, handling, json_body, orders};
use serde_json::json;
use sqs_once::{Completion, HandlerError};

#[tokio::test(start_paused = true)]
async fn a_completion_keeps_its_value_as_json_also_where_nothing_was_claimed_before() {
    for mode in Mode::BOTH {
        let handler = mode.call(orders(), async |order: Order| -> Result<_, HandlerError> {
            Ok(Completion(json!({ "number": format!("r-{}", order.id) })))
        });
        let bench = Bench::new().on(handler);
        assert_eq!(bench.run(["o-1"]).await, [""; 0]);
        let data = bench.store.item("o-1").unwrap().data.unwrap();
        assert_eq!(*data, *json!({ "number": "r-o-1" }).to_string());
    }
}

#[tokio::test(start_paused = true)]
async fn a_value_that_is_too_large_is_left_out_of_the_completion() {
    let bench = handling(async |order: Order| {
        // With two quotes, the first value has 262,144 bytes, and the second has one more.
        Completion("x".repeat(usize::try_from(order.total).unwrap()))
    });
    let sized = |id: &str, total: u32| json_body(&json!({ "id": id, "total": total }));
    let batch = [sized("fits", 262_142), sized("large", 262_143)];
    assert_eq!(bench.run(batch).await, [""; 0]);
    let kept = bench.store.item("fits").unwrap().data.unwrap();
    assert_eq!(kept.len(), 262_144);
    assert_eq!(bench.store.item("large").unwrap().data, None);
    let lines = bench.lines();
    assert_eq!(codes(&lines), "processed, processed: value-not-stored");
    let large = &lines[1];
    assert_eq!(large["level"], "WARN");
    let reason = "its result was not stored: it has 262145 bytes, at most 262144 are allowed";
    assert_eq!(large["reason"], reason);

    assert_eq!(bench.run([sized("large", 262_143)]).await, [""; 0]);
    assert_eq!(bench.outcomes(), "duplicate");
}

#[tokio::test(start_paused = true)]
async fn a_value_that_is_no_json_is_left_out_of_the_completion_and_not_shown() {
    let bench = handling(async |_: Order| Completion(HashMap::from([((1, 2), 3)])));
    assert_eq!(bench.run(["o-1"]).await, [""; 0]);
    let reason = "its result was not stored: it can't be written as JSON";
    assert_eq!(bench.line()["reason"], reason);
}
