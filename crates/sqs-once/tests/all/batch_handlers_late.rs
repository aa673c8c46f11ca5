//! Batch handlers after a slow request: records that are ready run, with half of the batch's time, and the rest fail.

use std::time::Duration;

use crate::support::{Calls, SECOND, Tested, grouped, in_groups, noting_batches};
use sqs_once::hook::RecordEnd;
use tokio::time::sleep;

/// One claim request takes this time. All requests but the last carry 25 claims.
fn noting(is_last: bool, time: Duration) -> (Tested, Calls) {
    let (bench, calls) = noting_batches(Duration::ZERO);
    bench
        .store
        .claims_take(move |claims| match (claims.len() < 25) == is_last {
            true => time,
            false => Duration::ZERO,
        });
    (bench, calls)
}

/// Half of 30 s, minus the deadline margin of 1 s.
const HALF: Duration = Duration::from_millis(14_500);

#[tokio::test(start_paused = true)]
async fn a_claim_without_an_answer_holds_the_others_up_for_half_of_the_time_and_a_late_one_is_released()
 {
    for time in [20 * SECOND, Duration::MAX] {
        let (bench, calls) = noting(true, time);
        let batch = (0..26).map(|at| format!("k{at}"));
        assert_eq!(bench.run(batch).await, ["m-25"]);
        let [(begun, ids)] = calls.take().try_into().unwrap();
        assert_eq!((begun, ids.len()), (HALF, 25));
        let is_answered = bench.store.item("k25").is_some();
        assert_eq!(is_answered, time < Duration::MAX);
        assert!(!is_answered || bench.store.is_released("k25"));
    }
}

#[tokio::test(start_paused = true)]
async fn in_a_group_nothing_runs_behind_a_claim_that_is_not_answered() {
    let (bench, calls) = noting(false, Duration::MAX);
    let group = (0..25).map(|at| grouped("a", &format!("k{at}")));
    let failed = bench.run(group.chain([grouped("a", "behind"), grouped("b", "b1")]));
    let group: Vec<_> = (0..26).map(|at| format!("m-{at}")).collect();
    assert_eq!(failed.await, group);
    assert_eq!(calls.take(), [(HALF, vec!["b1".to_owned()])]);
    assert!(bench.store.is_released("behind"));
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_decides_too_late_stops_its_own_group_alone() {
    let (bench, calls) = noting_batches(Duration::ZERO);
    bench.run(in_groups("a/a1")).await;
    bench.outcomes();
    let bench = bench.with(|it| {
        it.on_duplicate(async |_: RecordEnd| {
            sleep(20 * SECOND).await;
            Ok(())
        })
    });
    assert_eq!(bench.run(in_groups("a/a1 a/a2 b/b1")).await, ["m-1"]);
    assert_eq!(calls.take()[1], (HALF, vec!["b1".to_owned()]));
    assert_eq!(bench.outcomes(), "duplicate failed processed");
    assert!(bench.store.is_released("a2"));
}
