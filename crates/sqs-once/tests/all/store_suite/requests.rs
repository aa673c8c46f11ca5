//! The number of requests for a slice.

use sqs_once::idempotency::claim;
use sqs_once::store::{Claimed, DynamoDbStore, Settled, Settling, Store};

use crate::store_suite::support::{
    OnDynamoDb, completion, ids, new_claims, recording, rivals, settlements,
};
use crate::support::wire::Wire;

struct Metered {
    _table: OnDynamoDb,
    wire: Wire,
    store: DynamoDbStore,
}

/// A store on a table with the default layout, and one on a table with another.
async fn metered() -> [Metered; 2] {
    [
        on(OnDynamoDb::start().await).await,
        on(OnDynamoDb::with_other_layout().await).await,
    ]
}

async fn on(table: OnDynamoDb) -> Metered {
    let wire = Wire::to(&table.local.endpoint(), []).await;
    let store = table.store_at(&wire.endpoint());
    Metered {
        _table: table,
        wire,
        store,
    }
}

#[tokio::test]
async fn new_keys_take_one_request_for_every_twenty_five() {
    for metered in metered().await {
        for (keys, requests) in [(0, 0), (2, 1), (10, 1), (25, 1), (26, 2), (50, 2), (100, 4)] {
            let claims = new_claims(keys);
            let claimed = metered.store.claim(&claims).await;
            assert_eq!(claimed.len(), keys);
            assert!(
                claimed
                    .iter()
                    .all(|claimed| matches!(claimed, Ok(Claimed::Written { .. })))
            );
            assert_eq!(
                metered.wire.seen(),
                vec!["BatchExecuteStatement"; requests],
                "{keys} keys"
            );
        }
    }
}

#[tokio::test]
async fn a_lone_key_takes_one_request_whether_it_is_new_or_not() {
    for metered in metered().await {
        let claims = new_claims(1);
        metered.store.claim(&claims).await;
        assert_eq!(metered.wire.seen(), ["UpdateItem"]);
        metered.store.claim(&rivals(&claims)).await;
        assert_eq!(metered.wire.seen(), ["UpdateItem"]);
    }
}

#[tokio::test]
async fn a_lone_key_that_was_given_back_takes_two_requests() {
    for metered in metered().await {
        let claims = new_claims(1);
        metered.store.claim(&claims).await;
        let released = settlements(&claims, &Settling::Release);
        metered.store.settle(&released).await;
        metered.wire.seen();
        let claimed = claim(&metered.store, &rivals(&claims)).await;
        assert!(matches!(claimed[..], [Ok(Claimed::Written { .. })]));
        assert_eq!(metered.wire.seen(), ["UpdateItem", "UpdateItem"]);
        let duplicates = claim(&metered.store, &rivals(&claims)).await;
        assert!(matches!(duplicates[..], [Ok(Claimed::Refused(_))]));
        assert_eq!(metered.wire.seen(), ["UpdateItem"]);
    }
}

#[tokio::test]
async fn settlements_take_one_request_for_every_twenty_five() {
    for metered in metered().await {
        for settling in [completion(), Settling::Release, recording()] {
            for (keys, requests) in [(0, 0), (2, 1), (25, 1), (26, 2), (100, 4)] {
                let claims = new_claims(keys);
                if !matches!(settling, Settling::Record { .. }) {
                    metered.store.claim(&claims).await;
                    metered.wire.seen();
                }
                let settled = metered.store.settle(&settlements(&claims, &settling)).await;
                assert_eq!(settled.len(), keys);
                assert!(
                    settled
                        .iter()
                        .all(|settled| matches!(settled, Ok(Settled::Written)))
                );
                let expected = vec!["BatchExecuteStatement"; requests];
                assert_eq!(metered.wire.seen(), expected, "{keys} keys, {settling:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_lone_settlement_takes_one_request_whatever_it_finds() {
    for metered in metered().await {
        for settling in [completion(), Settling::Release, recording()] {
            let claims = new_claims(1);
            metered.store.claim(&claims).await;
            metered.wire.seen();
            let settled = metered.store.settle(&settlements(&claims, &settling)).await;
            assert!(matches!(settled[..], [Ok(Settled::Written)]));
            assert_eq!(metered.wire.seen(), ["UpdateItem"], "{settling:?}");
        }
        metered
            .store
            .settle(&settlements(&new_claims(1), &recording()))
            .await;
        assert_eq!(metered.wire.seen(), ["UpdateItem"]);
    }
}

#[tokio::test]
async fn a_refused_settlement_takes_no_further_request() {
    for metered in metered().await {
        for (keys, request) in [(3, "BatchExecuteStatement"), (1, "UpdateItem")] {
            let claims = new_claims(keys);
            metered.store.claim(&claims).await;
            metered.wire.seen();
            let strangers = settlements(&rivals(&claims), &completion());
            let settled = metered.store.settle(&strangers).await;
            assert!(
                settled
                    .iter()
                    .all(|settled| matches!(settled, Ok(Settled::Refused(Some(_)))))
            );
            assert_eq!(metered.wire.seen(), [request]);
        }
    }
}

#[tokio::test]
async fn keys_that_have_an_item_take_one_request_more_and_each_that_may_be_claimed_another() {
    for metered in metered().await {
        let taken = new_claims(3);
        metered.store.claim(&taken).await;
        metered.wire.seen();

        let claims = [rivals(&taken), new_claims(7)].concat();
        metered.store.claim(&claims).await;
        assert_eq!(
            metered.wire.seen(),
            ["BatchExecuteStatement", "BatchGetItem"]
        );

        let released = settlements(&taken[..2], &Settling::Release);
        metered.store.settle(&released).await;
        metered.wire.seen();
        let claimed = claim(&metered.store, &rivals(&taken)).await;
        assert!(matches!(
            claimed[..],
            [
                Ok(Claimed::Written { .. }),
                Ok(Claimed::Written { .. }),
                Ok(Claimed::Refused(_))
            ]
        ));
        assert_eq!(
            metered.wire.seen(),
            [
                "BatchExecuteStatement",
                "BatchGetItem",
                "UpdateItem",
                "UpdateItem"
            ]
        );

        let recorded = settlements(&taken[..2], &recording());
        metered.store.settle(&recorded).await;
        assert_eq!(
            metered.wire.seen(),
            ["BatchExecuteStatement", "UpdateItem", "UpdateItem"]
        );

        // The store also reads a single known key among new keys, which costs less than a refused write.
        let claims = [rivals(&taken[2..]), new_claims(2)].concat();
        metered.store.claim(&claims).await;
        assert_eq!(
            metered.wire.seen(),
            ["BatchExecuteStatement", "BatchGetItem"]
        );
    }
}

#[tokio::test]
async fn reads_take_one_request_for_every_hundred() {
    for metered in metered().await {
        for (keys, requests) in [(0, 0), (1, 1), (100, 1), (101, 2)] {
            metered.store.read(&ids(&new_claims(keys))).await;
            assert_eq!(
                metered.wire.seen(),
                vec!["BatchGetItem"; requests],
                "{keys} keys"
            );
        }
    }
}
