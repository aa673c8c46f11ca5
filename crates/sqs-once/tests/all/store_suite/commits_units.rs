//! The write units of a commit, as DynamoDB counts them.

use sqs_once::store::{Committed, Store, Writes};

use crate::store_suite::commits::{order, shop};
use crate::store_suite::support::{commit, new_claims, settlements};

#[tokio::test]
async fn a_commit_takes_two_units_for_the_record_of_its_key_and_for_each_write() {
    let shop = shop().await;
    for n in [0, 1, 2, 7] {
        let settlement = settlements(&new_claims(1), &commit()).remove(0);
        let writes = (0..n).fold(Writes::new(), |writes, i| {
            writes.put_item(order(&format!("o-{n}-{i}")))
        });
        let committed = shop.commit(&settlement, &writes).await;
        assert!(matches!(committed, Committed::Written));
        assert_eq!(shop.wire.units(), f64::from(2 + 2 * n), "{n} writes");
    }
}

#[tokio::test]
async fn a_commit_over_a_claim_of_its_own_takes_no_more() {
    let shop = shop().await;
    let claims = new_claims(1);
    assert!(shop.store.claim(&claims).await[0].is_ok());
    shop.wire.units();
    let settlement = settlements(&claims, &commit()).remove(0);
    let writes = Writes::new().put_item(order("o-1"));
    let committed = shop.commit(&settlement, &writes).await;
    assert!(matches!(committed, Committed::Written));
    assert_eq!(shop.wire.units(), 4.0);
}
