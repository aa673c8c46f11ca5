//! Data that handlers record with their success.

use crate::support::{Bench, Order, event, order, outcomes};
use serde::Serialize;
use serde_json::json;
use sqs_once::policy::Mode;
use sqs_once::{HandlerError, Recorded};

#[derive(Serialize)]
struct Receipt {
    number: String,
}

#[tokio::test(start_paused = true)]
async fn a_result_is_kept_as_json_with_the_completion() {
    let bench = Bench::new();
    let consumer = bench.consumer(
        sqs_once::consumer::<Order>()
            .key(|order: &Order| order.id.clone())
            .handler(
                async |order: Order| -> Result<Recorded<Receipt>, HandlerError> {
                    Ok(Recorded(Receipt {
                        number: format!("r-{}", order.id),
                    }))
                },
            ),
    );
    assert!(
        bench
            .invoke(&consumer, event([order("o-1")]))
            .await
            .is_empty()
    );
    let data = bench.store.item("o-1").unwrap().data.unwrap();
    assert_eq!(*data, *json!({ "number": "r-o-1" }).to_string());
}

#[tokio::test(start_paused = true)]
async fn a_result_is_kept_where_nothing_was_claimed_before() {
    let bench = Bench::new();
    let recording = sqs_once::consumer::<Order>()
        .key(|order: &Order| order.id.clone())
        .mode(Mode::RecordAfter)
        .handler(async |_: Order| Recorded("done"));
    bench
        .invoke(&bench.consumer(recording), event([order("o-1")]))
        .await;
    let data = bench.store.item("o-1").unwrap().data.unwrap();
    assert_eq!(&*data, "\"done\"");
}

#[tokio::test(start_paused = true)]
async fn a_result_that_is_too_large_is_left_out_and_the_effect_is_still_recorded() {
    let bench = Bench::new();
    let consumer = bench.consumer(
        sqs_once::consumer::<Order>()
            .key(|order: &Order| order.id.clone())
            .handler(async |order: Order| {
                // With two quotes, the first value has 262,144 bytes, and the second has one more.
                Recorded("x".repeat(usize::try_from(order.total).unwrap()))
            }),
    );
    let sized = |id: &str, total: u32| {
        crate::support::body(&json!({ "id": id, "total": total }).to_string())
    };
    let batch = [sized("fits", 262_142), sized("large", 262_143)];
    assert!(bench.invoke(&consumer, event(batch)).await.is_empty());
    assert_eq!(
        bench.store.item("fits").unwrap().data.unwrap().len(),
        262_144
    );
    assert_eq!(bench.store.item("large").unwrap().data, None);

    let lines = bench.log.take("sqs_once::record");
    let large = lines
        .iter()
        .find(|line| line["message_id"] == "m-1")
        .unwrap();
    assert_eq!(large["level"], "WARN");
    assert_eq!(
        large["reason"],
        "its result was not recorded: it has 262145 bytes, at most 262144 are kept"
    );

    let batch = [sized("large", 262_143)];
    assert!(bench.invoke(&consumer, event(batch)).await.is_empty());
    assert_eq!(bench.outcomes(), outcomes([("m-0", "duplicate")]));
}

#[tokio::test(start_paused = true)]
async fn a_result_that_is_no_json_is_left_out_and_not_shown() {
    let bench = Bench::new();
    let consumer = bench.consumer(
        sqs_once::consumer::<Order>()
            .key(|order: &Order| order.id.clone())
            .handler(async |_: Order| Recorded(std::collections::HashMap::from([((1, 2), 3)]))),
    );
    assert!(
        bench
            .invoke(&consumer, event([order("o-1")]))
            .await
            .is_empty()
    );
    let lines = bench.log.take("sqs_once::record");
    assert_eq!(
        lines[0]["reason"],
        "its result was not recorded: it can't be written as JSON"
    );
}
