//! A handler's writes and the record of its key: both or neither, through the real SDK.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::{
    AttributeValue, ConditionCheck, Delete, Put, ReturnValuesOnConditionCheckFailure, Update,
};
use sqs_once::conformance::Fixture;
use sqs_once::idempotency::{Commitment, Refusal, on_committed};
use sqs_once::policy::Disposition;
use sqs_once::store::{Committed, Conflict, DynamoDbStore, Settlement, Settling, Store, Writes};
use sqs_once_local::{KeyAttribute, TableDescription};

use crate::store_suite::support::{
    OnDynamoDb, commit, completion, new_claims, rivals, settlements,
};
use crate::support::wire::Wire;

/// The store's table and two tables of the handler, in the same DynamoDB.
pub(crate) struct Shop {
    pub(crate) table: OnDynamoDb,
    pub(crate) wire: Wire,
    pub(crate) store: DynamoDbStore,
}

pub(crate) async fn shop() -> Shop {
    on(OnDynamoDb::start().await).await
}

/// A shop with the default layout and one with another.
async fn shops() -> [Shop; 2] {
    [
        shop().await,
        on(OnDynamoDb::with_other_layout().await).await,
    ]
}

async fn on(table: OnDynamoDb) -> Shop {
    for name in ["orders", "stock"] {
        let description = TableDescription {
            name: name.to_owned(),
            partition_key: KeyAttribute::string("id"),
            sort_key: None,
            ttl_attribute: None,
        };
        table.local.create_table(&description).unwrap();
    }
    let wire = Wire::to(&table.local.endpoint(), []).await;
    let store = table.store_at(&wire.endpoint());
    Shop { table, wire, store }
}

impl Shop {
    pub(crate) async fn commit(&self, settlement: &Settlement, writes: &Writes) -> Committed {
        let atomic = self.store.atomic_writes().unwrap();
        atomic.commit(settlement, writes).await.unwrap()
    }

    /// The pieces of `article` in stock.
    pub(crate) async fn stock(&self, article: &str) -> Option<u32> {
        let item = self.get("stock", article).await?;
        Some(item["pieces"].as_n().unwrap().parse().unwrap())
    }

    pub(crate) async fn get(
        &self,
        table: &str,
        id: &str,
    ) -> Option<HashMap<String, AttributeValue>> {
        let get = self.table.client.get_item().table_name(table);
        let get = get.key("id", text(id)).consistent_read(true);
        get.send().await.unwrap().item
    }

    pub(crate) async fn put_stock(&self, article: &str, pieces: u32) {
        let put = self.table.client.put_item().table_name("stock");
        let put = put.item("id", text(article)).item("pieces", number(pieces));
        put.send().await.unwrap();
    }
}

pub(crate) fn text(value: &str) -> AttributeValue {
    AttributeValue::S(value.to_owned())
}

pub(crate) fn number(value: u32) -> AttributeValue {
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

fn conflict(committed: Committed) -> Conflict {
    match committed {
        Committed::Conflict(conflict) => *conflict,
        other => panic!("no conflict: {other:?}"),
    }
}

#[tokio::test]
async fn the_writes_and_the_record_of_the_key_happen_in_one_request() {
    for shop in shops().await {
        shop.put_stock("a-7", 3).await;
        shop.put_stock("old", 1).await;
        let settlement = settlements(&new_claims(1), &commit()).remove(0);
        let delete = Delete::builder()
            .table_name("stock")
            .key("id", text("old"))
            .build()
            .unwrap();
        let check = ConditionCheck::builder()
            .table_name("orders")
            .key("id", text("o-2"))
            .condition_expression("attribute_not_exists(id)")
            .build()
            .unwrap();
        let writes = Writes::new()
            .put_item(order("o-1"))
            .update(taken("a-7"))
            .delete(delete)
            .check(check);
        assert_eq!(shop.commit(&settlement, &writes).await, Committed::Written);
        assert_eq!(shop.wire.seen(), ["TransactWriteItems"]);
        assert!(shop.get("orders", "o-1").await.is_some());
        assert_eq!(shop.stock("a-7").await, Some(2));
        assert_eq!(shop.stock("old").await, None);
        let item = shop.table.peek(&settlement.id).await;
        assert_eq!(item, Some(settlement.write(None)));
    }
}

#[tokio::test]
async fn no_writes_at_all_still_record_the_key() {
    for shop in shops().await {
        let settlement = settlements(&new_claims(1), &commit()).remove(0);
        let committed = shop.commit(&settlement, &Writes::new()).await;
        assert_eq!(committed, Committed::Written);
        let item = shop.table.peek(&settlement.id).await;
        assert_eq!(item, Some(settlement.write(None)));
    }
}

#[tokio::test]
async fn a_duplicate_writes_nothing_and_takes_one_request() {
    for shop in shops().await {
        shop.put_stock("a-7", 3).await;
        let claims = new_claims(1);
        let first = settlements(&claims, &commit()).remove(0);
        let again = settlements(&rivals(&claims), &commit()).remove(0);
        let writes = Writes::new().update(taken("a-7"));
        shop.commit(&first, &writes).await;
        let kept = Box::new(shop.table.peek(&first.id).await.unwrap());
        shop.wire.seen();
        let committed = shop.commit(&again, &writes).await;
        assert_eq!(committed, Committed::Refused(kept));
        assert_eq!(shop.wire.seen(), ["TransactWriteItems"]);
        assert_eq!(shop.stock("a-7").await, Some(2));
    }
}

#[tokio::test]
async fn a_duplicate_whose_own_condition_fails_is_a_duplicate_and_no_conflict() {
    for shop in shops().await {
        let claims = new_claims(1);
        let first = settlements(&claims, &commit()).remove(0);
        let again = settlements(&rivals(&claims), &commit()).remove(0);
        let writes = Writes::new().put_item(order("o-1"));
        shop.commit(&first, &writes).await;
        let kept = Box::new(shop.table.peek(&first.id).await.unwrap());
        let committed = shop.commit(&again, &writes).await;
        assert_eq!(committed, Committed::Refused(kept));
    }
}

#[tokio::test]
async fn a_key_that_another_worker_has_is_left_to_it() {
    for shop in shops().await {
        shop.put_stock("a-7", 3).await;
        let claims = new_claims(1);
        shop.table.store().claim(&rivals(&claims)).await;
        let settlement = settlements(&claims, &commit()).remove(0);
        let writes = Writes::new().update(taken("a-7"));
        let Committed::Refused(item) = shop.commit(&settlement, &writes).await else {
            panic!("committed over a live claim");
        };
        let commitment = on_committed(settlement.owner, None, Some(&item));
        let lease_until = Some(claims[0].lease_until);
        assert_eq!(
            commitment,
            Commitment::Refused(Refusal::InProgress { lease_until })
        );
        assert_eq!(shop.stock("a-7").await, Some(3));
    }
}

#[tokio::test]
async fn a_claim_of_its_own_is_committed_over() {
    for shop in shops().await {
        let claims = new_claims(1);
        shop.table.store().claim(&claims).await;
        let settlement = settlements(&claims, &commit()).remove(0);
        let writes = Writes::new().put_item(order("o-1"));
        assert_eq!(shop.commit(&settlement, &writes).await, Committed::Written);
        assert!(shop.get("orders", "o-1").await.is_some());
    }
}

#[tokio::test]
async fn a_condition_that_is_not_met_writes_nothing_and_shows_the_item_it_asked_for() {
    for shop in shops().await {
        shop.put_stock("a-7", 0).await;
        let settlement = settlements(&new_claims(1), &commit()).remove(0);
        let writes = Writes::new().put_item(order("o-1")).update(taken("a-7"));
        let conflict = conflict(shop.commit(&settlement, &writes).await);
        assert_eq!(
            shop.wire.seen(),
            ["TransactWriteItems", "BatchGetItem"],
            "a duplicate's own conditions fail too: the key has the last word"
        );
        assert_eq!(conflict.index(), 1);
        assert_eq!(conflict.item().unwrap()["pieces"], number(0));
        assert_eq!(
            conflict.to_string(),
            "write 1 (update of table `stock`): its condition was not met"
        );
        assert!(shop.get("orders", "o-1").await.is_none());
        assert_eq!(shop.table.peek(&settlement.id).await, None);
    }
}

#[tokio::test]
async fn a_conflict_leaves_the_claim_as_it_was() {
    for shop in shops().await {
        let claims = new_claims(1);
        shop.table.store().claim(&claims).await;
        let settlement = settlements(&claims, &commit()).remove(0);
        let writes = Writes::new().update(taken("none"));
        let conflict = conflict(shop.commit(&settlement, &writes).await);
        assert!(conflict.item().is_none());
        let item = shop.table.peek(&settlement.id).await;
        assert_eq!(item, Some(claims[0].write(None)));
        let released = settlements(&claims, &Settling::Release);
        assert!(shop.table.store().settle(&released).await[0].is_ok());
    }
}

#[tokio::test]
async fn of_several_conditions_that_are_not_met_the_first_with_a_rule_decides() {
    let shop = shop().await;
    let writes = || {
        let unmet = Writes::new().check(absent("o-1")).update(taken("none"));
        unmet.put_item(order("o-2")).update(taken("neither"))
    };
    let terminal = |_: &Conflict| Disposition::Terminal;
    for (writes, decides) in [
        (writes(), 0),
        (writes().on_conflict(3, terminal), 3),
        (
            writes().on_conflict(3, terminal).on_conflict(1, terminal),
            1,
        ),
        (writes().on_conflict(2, terminal), 0),
    ] {
        let settlement = settlements(&new_claims(1), &commit()).remove(0);
        let conflict = conflict(shop.commit(&settlement, &writes).await);
        assert_eq!(conflict.index(), decides, "{writes:?}");
    }
}

/// Requires that an order does not exist.
fn absent(id: &str) -> ConditionCheck {
    let check = ConditionCheck::builder().table_name("orders");
    let check = check
        .key("id", text(id))
        .condition_expression("attribute_exists(id)");
    check.build().unwrap()
}

#[tokio::test]
async fn a_key_whose_completion_is_expired_is_committed_again_with_a_larger_fence() {
    for shop in shops().await {
        let claims = new_claims(1);
        shop.table.store().claim(&claims).await;
        let done = settlements(&claims, &completion());
        shop.table.store().settle(&done).await;
        let before = shop.table.peek(&claims[0].id).await;
        let mut later = settlements(&rivals(&claims), &commit()).remove(0);
        if let Settling::Commit(recording) = &mut later.settling {
            recording.now = claims[0].expiration + std::time::Duration::from_secs(1);
        }
        let writes = Writes::new().put_item(order("o-1"));
        assert_eq!(shop.commit(&later, &writes).await, Committed::Written);
        let item = shop.table.peek(&later.id).await;
        assert_eq!(item, Some(later.write(before.as_ref())));
    }
}
