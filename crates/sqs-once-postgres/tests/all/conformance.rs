//! The public conformance suite, and properties that it cannot observe: the columns' format, the table's schema, and
//! slices with the same keys or with errors.

use std::time::Duration;

use futures_util::future::join_all;
use sqs_once::conformance::{self, Fixture};
use sqs_once::store::{Claimed, Fence, Owner, Settled, Settling, Store, StoreError};
use sqs_once::unstable::{claim, fresh_seeds};
use sqs_once_postgres::deadpool_postgres::{Manager, Pool};
use sqs_once_postgres::{PostgresStore, SCHEMA_V1};
use tokio_postgres::NoTls;

use crate::support::{
    Database, NOW, completion, connect, is_written, new_claims, rival, rivals, server, settlement,
    settlements,
};

#[tokio::test(flavor = "multi_thread")]
async fn the_store_keeps_every_promise() {
    conformance::run(&Database::new().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_store_keeps_the_promises_in_random_histories() {
    conformance::histories(&Database::new().await, fresh_seeds(40)).await;
}

#[tokio::test]
async fn a_completed_row_has_the_columns_that_the_schema_documents() {
    let database = Database::new().await;
    let claims = new_claims(1);
    database.store.claim(&claims).await;
    let completion = settlement(&claims[0], completion());
    let settled = database.store.settle(&[completion]).await;
    assert_eq!(settled[0].as_ref().unwrap(), &Settled::Written);
    let row = "SELECT to_jsonb(processed_events)::text FROM processed_events";
    let row = database.client.query_one(row, &[]).await.unwrap();
    let found: serde_json::Value = serde_json::from_str(row.get(0)).unwrap();
    let expected = serde_json::json!({
        "id": claims[0].id.as_str(),
        "status": "COMPLETED",
        "in_progress_expiration": 4_102_444_860_000_u64,
        "expiration": 4_102_448_400_u64,
        "expiration_day": 47_482,
        "validation": null,
        "data": null,
        "owner": claims[0].owner.to_string(),
        "fence": 4_102_444_800_000_u64,
    });
    assert_eq!(found, expected);
}

#[tokio::test]
async fn the_table_may_be_in_any_schema_of_any_name() {
    let url = server().create_database();
    let client = connect(&url).await;
    let there = r#"CREATE SCHEMA "to ""pay"; SET search_path = "to ""pay";"#;
    let there = format!("{there} {SCHEMA_V1}");
    client.batch_execute(&there).await.unwrap();
    let claims = new_claims(1);

    let named = PostgresStore::from_url(&url).unwrap().schema("to \"pay");
    let claimed = named.claim(&claims).await;
    let fence = Fence::first(NOW);
    assert_eq!(claimed[0].as_ref().unwrap(), &Claimed::Written { fence });
    let settlement = settlement(&claims[0], completion());
    let settled = named.settle(&[settlement]).await;
    assert_eq!(settled[0].as_ref().unwrap(), &Settled::Written);

    let by_path = format!("{url}?options=-csearch_path%3D%22to%5C%20%5C%22%5C%22pay%22");
    let by_path = PostgresStore::from_url(&by_path).unwrap();
    let claimed = by_path.claim(&claims).await;
    assert!(matches!(claimed[0], Ok(Claimed::Refused(_))), "{claimed:?}");
}

#[tokio::test]
async fn a_pool_of_ones_own_does_as_well() {
    let database = Database::new().await;
    let config = database.url.parse().unwrap();
    let pool = Pool::builder(Manager::new(config, NoTls)).max_size(1);
    let store = PostgresStore::new(pool.build().unwrap());
    let claims = new_claims(3);
    let claimed = store.claim(&claims).await;
    let fence = Fence::first(NOW);
    for claimed in claimed {
        assert_eq!(claimed.unwrap(), Claimed::Written { fence });
    }
}

/// The number of granted claims. Every claim must have an answer.
fn granted(answers: &[Vec<Result<Claimed, StoreError>>]) -> usize {
    let answers = answers.iter().flatten();
    let answers = answers.inspect(|answer| assert!(answer.is_ok(), "{answer:?}"));
    answers.filter(|answer| is_written(answer)).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn slices_with_the_same_keys_in_opposite_orders_never_deadlock() {
    let database = Database::new().await;
    for round in 0..20 {
        let claims = new_claims(60);
        let mut others = rivals(&claims);
        others.reverse();
        let answers = join_all([&claims, &others].map(|claims| database.store.claim(claims))).await;
        assert_eq!(granted(&answers), 60, "round {round}");

        // Repeats the claims over the rows of released claims.
        let releases = [&claims, &others].map(|all| settlements(all, &Settling::Release));
        join_all(releases.iter().map(|all| database.store.settle(all))).await;
        let over = [rivals(&claims), rivals(&others)];
        let answers = join_all(over.iter().map(|all| claim(&database.store, all))).await;
        assert_eq!(granted(&answers), 60, "round {round}");

        let completions = over.map(|all| settlements(&all, &completion()));
        let answers = join_all(completions.iter().map(|all| database.store.settle(all))).await;
        let written = answers.iter().flatten();
        let written = written.filter(|answer| matches!(answer, Ok(Settled::Written)));
        assert_eq!(written.count(), 60, "round {round}");
    }
}

#[tokio::test]
async fn a_key_that_is_twice_in_a_slice_does_not_spoil_the_others() {
    let database = Database::new().await;
    let mut claims = new_claims(3);
    claims.insert(1, rival(&claims[0]));
    let answers = database.store.claim(&claims).await;
    let granted: Vec<_> = answers.iter().map(is_written).collect();
    assert_eq!(granted, [true, false, true, true]);

    let mut settlements = settlements(&claims, &completion());
    settlements.push(settlement(&claims[0], Settling::Release));
    let answers = database.store.settle(&settlements).await;
    let is_written = |answer: &Result<_, _>| *answer.as_ref().unwrap() == Settled::Written;
    let written: Vec<_> = answers.iter().map(is_written).collect();
    assert_eq!(written, [true, false, true, true, false]);
}

#[tokio::test]
async fn a_row_that_is_not_readable_spoils_its_own_answer_alone() {
    let database = Database::new().await;
    let claims = new_claims(3);
    database.store.claim(&claims).await;
    let spoil = "UPDATE processed_events SET owner = 'nobody' WHERE id = $1";
    let id = claims[1].id.as_str();
    database.client.execute(spoil, &[&id]).await.unwrap();

    let answers = database.store.claim(&rivals(&claims)).await;
    let is_known: Vec<_> = answers.iter().map(Result::is_ok).collect();
    assert_eq!(is_known, [true, false, true]);
    let kind = answers[1].as_ref().unwrap_err().kind();
    assert_eq!(kind, sqs_once::store::StoreErrorKind::BadItem);
    assert!(!format!("{answers:?}").contains("nobody"));
}

#[tokio::test]
async fn times_that_no_column_holds_are_the_end_of_time() {
    let database = Database::new().await;
    let mut claim = new_claims(1).remove(0);
    claim.owner = Owner::from_bits(u128::MAX);
    claim.lease_until = sqs_once::store::Timestamp::from_millis(u64::MAX);
    let answers = database.store.claim(std::slice::from_ref(&claim)).await;
    assert!(answers[0].is_ok(), "{answers:?}");
    let mut rival = rival(&claim);
    rival.now = NOW + Duration::from_secs(u64::from(u32::MAX));
    let answers = database.store.claim(&[rival]).await;
    assert!(matches!(answers[0], Ok(Claimed::Refused(_))), "{answers:?}");
    let owner = database.peek(&claim.id).await.unwrap().owner;
    assert_eq!(owner, Some(claim.owner));
}
