//! The number of requests for a slice.

use sqs_once::conformance::claim;
use sqs_once::store::{Claimed, Settled, Settling, Store};

use crate::store_suite::support::{
    BATCH, Networked, READ, UPDATE, completion, ids, is_written, new_claims, recording, rivals,
    settlements,
};

/// The requests for the claims, or the settlements, of so many new keys.
const SLICES: [(usize, &[&str]); 7] = [
    (0, &[]),
    (1, &[UPDATE]),
    (2, &[BATCH]),
    (25, &[BATCH]),
    (26, &[BATCH; 2]),
    (50, &[BATCH; 2]),
    (100, &[BATCH; 4]),
];

#[tokio::test]
async fn claims_and_settlements_take_one_request_for_every_twenty_five() {
    for metered in Networked::both().await {
        for settling in [completion(), Settling::Release, recording()] {
            for (keys, requests) in SLICES {
                let claims = new_claims(keys);
                if !matches!(settling, Settling::Record { .. }) {
                    let claimed = metered.store.claim(&claims).await;
                    assert_eq!(claimed.len(), keys);
                    assert!(claimed.iter().all(is_written));
                    assert_eq!(metered.wire.seen(), requests, "claims of {keys} keys");
                }
                let settled = metered.store.settle(&settlements(&claims, &settling)).await;
                assert_eq!(settled.len(), keys);
                let written = |settled: &_| matches!(settled, Ok(Settled::Written));
                assert!(settled.iter().all(written));
                assert_eq!(metered.wire.seen(), requests, "{keys} keys, {settling:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_lone_key_that_was_given_back_takes_two_requests_and_every_other_one() {
    for metered in Networked::both().await {
        let claims = new_claims(1);
        metered.store.claim(&claims).await;
        let released = settlements(&claims, &Settling::Release);
        metered.store.settle(&released).await;
        metered.wire.seen();
        let claimed = claim(&metered.store, &rivals(&claims)).await;
        assert!(is_written(&claimed[0]));
        assert_eq!(metered.wire.seen(), [UPDATE, UPDATE]);
        let duplicates = claim(&metered.store, &rivals(&claims)).await;
        assert!(matches!(duplicates[..], [Ok(Claimed::Refused(_))]));
        assert_eq!(metered.wire.seen(), [UPDATE]);
        let recorded = settlements(&claims, &recording());
        let settled = metered.store.settle(&recorded).await;
        assert!(matches!(settled[..], [Ok(Settled::Written)]));
        assert_eq!(metered.wire.seen(), [UPDATE]);
    }
}

#[tokio::test]
async fn a_refused_settlement_takes_no_further_request() {
    for metered in Networked::both().await {
        for (keys, request) in [(3, BATCH), (1, UPDATE)] {
            let claims = new_claims(keys);
            metered.store.claim(&claims).await;
            metered.wire.seen();
            let strangers = settlements(&rivals(&claims), &completion());
            let settled = metered.store.settle(&strangers).await;
            let refused = |settled: &_| matches!(settled, Ok(Settled::Refused(Some(_))));
            assert!(settled.iter().all(refused));
            assert_eq!(metered.wire.seen(), [request]);
        }
    }
}

#[tokio::test]
async fn keys_that_have_an_item_take_one_request_more_and_each_that_may_be_claimed_another() {
    for metered in Networked::both().await {
        let taken = new_claims(3);
        metered.store.claim(&taken).await;
        metered.wire.seen();

        let claims = [rivals(&taken), new_claims(7)].concat();
        metered.store.claim(&claims).await;
        assert_eq!(metered.wire.seen(), [BATCH, READ]);

        let released = settlements(&taken[..2], &Settling::Release);
        metered.store.settle(&released).await;
        metered.wire.seen();
        let claimed = claim(&metered.store, &rivals(&taken)).await;
        assert!(claimed[..2].iter().all(is_written));
        assert!(matches!(claimed[2..], [Ok(Claimed::Refused(_))]));
        assert_eq!(metered.wire.seen(), [BATCH, READ, UPDATE, UPDATE]);

        let recorded = settlements(&taken[..2], &recording());
        metered.store.settle(&recorded).await;
        assert_eq!(metered.wire.seen(), [BATCH, UPDATE, UPDATE]);

        // The store also reads a single known key among new keys, which costs less than a refused write.
        let claims = [rivals(&taken[2..]), new_claims(2)].concat();
        metered.store.claim(&claims).await;
        assert_eq!(metered.wire.seen(), [BATCH, READ]);
    }
}

#[tokio::test]
async fn reads_take_one_request_for_every_hundred() {
    for metered in Networked::both().await {
        for (keys, requests) in [(0, 0), (1, 1), (100, 1), (101, 2)] {
            metered.store.read(&ids(&new_claims(keys))).await;
            assert_eq!(metered.wire.seen(), vec![READ; requests], "{keys} keys");
        }
    }
}
