//! Short runs of the kill test. The binary runs the long ones.

#![allow(clippy::unwrap_used, reason = "a test")]
#![allow(clippy::print_stdout, reason = "a run's accounts are worth seeing")]

use sqs_once_kill::{Accounts, Plan, Way, Wrong, run};

/// The seed from `KILL_SEED`, or a constant.
fn seed() -> u64 {
    let given = std::env::var("KILL_SEED").ok();
    given.map_or(1, |seed| seed.parse().unwrap())
}

async fn killed(way: Way, messages: usize, kills: usize, freezes: usize) -> Accounts {
    let plan = Plan {
        way,
        function: env!("CARGO_BIN_EXE_sqs-once-kill").into(),
        messages,
        kills,
        freezes,
        // The long run waits for renewed leases.
        outliving_in_thousand: 0,
        environments: 3,
        faults_in_thousand: 20,
        seed: seed(),
    };
    println!("KILL_SEED={}", plan.seed);
    let accounts = run(plan, |far| println!("{far}")).await.unwrap();
    println!("{accounts}");
    assert_eq!(accounts.kills(), kills);
    let frozen = accounts.freezes();
    assert!(frozen >= freezes, "{frozen} freezes");
    accounts
}

/// Like [`killed`], for a way that keeps its promise.
async fn recovered(way: Way, messages: usize, kills: usize, freezes: usize) -> Accounts {
    let accounts = killed(way, messages, kills, freezes).await;
    assert!(accounts.add_up(), "{accounts}");
    assert!(accounts.recovered > 0, "no kill mattered: {accounts}");
    accounts
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_processes_lose_no_order_and_repeat_effects_only_in_counted_windows() {
    recovered(Way::ClaimFirst, 400, 4, 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_processes_do_every_order_exactly_once_in_a_transaction() {
    let accounts = recovered(Way::Transactional, 400, 4, 2).await;
    let possible = accounts.orders() - accounts.spoilt;
    assert_eq!(accounts.effects, possible as u64);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_processes_keep_the_order_of_a_message_group() {
    recovered(Way::Fifo, 300, 3, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_accounts_of_a_function_that_records_nothing_do_not_add_up() {
    let accounts = killed(Way::Unprotected, 200, 2, 0).await;
    assert!(!accounts.add_up(), "{accounts}");
    assert!(accounts.wrong(Wrong::Duplicated) > 0, "{accounts}");
}
