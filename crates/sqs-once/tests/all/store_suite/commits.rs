//! A handler's writes and the completion of its key: both or neither, through the real SDK, answered or not.

use aws_sdk_dynamodb::types::{
    AttributeValue, ConditionCheck, Delete, Put, ReturnValuesOnConditionCheckFailure, Update,
};
use serde_json::{Value, json};
use sqs_once::Writes;
use sqs_once::conformance::Fixture;
use sqs_once::policy::Disposition;
use sqs_once::store::StoreErrorKind::Unanswered;
use sqs_once::store::{Committed, Conflict, Settlement, Store, StoreError};
use sqs_once::unstable::on_committed;

use crate::store_suite::commits_together::{Entry, entry};
use crate::store_suite::requests::losses;
use crate::store_suite::support::{Networked, commit_of, new_claims, new_commit, refused, rivals};
use crate::support::dynamodb::create_shop;
use crate::support::wire::Turn;

/// The store's table and two tables of the handler, in the same DynamoDB.
pub(crate) async fn shop() -> Networked {
    with_tables(Networked::with([]).await)
}

/// A shop with the default layout and one with another.
pub(crate) async fn shops() -> [Networked; 2] {
    Networked::both().await.map(with_tables)
}

fn with_tables(shop: Networked) -> Networked {
    create_shop(&shop.table.local);
    shop
}

impl Networked {
    pub(crate) async fn commit(&self, settlement: &Settlement, writes: &Writes) -> Committed {
        self.try_commit(settlement, writes).await.unwrap()
    }

    pub(crate) async fn fails(&self, settlement: &Settlement, writes: &Writes) -> StoreError {
        self.try_commit(settlement, writes).await.unwrap_err()
    }

    async fn try_commit(
        &self,
        settlement: &Settlement,
        writes: &Writes,
    ) -> Result<Committed, StoreError> {
        let atomic = self.store.atomic_writes().unwrap();
        atomic.commit(settlement, writes).await
    }

    /// The item of a settlement's key is as it left it.
    pub(crate) async fn assert_written(&self, settlement: &Settlement) {
        let item = self.table.peek(&settlement.id).await;
        assert_eq!(item, Some(settlement.write(None)));
    }

    pub(crate) fn stock(&self, article: &str) -> Option<u64> {
        let item = self.get("stock", article)?;
        Some(item["pieces"]["N"].as_str().unwrap().parse().unwrap())
    }

    pub(crate) fn get(&self, table: &str, id: &str) -> Option<Value> {
        let key = json!({ "id": { "S": id } });
        self.table.local.item(table, key).unwrap()
    }

    pub(crate) fn put_stock(&self, article: &str, pieces: u64) {
        let item = json!({ "id": { "S": article }, "pieces": { "N": pieces.to_string() } });
        self.table.local.put_item("stock", item).unwrap();
    }
}

pub(crate) fn text(value: &str) -> AttributeValue {
    AttributeValue::S(value.to_owned())
}

pub(crate) fn number(value: u64) -> AttributeValue {
    AttributeValue::N(value.to_string())
}

/// A new order. Fails if the order exists.
pub(crate) fn order(id: &str) -> Put {
    let put = Put::builder().table_name("orders").item("id", text(id));
    let put = put.condition_expression("attribute_not_exists(id)");
    put.build().unwrap()
}

/// Takes one piece from the stock. Fails if the stock is empty.
pub(crate) fn taken(article: &str) -> Update {
    Update::builder()
        .table_name("stock")
        .key("id", text(article))
        .update_expression("SET pieces = pieces - :one")
        .condition_expression("pieces >= :one")
        .expression_attribute_values(":one", number(1))
        .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
        .build()
        .unwrap()
}

pub(crate) fn conflict(committed: Committed) -> Conflict {
    match committed {
        Committed::Conflict(conflict) => *conflict,
        other => panic!("no conflict: {other:?}"),
    }
}

#[tokio::test]
async fn the_writes_and_the_completion_of_the_key_happen_in_one_request() {
    for shop in shops().await {
        shop.put_stock("a-7", 3);
        shop.put_stock("old", 1);
        let settlement = new_commit();
        let delete = Delete::builder().table_name("stock").key("id", text("old"));
        let writes = Writes::new()
            .put_item(order("o-1"))
            .update(taken("a-7"))
            .delete(delete.build().unwrap())
            .check(check("o-2", "attribute_not_exists(id)"));
        assert_eq!(shop.commit(&settlement, &writes).await, Committed::Written);
        assert_eq!(shop.wire.seen(), ["TransactWriteItems"]);
        assert!(shop.get("orders", "o-1").is_some());
        assert_eq!(shop.stock("a-7"), Some(2));
        assert_eq!(shop.stock("old"), None);
        shop.assert_written(&settlement).await;
    }
}

/// The second order's own condition fails too, since the first delivery made it.
#[tokio::test]
async fn a_duplicate_writes_nothing_and_takes_one_request_whatever_its_own_conditions_say() {
    for shop in shops().await {
        shop.put_stock("a-7", 3);
        for writes in [
            Writes::new().update(taken("a-7")),
            Writes::new().put_item(order("o-1")),
        ] {
            let claims = new_claims(1);
            let first = commit_of(&claims);
            shop.commit(&first, &writes).await;
            let kept = Box::new(shop.table.peek(&first.id).await.unwrap());
            shop.wire.seen();
            let again = commit_of(&rivals(&claims));
            let committed = shop.commit(&again, &writes).await;
            assert_eq!(committed, Committed::Refused(kept));
            assert_eq!(shop.wire.seen(), ["TransactWriteItems"]);
        }
        assert_eq!(shop.stock("a-7"), Some(2));
    }
}

#[tokio::test]
async fn a_condition_that_is_not_met_writes_nothing_and_shows_the_item_it_asked_for() {
    for shop in shops().await {
        shop.put_stock("a-7", 0);
        let settlement = new_commit();
        let writes = Writes::new().put_item(order("o-1")).update(taken("a-7"));
        let conflict = conflict(shop.commit(&settlement, &writes).await);
        // A duplicate's own conditions fail too: the key has the last word.
        assert_eq!(shop.wire.seen(), ["TransactWriteItems", "BatchGetItem"]);
        assert_eq!(conflict.index(), 1);
        let write = (conflict.operation(), conflict.table());
        assert_eq!(write, ("update", "stock"));
        assert_eq!(conflict.item().unwrap()["pieces"], number(0));
        let said = "write 1 (update of table `stock`): its condition was not met";
        assert_eq!(conflict.to_string(), said);
        assert!(shop.get("orders", "o-1").is_none());
        assert_eq!(shop.table.peek(&settlement.id).await, None);
    }
}

#[tokio::test]
async fn of_several_conditions_that_are_not_met_the_first_with_a_rule_decides() {
    let shop = shop().await;
    let ruled = |writes: Writes, has_rule: bool| match has_rule {
        true => writes.on_conflict(|_| Disposition::Terminal),
        false => writes,
    };
    // The condition of the third write is met.
    for (rules, decides) in [
        ([false, false, false], 0),
        ([false, false, true], 3),
        ([true, false, true], 1),
        ([false, true, false], 0),
    ] {
        let writes = Writes::new().check(check("o-1", "attribute_exists(id)"));
        let writes = ruled(writes.update(taken("none")), rules[0]);
        let writes = ruled(writes.put_item(order("o-2")), rules[1]);
        let writes = ruled(writes.update(taken("neither")), rules[2]);
        let settlement = new_commit();
        let conflict = conflict(shop.commit(&settlement, &writes).await);
        assert_eq!(conflict.index(), decides, "{writes:?}");
    }
}

fn check(id: &str, condition: &str) -> ConditionCheck {
    let check = ConditionCheck::builder().table_name("orders");
    let check = check.key("id", text(id));
    check.condition_expression(condition).build().unwrap()
}

/// Entries that take one of three pieces each.
fn takings<const N: usize>(shop: &Networked) -> [Entry; N] {
    std::array::from_fn(|at| {
        let article = format!("a-{at}");
        shop.put_stock(&article, 3);
        entry(Writes::new().update(taken(&article)))
    })
}

async fn happen_once_though_sent_twice<const N: usize>() {
    let in_progress = refused("TransactionInProgressException", json!({}));
    for loss in losses().into_iter().chain([Turn::LoseRequest, in_progress]) {
        let shop = shop().await;
        shop.wire.next([loss.clone()]);
        let entries = takings::<N>(&shop);
        for answer in shop.commit_all(&entries).await {
            assert_eq!(answer.unwrap_err().kind(), Unanswered, "{loss:?}");
        }
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
async fn commits_whose_answer_was_lost_can_be_sent_again_and_happen_once() {
    happen_once_though_sent_twice::<1>().await;
    happen_once_though_sent_twice::<3>().await;
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
        shop.wire.next([Turn::LoseAnswer]);
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
