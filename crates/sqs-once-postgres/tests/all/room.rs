//! The disk space that a key takes, and the settings that limit it.

use std::time::Duration;

use sqs_once::BusinessKey;
use sqs_once::key::{Fingerprint, Namespace};
use sqs_once::store::{Begun, Claim, Claimed, Settled, Settling, Store, Transactions};

use crate::support::{Database, new_claims, settlement};

/// Claims as a consumer writes them, with hashed IDs and a fingerprint of the body.
fn claims(count: usize) -> Vec<Claim> {
    let namespace = Namespace::new("payments").unwrap();
    let with_hashes = |(n, claim): (usize, Claim)| {
        let mut changed = claim;
        changed.id = namespace.item_id(&BusinessKey::new(&n).unwrap());
        changed.fingerprint = Some(Fingerprint::of_body(&n.to_string()));
        changed.expiration = changed.now + Duration::from_secs(28 * 24 * 60 * 60);
        changed
    };
    new_claims(count)
        .into_iter()
        .enumerate()
        .map(with_hashes)
        .collect()
}

/// A completion one second later, on the same day.
fn completion(claim: &Claim) -> Settling {
    Settling::complete(claim.expiration + Duration::from_secs(1), None)
}

impl Database {
    /// The size of the table and of its indexes, in bytes.
    async fn size(&self) -> (i64, i64) {
        let size =
            "SELECT pg_relation_size('processed_events'), pg_indexes_size('processed_events')";
        let row = self.client.query_one(size, &[]).await.unwrap();
        (row.get(0), row.get(1))
    }

    async fn claim_all(&self, claims: &[Claim]) {
        let claimed = self.store.claim(claims).await;
        assert!(
            claimed
                .iter()
                .all(|one| matches!(one, Ok(Claimed::Written { .. })))
        );
    }

    async fn complete_all(&self, claims: &[Claim]) {
        let settlements: Vec<_> = claims
            .iter()
            .map(|one| settlement(one, completion(one)))
            .collect();
        let settled = self.store.settle(&settlements).await;
        assert!(
            settled
                .iter()
                .all(|one| matches!(one, Ok(Settled::Written)))
        );
    }
}

/// Claims and completes each key in one transaction.
async fn in_transactions(database: &Database, claims: &[Claim]) {
    for claim in claims {
        let begun = database.store.begin(claim, Duration::from_secs(60)).await;
        let Begun::Open { transaction, .. } = begun.unwrap() else {
            panic!("a new key was refused");
        };
        let completion = settlement(claim, completion(claim));
        transaction.commit(completion).await.unwrap();
    }
}

#[tokio::test]
async fn a_key_takes_as_much_room_as_is_documented_and_less_once_the_table_is_vacuumed() {
    const KEYS: i64 = 1000;
    let database = Database::new().await;
    let claims = claims(2 * KEYS as usize);
    let (first, later) = claims.split_at(KEYS as usize);
    in_transactions(&database, first).await;
    let (table, indexes) = database.size().await;
    assert!((450..1050).contains(&(table / KEYS)), "{table}");
    assert!((120..190).contains(&(indexes / KEYS)), "{indexes}");

    let vacuum = "VACUUM processed_events";
    database.client.batch_execute(vacuum).await.unwrap();
    in_transactions(&database, later).await;
    let (both, _) = database.size().await;
    assert!(both < 2 * table, "{both} after {table}");
}

/// The growth of the indexes by completions, in bytes, if all keys were claimed before.
async fn growth_of_the_indexes(fillfactor: u32) -> i64 {
    let database = Database::new().await;
    let fill = format!("ALTER TABLE processed_events SET (fillfactor = {fillfactor})");
    database.client.batch_execute(&fill).await.unwrap();
    let claims = claims(3000);
    database.claim_all(&claims).await;
    let (_, before) = database.size().await;
    database.complete_all(&claims).await;
    database.size().await.1 - before
}

#[tokio::test]
async fn a_completion_touches_no_index_since_pages_have_room_for_it() {
    assert_eq!(growth_of_the_indexes(50).await, 0);
    assert!(growth_of_the_indexes(100).await > 0);
}
