//! Commits without an answer, alone and together: executed, not executed, or still in flight.

use serde_json::json;
use sqs_once::idempotency::on_committed;
use sqs_once::store::StoreErrorKind::Unanswered;
use sqs_once::store::{Committed, Store, Writes};

use crate::store_suite::commits::{shop, taken};
use crate::store_suite::commits_together::{Entry, entry};
use crate::store_suite::lost_answers::losses;
use crate::store_suite::support::{Networked, refused};
use crate::support::wire::Turn;

/// Entries that take one of three pieces each.
fn takings<const N: usize>(shop: &Networked) -> [Entry; N] {
    std::array::from_fn(|at| {
        let article = format!("a-{at}");
        shop.put_stock(&article, 3);
        entry(Writes::new().update(taken(&article)))
    })
}

async fn are_sent_again_and_happen_once<const N: usize>() {
    let in_progress = refused("TransactionInProgressException", json!({}));
    for loss in losses().into_iter().chain([Turn::LoseRequest, in_progress]) {
        let shop = shop().await;
        shop.wire.next([loss.clone()]);
        let entries = takings::<N>(&shop);
        shop.all_commit_except(&entries, &[]).await;
        for at in 0..N {
            assert_eq!(shop.stock(&format!("a-{at}")), Some(2), "{loss:?}");
        }
        let bodies = shop.wire.bodies();
        assert_eq!(bodies.len(), 2);
        assert_eq!(bodies[0], bodies[1], "the token is the same");
        let token = bodies[0]["ClientRequestToken"].as_str().unwrap();
        assert!(token.len() <= 36, "{token}");
    }
}

#[tokio::test]
async fn commits_whose_answer_was_lost_are_sent_again_and_happen_once() {
    are_sent_again_and_happen_once::<1>().await;
    are_sent_again_and_happen_once::<3>().await;
}

#[tokio::test]
async fn commits_that_are_never_answered_are_unknown_and_happen_once_in_any_company() {
    for (later, sent_first) in [
        (&[0][..], 1),
        (&[0, 1, 2], 3),
        (&[0, 1, 3], 3),
        (&[3, 2, 0], 2),
        (&[1, 3, 2], 1),
    ] {
        let shop = shop().await;
        let all = takings::<4>(&shop);
        shop.wire.next(vec![Turn::LoseAnswer; 3]);
        for answer in shop.commit_all(&all[..sent_first]).await {
            let error = answer.unwrap_err();
            assert_eq!(error.kind(), Unanswered);
            assert!(error.is_transient());
        }
        // Now with other records.
        let again = later.iter().map(|&at| &all[at]);
        for (&at, answer) in later.iter().zip(shop.commit_all(again).await) {
            let owner = all[at].settlement.owner;
            let refused_by = match answer.unwrap() {
                Committed::Written => None,
                Committed::Refused(item) => Some(*item),
                conflict => panic!("{conflict:?}"),
            };
            let committed = on_committed(owner, None, refused_by.as_ref());
            assert_eq!(committed, Ok(()), "{at} of {later:?}");
            assert_eq!(shop.stock(&format!("a-{at}")), Some(2), "{at} of {later:?}");
        }
    }
}

/// DynamoDB knows a token for ten minutes. After that, only the commit's own record identifies it.
#[tokio::test]
async fn a_commit_that_dynamodb_has_forgotten_is_known_by_its_owner_and_happens_once() {
    let shop = shop().await;
    let [taking] = takings::<1>(&shop);
    let recorded = std::slice::from_ref(&taking.settlement);
    shop.store.settle(recorded).await;
    let committed = shop.commit(&taking.settlement, &taking.writes).await;
    let Committed::Refused(item) = committed else {
        panic!("committed twice");
    };
    let commitment = on_committed(taking.settlement.owner, None, Some(&item));
    assert_eq!(commitment, Ok(()));
    assert_eq!(shop.stock("a-0"), Some(3));
}
