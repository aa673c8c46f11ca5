//! Requests without an answer, executed or not.

use sqs_once::store::{Claim, Fence, Settled, Settling, Store, StoreErrorKind};
use sqs_once::unstable::{Admission, Completed, claim, on_claimed, on_completed};

use crate::store_suite::support::{
    BATCH, NOW, Networked, READ, UPDATE, completion, new_claims, recording, rivals, settlements,
};
use crate::support::wire::Turn;

/// The ways to lose a write's answer after DynamoDB executed the write.
pub(crate) fn losses() -> [Turn; 3] {
    let failure = r#"{"__type":"com.amazonaws.dynamodb.v20120810#InternalServerError"}"#;
    [
        Turn::LoseAnswer,
        Turn::Garble(500, failure.to_owned()),
        Turn::Garble(503, String::new()),
    ]
}

const OWN: Admission = Admission::Run {
    fence: Fence::first(NOW),
    first_attempt: Some(NOW),
};

/// Sends claims of new keys, which the store must recognise as its own.
async fn assert_own(network: &Networked, claims: &[Claim]) {
    for (claim, claimed) in claims.iter().zip(network.store.claim(claims).await) {
        assert_eq!(on_claimed(claim, &claimed.unwrap()), OWN);
    }
    assert_written(network, claims).await;
}

/// The table has the items of claims of new keys.
async fn assert_written(network: &Networked, claims: &[Claim]) {
    let written = claims.iter().map(|claim| Some(claim.write(None)));
    assert_eq!(network.items(claims).await, written.collect::<Vec<_>>());
}

#[tokio::test]
async fn claims_whose_answer_was_lost_are_sent_again_and_recognised_as_own() {
    let lost = losses().map(|loss| (loss, &[BATCH, BATCH, READ][..]));
    // Claims that never arrived are granted.
    let never = (Turn::LoseRequest, &[BATCH, BATCH][..]);
    for (loss, batch) in lost.into_iter().chain([never]) {
        for (count, requests) in [(1, &[UPDATE, UPDATE][..]), (3, batch)] {
            let network = Networked::with([loss.clone()]).await;
            let claims = new_claims(count);
            assert_own(&network, &claims).await;
            assert_eq!(network.wire.seen(), requests, "{loss:?}");
        }
    }
}

#[tokio::test]
async fn a_settlement_whose_answer_was_lost_is_sent_again_and_counts_once() {
    for loss in losses() {
        let kinds = [completion(), Settling::Release, recording()];
        for (settling, count) in kinds.iter().flat_map(|kind| [(kind, 1), (kind, 2)]) {
            let network = Networked::with([]).await;
            let claims = new_claims(count);
            let claimed = !matches!(settling, Settling::Record { .. });
            if claimed {
                network.store.claim(&claims).await;
            }
            network.wire.next([loss.clone()]);
            let sent = settlements(&claims, settling);
            for (settlement, settled) in sent.iter().zip(network.store.settle(&sent).await) {
                let settled = settled.unwrap();
                match settling {
                    Settling::Release => assert_eq!(settled, Settled::Written),
                    _ => assert_eq!(on_completed(settlement, &settled), Completed::Confirmed),
                }
            }
            let written = claims.iter().zip(&sent).map(|(claim, settlement)| {
                let before = claimed.then(|| claim.write(None));
                Some(settlement.write(before.as_ref()))
            });
            let written: Vec<_> = written.collect();
            assert_eq!(network.items(&claims).await, written, "{settling:?}");
        }
    }
}

#[tokio::test]
async fn a_claim_that_is_never_answered_is_unknown_and_recognised_when_it_is_sent_later() {
    for count in [1, 3] {
        let network = Networked::with(vec![Turn::LoseAnswer; 3]).await;
        let claims = new_claims(count);
        for claimed in network.store.claim(&claims).await {
            let error = claimed.unwrap_err();
            assert_eq!(error.kind(), StoreErrorKind::Unanswered);
            assert!(error.is_transient());
        }
        assert_written(&network, &claims).await;
        assert_own(&network, &claims).await;
    }
}

#[tokio::test]
async fn a_key_that_had_an_item_is_claimed_with_one_attempt_since_others_wait_for_it() {
    let network = Networked::with([]).await;
    let given_back = new_claims(1);
    network.store.claim(&given_back).await;
    let releases = settlements(&given_back, &Settling::Release);
    network.store.settle(&releases).await;
    network.wire.seen();
    for requests in [&[BATCH, READ][..], &[BATCH, READ, UPDATE]] {
        let claims = [rivals(&given_back), new_claims(1)].concat();
        let passing = requests[1..].iter().map(|_| Turn::Pass);
        network.wire.next(passing.chain([Turn::LoseAnswer]));
        let mut claimed = claim(&network.store, &claims).await;
        assert!(claimed.pop().unwrap().is_ok());
        let unknown = claimed.pop().unwrap().unwrap_err();
        assert_eq!(unknown.kind(), StoreErrorKind::Unanswered);
        assert_eq!(network.wire.seen(), requests);
    }
}
