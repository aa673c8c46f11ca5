//! The disk space that a key takes, and the settings that limit it.

use std::time::Duration;

use sqs_once::BusinessKey;
use sqs_once::key::{Fingerprint, Namespace};
use sqs_once::store::{Claim, Settling, Store};

use crate::support::{Database, is_written, new_claims, open, settlement};

/// Claims as a consumer writes them, with hashed IDs and a fingerprint of the body.
fn claims(count: usize) -> Vec<Claim> {
    let namespace = Namespace::new("payments").unwrap();
    let mut claims = new_claims(count);
    for (n, claim) in claims.iter_mut().enumerate() {
        claim.id = namespace.item_id(&BusinessKey::new(&n).unwrap());
        claim.fingerprint = Some(Fingerprint::from_body(&n.to_string()));
        claim.expiration = claim.now + Duration::from_secs(28 * 24 * 60 * 60);
    }
    claims
}

/// A completion one second later, on the same day.
fn completion(claim: &Claim) -> Settling {
    Settling::complete(claim.expiration + Duration::from_secs(1), None)
}

impl Database {
    /// The size of the table and of its indexes, in bytes.
    async fn size(&self) -> [i64; 2] {
        let size =
            "SELECT pg_relation_size('processed_events'), pg_indexes_size('processed_events')";
        self.numbers(size).await
    }
}

/// Claims and completes each key in one transaction.
async fn in_transactions(database: &Database, claims: &[Claim]) {
    for claim in claims {
        let transaction = open(&database.store, claim).await;
        let completion = settlement(claim, completion(claim));
        transaction.commit(vec![completion]).await.unwrap();
    }
}

#[tokio::test]
async fn a_key_takes_as_much_room_as_is_documented_and_less_once_the_table_is_vacuumed() {
    const KEYS: i64 = 1000;
    let database = Database::new().await;
    // While the server's own vacuum looks at the table, no other can remove rows.
    let without_its_own = "ALTER TABLE processed_events SET (autovacuum_enabled = false)";
    database.run(without_its_own).await;
    let claims = claims(2 * KEYS as usize);
    let (first, later) = claims.split_at(KEYS as usize);
    in_transactions(&database, first).await;
    let [table, indexes] = database.size().await;
    assert!((450..1250).contains(&(table / KEYS)), "{table}");
    assert!((120..190).contains(&(indexes / KEYS)), "{indexes}");

    database.run("VACUUM processed_events").await;
    in_transactions(&database, later).await;
    let [both, _] = database.size().await;
    assert!(both < 2 * table, "{both} after {table}");
}

#[tokio::test]
async fn completing_a_claim_touches_no_index_since_pages_have_room_for_it() {
    let with_room = Database::new().await;
    let full = Database::new().await;
    full.run("ALTER TABLE processed_events SET (fillfactor = 100)")
        .await;
    let claims = claims(3000);
    for (database, grows) in [(with_room, false), (full, true)] {
        let claimed = database.store.claim(&claims).await;
        assert!(claimed.iter().all(is_written));
        let [_, before] = database.size().await;
        let complete = |claim| settlement(claim, completion(claim));
        let settlements: Vec<_> = claims.iter().map(complete).collect();
        let settled = database.store.settle(&settlements).await;
        assert!(settled.iter().all(Result::is_ok));
        let [_, after] = database.size().await;
        assert_eq!(after > before, grows, "{after} after {before}");

        database.end_sessions().await;
        let updates = "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables";
        let [updated, hot] = database.numbers(updates).await;
        assert_eq!(updated, 3000);
        assert_eq!(hot < 2900, grows, "{hot} were HOT");
    }
}
