//! The number of requests for a slice, refused writes whose answer does not contain the item that refused, and requests
//! without an answer, executed or not.

use serde_json::json;
use sqs_once::conformance::Fixture;
use sqs_once::store::{Claim, Claimed, Fence, Settled, Settling, Store, StoreErrorKind};
use sqs_once::unstable::{Admission, Completed, claim, on_claimed, on_completed};

use crate::store_suite::support::{
    BATCH, NOW, Networked, READ, UPDATE, completion, ids, is_written, new_claims, recording,
    refused as error, rivals, settlements,
};
use crate::support::wire::Turn;

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
                if !matches!(settling, Settling::CompleteUnclaimed { .. }) {
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
async fn keys_that_have_an_item_take_one_request_more_and_each_that_may_be_claimed_another() {
    for metered in Networked::both().await {
        let taken = new_claims(3);
        metered.store.claim(&taken).await;
        metered.wire.seen();

        let claims = [rivals(&taken), new_claims(7)].concat();
        metered.store.claim(&claims).await;
        assert_eq!(metered.wire.seen(), [BATCH, READ]);
        // A refused settlement takes no further request.
        for (keys, request) in [(&taken[..], BATCH), (&taken[..1], UPDATE)] {
            let strangers = settlements(&rivals(keys), &completion());
            let settled = metered.store.settle(&strangers).await;
            let refused = |settled: &_| matches!(settled, Ok(Settled::Refused(Some(_))));
            assert!(settled.iter().all(refused));
            assert_eq!(metered.wire.seen(), [request]);
        }

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

        for (keys, requests) in [(0, 0), (1, 1), (100, 1), (101, 2)] {
            metered.store.read(&ids(&new_claims(keys))).await;
            assert_eq!(metered.wire.seen(), vec![READ; requests], "{keys} keys");
        }
    }
}

/// An update is refused without its item.
fn refused() -> Turn {
    error("ConditionalCheckFailedException", json!({}))
}

/// Each statement of a batch succeeds or is refused without its item.
fn statements<const N: usize>(refused: [bool; N]) -> Turn {
    let failed = json!({"Error": {"Code": "ConditionalCheckFailed", "Message": "Refused"}});
    let responses = refused.map(|refused| if refused { failed.clone() } else { json!({}) });
    let answer = json!({ "Responses": responses.as_slice() });
    Turn::Answer(200, answer.to_string())
}

fn denied() -> Turn {
    error("AccessDeniedException", json!({}))
}

#[tokio::test]
async fn a_claim_is_refused_by_the_item_that_is_read() {
    for terse in Networked::both().await {
        // DynamoDB's answer to a batch never contains the item.
        for (keys, turn, request) in [(1, Some(refused()), UPDATE), (2, None, BATCH)] {
            let claims = new_claims(keys);
            let theirs = terse.taken(&rivals(&claims[..1])).await.remove(0);
            terse.wire.next(turn);
            let claimed = terse.store.claim(&claims).await;
            let refusal = Claimed::Refused(Box::new(theirs));
            assert_eq!(*claimed[0].as_ref().unwrap(), refusal);
            assert!(claimed[1..].iter().all(is_written));
            assert_eq!(terse.wire.seen(), [request, READ]);
        }
    }
}

#[tokio::test]
async fn a_claim_whose_refusal_is_gone_is_sent_again_and_is_unknown_after_two_tries() {
    for terse in Networked::both().await {
        let claims = new_claims(1);
        terse.wire.next([refused(), Turn::Pass, refused()]);
        let unknown = terse.store.claim(&claims).await.remove(0).unwrap_err();
        assert_eq!(unknown.kind(), StoreErrorKind::Other);
        assert!(unknown.to_string().contains("refused the claim"));
        assert_eq!(terse.items(&claims).await, [None]);
        assert_eq!(terse.wire.seen(), [UPDATE, READ, UPDATE, READ]);

        terse.wire.next([refused()]);
        let claimed = terse.store.claim(&claims).await;
        assert!(is_written(&claimed[0]));
        assert_eq!(terse.items(&claims).await, [Some(claims[0].write(None))]);
        assert_eq!(terse.wire.seen(), [UPDATE, READ, UPDATE]);
    }
}

#[tokio::test]
async fn refused_settlements_are_decided_by_one_read_of_all_their_items() {
    for terse in Networked::both().await {
        let claims = new_claims(4);
        let others = rivals(&claims);
        let claimed = terse.taken(&others[..2]).await;
        terse.complete(&others[1..2]).await;
        let lost = Settled::Refused(Some(Box::new(claimed[0].clone())));
        for settling in [completion(), Settling::Release] {
            let sent = settlements(&claims, &settling);
            terse.wire.next([statements([true, true, true, false])]);
            let settled = terse.store.settle(&sent).await;
            let settled: Vec<_> = settled.into_iter().map(Result::unwrap).collect();
            assert_eq!(settled[0], lost);
            let recorded = match settling {
                Settling::Release => Completed::Confirmed,
                _ => Completed::ByAnother,
            };
            assert_eq!(on_completed(&sent[1], &settled[1]), recorded);
            assert_eq!(settled[2], Settled::Refused(None));
            assert_eq!(settled[3], Settled::Written);
            assert_eq!(terse.wire.seen(), [BATCH, READ], "{settling:?}");

            for (at, refusal) in [(0, lost.clone()), (2, Settled::Refused(None))] {
                terse.wire.next([refused()]);
                let settled = terse.store.settle(&sent[at..=at]).await.remove(0);
                assert_eq!(settled.unwrap(), refusal, "{settling:?}");
                assert_eq!(terse.wire.seen(), [UPDATE, READ], "{settling:?}");
            }
        }
        assert_eq!(terse.items(&claims[2..]).await, [None, None]);
    }
}

#[tokio::test]
async fn a_refused_recording_is_decided_by_the_item_that_is_read() {
    for terse in Networked::both().await {
        for (keys, before) in [(1, None), (2, Some(BATCH))] {
            let claims = new_claims(keys);
            let owner = rivals(&claims[..1]);
            terse.taken(&owner).await;
            terse.complete(&owner).await;
            let passing = before.map(|_| Turn::Pass).into_iter();
            terse.wire.next(passing.chain([refused()]));
            let recordings = settlements(&claims, &recording());
            let settled = terse.store.settle(&recordings).await.remove(0).unwrap();
            let theirs = terse.table.peek(&claims[0].id).await.map(Box::new);
            assert_eq!(settled, Settled::Refused(theirs));
            let expected = before.into_iter().chain([UPDATE, READ]);
            assert_eq!(terse.wire.seen(), expected.collect::<Vec<_>>());
        }
    }
}

#[tokio::test]
async fn a_read_that_is_denied_leaves_unknown_what_it_should_have_decided_and_no_more() {
    for terse in Networked::both().await {
        let claims = new_claims(2);
        terse.wire.next([refused(), denied()]);
        let claimed = terse.store.claim(&claims[..1]).await.remove(0);
        assert_eq!(claimed.unwrap_err().kind(), StoreErrorKind::AccessDenied);

        let completions = settlements(&claims, &completion());
        terse.wire.next([statements([true, false]), denied()]);
        let settled = terse.store.settle(&completions).await;
        let unknown = settled[0].as_ref().unwrap_err();
        assert_eq!(unknown.kind(), StoreErrorKind::AccessDenied);
        assert!(matches!(settled[1], Ok(Settled::Written)));

        terse.wire.next([refused(), denied()]);
        let settled = terse.store.settle(&completions[..1]).await.remove(0);
        assert_eq!(settled.unwrap_err().kind(), StoreErrorKind::AccessDenied);
    }
}

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
            let claimed = !matches!(settling, Settling::CompleteUnclaimed { .. });
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
