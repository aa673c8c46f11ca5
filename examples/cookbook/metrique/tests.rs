use metrique::ServiceMetrics;
use metrique::test_util::{TestEntrySink, test_entry_sink};
use serde_json::json;
use sqs_once::testing::{Bench, Event, Record};

use super::pack;

#[tokio::test]
async fn an_order_that_comes_twice_is_measured_once_and_a_failure_too() {
    let TestEntrySink { inspector, sink } = test_entry_sink();
    let _guard = ServiceMetrics::set_test_sink(sink);
    let bench = Bench::new(pack::handler());
    let sample = Event::new([Record::text(include_str!("event.json"))]);
    bench.run(&sample).await.assert_processed("m-1");
    bench.run(&sample).await.assert_duplicate("m-1");
    let empty = Event::new([&json!({ "order_id": "o-2", "parcels": 0 })]);
    bench.run(empty).await.assert_terminal("m-1");

    let measured = inspector.entries();
    let parcels: Vec<u64> = measured
        .iter()
        .map(|entry| entry.metrics["Parcels"].as_u64())
        .collect();
    assert_eq!(parcels, [3, 0]);
}
