//! Batch handlers that return `BatchWrites`: each record's writes commit with its key's completion, many in a request.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use sqs_once::consumer::{Cache, Together};
use sqs_once::handler::{BatchHandlerFn, ClaimFirst};
use sqs_once::policy::{Disposition, PayloadMismatch};
use sqs_once::store::Status;
use sqs_once::testing::{self, Operation};
use sqs_once::{Batch, BatchHandler, BatchWrites, HandlerError, ResultExt, Writes};

use crate::support::process::{SINGLE, has};
use crate::support::{
    Calls, Notes, Order, SECOND, Tested, assert_ends_as_said, codes, ends, handling_batches, ids,
    in_group, in_groups, json_body, keys, several,
};
use crate::transactional::update;

/// Ends each record as its order requests: `bad…` fail, `hopeless…` are terminal, `down…` lack the service "payments", and
/// `unsaid…` are not reported. The others update a table with their name, and a conflict of `sold-out…` is terminal.
fn writes(orders: &Batch<Order>) -> BatchWrites {
    let mut writes = orders.writes();
    for record in orders {
        let id = &record.payload().id;
        let one = Writes::new().update(update(id)).completion(id);
        match id.split('-').next() {
            Some("bad") => writes.failed(record, "no luck"),
            Some("hopeless") => writes.ended(record, Err(HandlerError::terminal("no use"))),
            Some("down") => {
                let refused = Err::<Writes, _>(io::Error::other("refused"));
                writes.ended(record, refused.unavailable("payments"));
            }
            Some("unsaid") => {}
            Some("sold") => {
                writes.succeeded(record, one.on_conflict(|_| Disposition::Terminal));
            }
            _ => writes.ended(record, Ok::<_, HandlerError>(one)),
        }
    }
    writes
}

fn setup() -> (Tested<Together>, Calls) {
    let (calls, notes) = Notes::pair();
    (handling_batches(writing(notes)), calls)
}

fn claiming() -> (Tested<Together>, Calls) {
    let (calls, notes) = Notes::pair();
    (handling_batches(ClaimFirst(writing(notes))), calls)
}

fn writing(notes: Calls) -> impl BatchHandlerFn<Order, (), ()> {
    move |orders: Batch<Order>| {
        notes.add((Duration::ZERO, ids(&orders)));
        async move { Ok::<_, HandlerError>(writes(&orders)) }
    }
}

fn setup_with(settings: impl FnOnce(BatchHandler) -> BatchHandler) -> (Tested<Together>, Calls) {
    let (bench, calls) = setup();
    (bench.with(settings), calls)
}

#[tokio::test(start_paused = true)]
async fn the_effects_of_a_call_commit_together_without_a_claim_or_alone_where_requests_are_single()
{
    let (bench, calls) = setup();
    assert_eq!(bench.run(keys(130)).await, [""; 0]);
    let requests = match has!(&[SINGLE]) {
        true => vec![("commit", 1); 130],
        false => vec![("commit_all", 100), ("commit_all", 30)],
    };
    assert_eq!(bench.store.take_calls(), requests);
    assert_eq!(calls.ids()[0].len(), 130);
    assert_eq!(bench.store.written(), keys(130).collect::<Vec<_>>());
    let item = bench.store.item("k7").unwrap();
    assert_eq!(item.status, Status::Completed);
    assert_eq!(item.data, Some("\"k7\"".into()));
}

#[tokio::test(start_paused = true)]
async fn each_record_ends_as_the_handler_says_and_only_successes_are_written() {
    let (bench, _) = setup();
    for success in ["processed", "duplicate"] {
        assert_ends_as_said(&bench, success).await;
        assert_eq!(bench.store.take_calls(), [("commit_all", 2)]);
        assert_eq!(bench.store.written(), ["a", "b"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_condition_that_is_not_met_isolates_its_record_and_the_others_commit() {
    for setup in [setup, claiming] {
        let (bench, _) = setup();
        bench.store.fail_condition(0, 2);
        let failed = bench.run(["a", "sold-out", "b", "c"]).await;
        assert_eq!(failed, ["m-0", "m-1"]);
        let said = "its condition was not met";
        let lines = bench.lines();
        let unmet = "failed: condition-not-met, terminal: condition-not-met";
        assert_eq!(codes(&lines[..2]), unmet);
        assert!(lines[..2].iter().all(|line| line["reason"].contains(said)));
        assert_eq!(bench.store.written(), ["b", "c"]);
        // The key is free at once.
        assert_eq!(bench.run(["a", "sold-out"]).await, [""; 0]);
        assert_eq!(bench.store.written(), ["b", "c", "a", "sold-out"]);
    }
}

#[tokio::test(start_paused = true)]
async fn writes_that_can_not_be_sent_end_their_record_alone() {
    let bench = handling_batches(async |orders: Batch<Order>| {
        let mut all = orders.writes();
        for record in &orders {
            let id = &record.payload().id;
            let count = if id.starts_with("twice") { 2 } else { 1 };
            let one = (0..count).fold(Writes::new(), |one, _| one.update(update(id)));
            all.succeeded(record, one);
        }
        all
    });
    assert_eq!(bench.run(["a", "twice", "b"]).await, ["m-1"]);
    assert_eq!(bench.outcomes(), "processed terminal processed");
    assert_eq!(bench.store.written(), ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn duplicates_in_the_batch_and_of_earlier_batches_have_one_effect() {
    let (bench, calls) = setup();
    assert_eq!(bench.run(["a", "b", "a"]).await, [""; 0]);
    assert_eq!(bench.outcomes(), "processed processed duplicate");
    // A live claim of another worker is not acknowledged, and the others commit.
    bench.foreign("e", Status::InProgress, 60 * SECOND);
    assert_eq!(bench.run(["c", "a", "d", "c", "e"]).await, ["m-4"]);
    let expected = "processed duplicate processed duplicate in_progress";
    assert_eq!(bench.outcomes(), expected);
    assert_eq!(bench.store.written(), ["a", "b", "c", "d"]);
    // Without a claim, the handler receives the earlier duplicate.
    assert_eq!(calls.ids(), [vec!["a", "b"], vec!["c", "a", "d", "e"]]);

    let caching = || {
        let (bench, calls) = setup();
        (bench.with_consumer(|it| it.cache(Cache::new(10))), calls)
    };
    for setup in [&claiming as &dyn Fn() -> _, &caching] {
        let (bench, calls) = setup();
        bench.run(["a"]).await;
        bench.run(["a", "b"]).await;
        assert_eq!(calls.ids(), [["a"], ["b"]]);
        assert_eq!(bench.store.written(), ["a", "b"]);
    }
}

#[tokio::test(start_paused = true)]
async fn commits_without_an_answer_are_sent_again_as_they_were_and_happen_once() {
    let (bench, calls) = setup();
    bench.store.lose_answer("commit", 3);
    assert_eq!(bench.run(["a", "b", "c"]).await, [""; 0]);
    assert_eq!(bench.store.take_calls(), [("commit_all", 3); 4]);
    assert_eq!(bench.store.written(), ["a", "b", "c"]);
    let commits = bench.store.take_commits();
    assert!(commits.chunks(3).all(|group| *group == commits[..3]));
    assert_eq!(calls.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_writes_of_a_fifo_group_commit_in_order_and_those_of_other_groups_beside_them() {
    let (bench, _) = setup();
    assert_eq!(bench.run(in_groups("g/a h/b g/c h/d g/e")).await, [""; 0]);
    assert_eq!(bench.store.written(), ["a", "b", "c", "d", "e"]);
    let calls = bench.store.take_calls();
    let are_commits = calls.iter().all(|call| call.0.starts_with("commit"));
    let largest = calls.iter().map(|call| call.1).max();
    assert!(are_commits && largest == Some(2), "{calls:?}");
}

#[tokio::test(start_paused = true)]
async fn nothing_commits_behind_a_failed_record_of_its_fifo_group() {
    let after_failed = "an earlier message of its group failed";
    for setup in [setup, claiming] {
        let (bench, _) = setup();
        let failed = bench.run(in_groups("g/a g/bad-1 g/b h/c")).await;
        assert_eq!(failed, ["m-1", "m-2"]);
        assert_eq!(bench.store.written(), ["a", "c"]);
        assert_eq!(ends(bench.lines())[2].1, after_failed);

        // The first record that DynamoDB refuses stops its group too.
        bench.store.fail_condition(0, 1);
        let failed = bench.run(in_groups("g/d g/e h/f g/g")).await;
        assert_eq!(failed, ["m-0", "m-1", "m-3"]);
        assert_eq!(bench.store.written(), ["a", "c", "f"]);
        let lines = ends(bench.lines());
        assert_eq!([&*lines[1].1, &*lines[3].1], [after_failed; 2]);

        // The keys are free, and a duplicate lets its group go on.
        assert_eq!(bench.run(in_groups("g/e h/f h/i")).await, [""; 0]);
        assert_eq!(bench.outcomes(), "processed duplicate processed");
        assert_eq!(bench.store.written(), ["a", "c", "f", "e", "i"]);
    }
    // The records behind one that lacks its dependency wait for it, too.
    let (bench, _) = setup_with(|it| it.depends_on("payments"));
    let failed = bench.run(in_groups("g/down-1 g/b")).await;
    assert_eq!(failed, ["m-0", "m-1"]);
    let behind = format!("unavailable: payments: {after_failed}");
    assert_eq!(ends(bench.lines())[1].1, behind);
}

#[tokio::test(start_paused = true)]
async fn what_stands_behind_a_copy_in_another_group_waits_for_its_next_delivery() {
    let (bench, _) = setup();
    assert_eq!(bench.run(in_groups("g/a h/a h/b")).await, ["m-2"]);
    assert_eq!(bench.run(in_groups("h/b")).await, [""; 0]);
    assert_eq!(bench.store.written(), ["a", "b"]);

    // A failed record returns the one after it, and that one's copy.
    for batch in ["g/x-1 g/c h/c h/d", "g/bad-1 g/c h/c h/d"] {
        bench.store.fail_condition(0, 1);
        let all = ["m-0", "m-1", "m-2", "m-3"];
        assert_eq!(bench.run(in_groups(batch)).await, all);
    }
    assert_eq!(bench.store.written(), ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn a_group_stops_at_another_payload_of_a_key_that_the_batch_claims() {
    let (bench, _) = setup_with(|it| it.payload_mismatch(PayloadMismatch::Retry));
    let batch = [order("a", 1), order("a", 2), order("b", 0)].map(|it| in_group("g", it));
    assert_eq!(bench.run(batch).await, ["m-1", "m-2"]);
    assert_eq!(bench.store.written(), ["a"]);
}

fn order(id: &str, total: u64) -> Value {
    json_body(&json!({ "id": id, "total": total }))
}

#[tokio::test(start_paused = true)]
async fn another_payload_behind_a_mismatch_ends_after_the_call_too() {
    let (bench, _) = setup();
    bench.run([order("a", 1)]).await;
    bench.lines();
    let begun = bench.elapsed();
    // The first refusal tells for which payload the key was completed.
    let others = [order("a", 2), order("a", 3)];
    assert_eq!(bench.run(others).await, ["m-0", "m-1"]);
    assert_eq!(bench.outcomes(), "terminal terminal");
    assert_eq!(bench.elapsed(), begun);
    assert_eq!(bench.store.written(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn the_writes_of_another_batch_fail_every_record() {
    let kept: Arc<Mutex<Option<BatchWrites>>> = Arc::default();
    let bench = handling_batches(move |orders: Batch<Order>| {
        let mine = writes(&orders);
        let theirs = kept.lock().unwrap().replace(writes(&orders));
        async move { theirs.unwrap_or(mine) }
    });
    assert_eq!(bench.run(["a"]).await, [""; 0]);
    assert_eq!(bench.run(["b"]).await, ["m-0"]);
    assert_eq!(bench.store.written(), ["a"]);
}

/// The macro accepts the return type.
#[sqs_once::batch_handler(key = order.id, namespace = "test")]
async fn reserve(orders: Batch<Order>) -> Result<BatchWrites, HandlerError> {
    Ok(writes(&orders))
}

#[tokio::test(start_paused = true)]
async fn the_testing_kit_keeps_the_writes_of_a_batch_handler() {
    let bench = testing::Bench::new(reserve::consumer());
    bench.store().fail_condition(0, 1);
    let answer = bench.run(several(["a", "b", "c"])).await;
    answer.assert_failed("m-1");
    answer.assert_processed("m-2").assert_processed("m-3");
    assert_eq!(bench.store().writes().len(), 2);
    assert_eq!(bench.store().requests(), 1);

    bench.store().lose_answers(Operation::Complete, 1);
    let answer = bench.run(several(["d", "e"])).await;
    answer.assert_processed("m-1").assert_processed("m-2");
    assert_eq!(bench.store().writes().len(), 4);

    let event = several(["f", "g"]);
    bench.run_and_crash(&event).await;
    assert_eq!(bench.store().writes().len(), 4);
    let answer = bench.run(&event).await;
    answer.assert_processed("m-1").assert_processed("m-2");
    assert_eq!(bench.store().writes().len(), 6);
}
