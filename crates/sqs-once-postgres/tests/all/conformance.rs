//! The public conformance suite, and properties that it cannot observe: the columns' format and the table's schema.

use sqs_once::conformance;
use sqs_once::random::{OsRandom, Random};
use sqs_once::store::{Claimed, Fence, Settled, Store};
use sqs_once_postgres::deadpool_postgres::{Manager, Pool};
use sqs_once_postgres::{PostgresStore, SCHEMA_V1};
use tokio_postgres::NoTls;

use crate::support::{Database, NOW, completion, connect, new_claims, server, settlement};

#[tokio::test(flavor = "multi_thread")]
async fn the_store_keeps_every_promise() {
    conformance::run(&Database::new().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_store_keeps_the_promises_in_random_histories() {
    let seed = u64::try_from(OsRandom.bits() >> 96).unwrap();
    conformance::histories(&Database::new().await, seed..seed + 40).await;
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
    let there =
        format!("CREATE SCHEMA \"to \"\"pay\"; SET search_path = \"to \"\"pay\"; {SCHEMA_V1}");
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
