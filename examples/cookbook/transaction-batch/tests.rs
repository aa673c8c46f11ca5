use sqs_once::testing::{Bench, Event, Record};

use super::{Ledger, keep};

fn bench() -> Bench {
    Bench::new(keep::handler(Ledger("ledger".to_owned())))
}

fn entry(id: &str) -> String {
    include_str!("event.json").replace("e-1001", id)
}

#[tokio::test]
async fn an_entry_that_comes_twice_is_kept_once() {
    let bench = bench();
    let event = Event::new(["e-1", "e-2"].map(|id| Record::text(entry(id))));
    bench.run(&event).await.assert_all_acknowledged();
    let again = bench.run(&event).await;
    again.assert_duplicate("m-1").assert_duplicate("m-2");

    let writes = bench.store().writes();
    assert_eq!(writes.len(), 2);
    assert_eq!(writes[0].put().unwrap().table_name(), "ledger");
}

#[tokio::test]
async fn an_entry_that_is_refused_stops_no_other() {
    let bench = bench();
    bench.store().fail_condition(0, 1);
    let nothing = entry("e-3").replace("1299", "0");
    let entries = [entry("e-1"), entry("e-2"), nothing];
    let answer = bench.run(Event::new(entries.map(Record::text))).await;
    answer
        .assert_failed("m-1")
        .assert_processed("m-2")
        .assert_terminal("m-3");
    assert_eq!(bench.store().writes().len(), 1);
}
