//! Transactions that DynamoDB cancels, and the reasons that the store distinguishes.

use std::error::Error as _;

use aws_sdk_dynamodb::types::{Put, Update};
use serde_json::{Value, json};
use sqs_once::conformance::Fixture;
use sqs_once::idempotency::{Commitment, claim, on_committed};
use sqs_once::store::{
    Committed, Item, Settlement, Settling, Store, StoreError, StoreErrorKind, Writes,
};

use crate::store_suite::commits::{Shop, number, order, shop, taken, text};
use crate::store_suite::support::{TABLE, commit, completion, new_claims, rivals, settlements};
use crate::support::wire::Turn;

const TYPE: &str = "com.amazonaws.dynamodb.v20120810#";

fn settlement() -> Settlement {
    settlements(&new_claims(1), &commit()).remove(0)
}

/// Two writes of the handler.
fn writes() -> Writes {
    Writes::new().put_item(order("o-1")).update(taken("a-7"))
}

/// DynamoDB cancels the transaction of these writes and the record of the key, with a reason for each.
fn cancelled(reasons: [&str; 3]) -> Turn {
    let reasons = reasons.map(|code| match code {
        "None" => json!({"Code": code}),
        "Validation of a key" => json!({
            "Code": "ValidationError",
            "Message": "The provided key element does not match the schema",
        }),
        _ => json!({"Code": code, "Message": "Details"}),
    });
    answer(
        "TransactionCanceledException",
        &json!({ "CancellationReasons": reasons }),
    )
}

fn answer(code: &str, with: &Value) -> Turn {
    let mut body = json!({"__type": format!("{TYPE}{code}"), "Message": "Said by DynamoDB"});
    let fields = with.as_object().unwrap().clone();
    body.as_object_mut().unwrap().extend(fields);
    Turn::Answer(400, body.to_string())
}

impl Shop {
    async fn fails(&self, settlement: &Settlement, writes: &Writes) -> StoreError {
        let atomic = self.store.atomic_writes().unwrap();
        atomic.commit(settlement, writes).await.unwrap_err()
    }

    /// The key's item after another worker completed it.
    async fn completed(&self, settlement: &Settlement) -> Box<Item> {
        let mut other = settlements(&new_claims(1), &commit()).remove(0);
        other.id = settlement.id.clone();
        self.table.store().settle(&[other]).await;
        Box::new(self.table.peek(&settlement.id).await.unwrap())
    }
}

#[tokio::test]
async fn what_a_moment_may_change_is_tried_again_whatever_else_is_wrong() {
    let shop = shop().await;
    for code in [
        "TransactionConflict",
        "ThrottlingError",
        "ProvisionedThroughputExceeded",
        "RequestLimitExceeded",
    ] {
        for (reasons, whose) in [
            ([code, "None", "None"], "write 0 (put into table `orders`)"),
            (
                ["ConditionalCheckFailed", code, "None"],
                "write 1 (update of",
            ),
            (["ValidationError", code, "None"], "write 1 (update of"),
            (
                ["ConditionalCheckFailed", "ValidationError", code],
                "the record of the key",
            ),
        ] {
            shop.wire.next([cancelled(reasons)]);
            let error = shop.fails(&settlement(), &writes()).await;
            assert_eq!(error.kind(), StoreErrorKind::Throttled, "{reasons:?}");
            assert!(error.is_transient());
            assert!(error.to_string().contains(whose), "{error}");
            assert!(error.to_string().contains(code), "{error}");
            assert_eq!(shop.wire.seen(), ["TransactWriteItems"]);
        }
    }
}

#[tokio::test]
async fn a_refusal_by_the_key_comes_before_all_else() {
    let shop = shop().await;
    for reasons in [
        ["None", "None", "ConditionalCheckFailed"],
        [
            "ConditionalCheckFailed",
            "ConditionalCheckFailed",
            "ConditionalCheckFailed",
        ],
        [
            "TransactionConflict",
            "ValidationError",
            "ConditionalCheckFailed",
        ],
    ] {
        let settlement = settlement();
        let item = shop.completed(&settlement).await;
        shop.wire.next([cancelled(reasons)]);
        let committed = shop.commit(&settlement, &writes()).await;
        assert_eq!(committed, Committed::Refused(item), "{reasons:?}");
        let read = ["TransactWriteItems", "BatchGetItem"];
        assert_eq!(shop.wire.seen(), read, "the item was not shown");
    }
}

#[tokio::test]
async fn a_commit_whose_refusal_is_gone_is_sent_again_and_happens() {
    let shop = shop().await;
    shop.put_stock("a-7", 1).await;
    let settlement = settlement();
    let refused = ["None", "None", "ConditionalCheckFailed"];
    shop.wire.next([cancelled(refused)]);
    assert_eq!(
        shop.commit(&settlement, &writes()).await,
        Committed::Written
    );
    let expected = ["TransactWriteItems", "BatchGetItem", "TransactWriteItems"];
    assert_eq!(shop.wire.seen(), expected);
    assert_eq!(shop.stock("a-7").await, Some(0));
}

#[tokio::test]
async fn a_commit_that_nothing_seems_to_refuse_is_unknown_after_two_tries() {
    let shop = shop().await;
    let refused = || cancelled(["None", "None", "ConditionalCheckFailed"]);
    shop.wire.next([refused(), Turn::Pass, refused()]);
    let settlement = settlement();
    let error = shop.fails(&settlement, &writes()).await;
    assert_eq!(error.kind(), StoreErrorKind::Other);
    assert_eq!(shop.wire.seen().len(), 4);
    assert_eq!(shop.table.peek(&settlement.id).await, None);
}

#[tokio::test]
async fn a_write_that_is_wrong_is_named_and_holds_up_no_other_message() {
    let shop = shop().await;
    for (reasons, named) in [
        (
            ["None", "ValidationError", "None"],
            "write 1 (update of table `stock`)",
        ),
        (
            ["Validation of a key", "None", "None"],
            "write 0 (put into table `orders`)",
        ),
        (
            ["ItemCollectionSizeLimitExceeded", "None", "None"],
            "write 0",
        ),
    ] {
        let settlement = settlement();
        shop.wire.next([cancelled(reasons)]);
        let error = shop.fails(&settlement, &writes()).await;
        assert_eq!(error.kind(), StoreErrorKind::Other, "{error}");
        assert!(!error.is_permanent());
        assert!(error.to_string().contains(named), "{error}");
        // A duplicate's writes may fail because the first delivery made them.
        let item = shop.completed(&settlement).await;
        shop.wire.next([cancelled(reasons)]);
        let committed = shop.commit(&settlement, &writes()).await;
        assert_eq!(committed, Committed::Refused(item));
    }
}

/// DynamoDB does not promise to report every reason.
#[tokio::test]
async fn a_duplicate_of_which_only_its_own_condition_is_told_is_a_duplicate() {
    let shop = shop().await;
    let settlement = settlement();
    let item = shop.completed(&settlement).await;
    let told = ["ConditionalCheckFailed", "None", "None"];
    shop.wire.next([cancelled(told)]);
    let committed = shop.commit(&settlement, &writes()).await;
    assert_eq!(committed, Committed::Refused(item));
    let expected = ["TransactWriteItems", "BatchGetItem"];
    assert_eq!(shop.wire.seen(), expected);
}

#[tokio::test]
async fn a_request_that_is_wrong_holds_up_no_other_message() {
    let shop = shop().await;
    let said = "One of the required keys was not given a value";
    let refused = answer("ValidationException", &json!({ "Message": said }));
    shop.wire.next([refused]);
    let error = shop.fails(&settlement(), &writes()).await;
    assert_eq!(error.kind(), StoreErrorKind::Other);
    assert!(error.to_string().contains(said), "{error}");
}

#[tokio::test]
async fn a_record_that_the_table_can_not_take_is_told_from_a_wrong_write() {
    let shop = shop().await;
    shop.wire.next([cancelled([
        "None",
        "ConditionalCheckFailed",
        "Validation of a key",
    ])]);
    let error = shop.fails(&settlement(), &writes()).await;
    assert_eq!(error.kind(), StoreErrorKind::KeySchema);
    assert!(
        error.to_string().contains("the record of the key"),
        "{error}"
    );
}

#[tokio::test]
async fn a_condition_is_no_conflict_as_long_as_the_key_could_not_be_read() {
    let shop = shop().await;
    let denied = answer("AccessDeniedException", &json!({}));
    shop.wire.next([
        cancelled(["None", "ConditionalCheckFailed", "None"]),
        denied,
    ]);
    let error = shop.fails(&settlement(), &writes()).await;
    assert_eq!(error.kind(), StoreErrorKind::AccessDenied);
}

#[tokio::test]
async fn reasons_that_do_not_fit_the_writes_are_an_error() {
    let shop = shop().await;
    for reasons in [
        json!([]),
        json!([{"Code": "ConditionalCheckFailed"}]),
        json!([{}, {}, {}, {}]),
    ] {
        let with = json!({ "CancellationReasons": reasons });
        shop.wire
            .next([answer("TransactionCanceledException", &with)]);
        let error = shop.fails(&settlement(), &writes()).await;
        assert_eq!(error.kind(), StoreErrorKind::Other);
        assert!(error.to_string().contains("3 writes"), "{error}");
    }
    // Cancelled without any reason.
    shop.wire.next([cancelled(["None"; 3])]);
    let error = shop.fails(&settlement(), &writes()).await;
    assert_eq!(error.kind(), StoreErrorKind::Other);
}

#[tokio::test]
async fn other_writes_by_the_owner_of_a_commit_change_nothing_and_count_as_recorded() {
    let shop = shop().await;
    shop.put_stock("a-7", 3).await;
    let settlement = settlement();
    shop.commit(&settlement, &writes()).await;
    let others = Writes::new().put_item(order("o-2"));
    let Committed::Refused(item) = shop.commit(&settlement, &others).await else {
        panic!("committed twice");
    };
    let commitment = on_committed(settlement.owner, None, Some(&item));
    assert_eq!(commitment, Commitment::Recorded);
    assert!(shop.get("orders", "o-2").await.is_none());
}

#[tokio::test]
async fn a_token_that_is_in_use_for_something_else_is_an_error_that_says_so() {
    let shop = shop().await;
    shop.wire
        .next([answer("IdempotentParameterMismatchException", &json!({}))]);
    let error = shop.fails(&settlement(), &writes()).await;
    assert_eq!(error.kind(), StoreErrorKind::Other);
    assert!(error.to_string().contains("last ten minutes"), "{error}");
    assert!(error.source().is_some());
}

#[tokio::test]
async fn denied_access_names_every_action_that_the_commit_needs() {
    let shop = shop().await;
    let said = "User: arn:aws:sts::123456789012:assumed-role/orders is not authorized to perform: \
                dynamodb:PutItem on resource: arn:aws:dynamodb:…";
    shop.wire
        .next([answer("AccessDeniedException", &json!({ "Message": said }))]);
    let error = shop.fails(&settlement(), &writes()).await;
    assert_eq!(error.kind(), StoreErrorKind::AccessDenied);
    let shown = error.to_string();
    for part in [
        said,
        "dynamodb:PutItem on `orders`",
        "dynamodb:UpdateItem on `stock`",
        &format!("dynamodb:UpdateItem on `{TABLE}`"),
    ] {
        assert!(shown.contains(part), "{shown}");
    }
}

#[tokio::test]
async fn a_missing_table_is_one_of_those_named() {
    let shop = shop().await;
    let put = Put::builder().table_name("ordrs").item("id", text("o-1"));
    let writes = Writes::new().put_item(put.build().unwrap());
    let error = shop.fails(&settlement(), &writes).await;
    assert_eq!(error.kind(), StoreErrorKind::Other);
    assert!(!error.is_permanent(), "it may be one message that is wrong");
    let named = format!("`ordrs`, `{TABLE}`");
    assert!(error.to_string().contains(&named), "{error}");
}

#[tokio::test]
async fn puts_that_only_dynamodb_can_tell_to_be_of_one_item_are_named() {
    let shop = shop().await;
    let of_one_item = || {
        let writes = Writes::new().update(taken("a-7"));
        writes.put_item(order("o-1")).put_item(order("o-1"))
    };
    let error = shop.fails(&settlement(), &of_one_item()).await;
    assert_eq!(error.kind(), StoreErrorKind::Other);
    let names = "write 1 (put into table `orders`), write 2 (put into table `orders`)";
    assert!(error.to_string().contains(names), "{error}");
    assert!(!error.to_string().contains("o-1"), "{error}");
    assert!(!error.to_string().contains("write 0"), "{error}");
}

#[tokio::test]
async fn the_item_of_the_key_is_not_for_handlers_to_write() {
    let shop = shop().await;
    let settlement = settlement();
    let id = settlement.id.as_str();
    let put = Put::builder().table_name(TABLE).item("id", text(id));
    let put = put.item("status", text("COMPLETED")).build().unwrap();
    let update = Update::builder().table_name(TABLE).key("id", text(id));
    let update = update.update_expression("REMOVE #o").build().unwrap();
    for writes in [
        Writes::new().put_item(order("o-1")).put_item(put),
        Writes::new().put_item(order("o-1")).update(update),
    ] {
        let error = shop.fails(&settlement, &writes).await;
        assert!(error.to_string().contains("write 1"), "{error}");
        assert!(!error.to_string().contains(id), "{error}");
        assert!(shop.wire.seen().is_empty());
    }
    // Other items in that table belong to the handler.
    let other = Put::builder().table_name(TABLE).item("id", text("order#1"));
    let other = other.item("total", number(7)).build().unwrap();
    let committed = shop
        .commit(&settlement, &Writes::new().put_item(other))
        .await;
    assert_eq!(committed, Committed::Written);
}

#[tokio::test]
async fn a_claim_that_was_taken_over_commits_nothing() {
    let shop = shop().await;
    let claims = new_claims(1);
    let store = shop.table.store();
    store.claim(&claims).await;
    store
        .settle(&settlements(&claims, &Settling::Release))
        .await;
    let others = rivals(&claims);
    claim(store, &others).await;
    let late = settlements(&claims, &commit()).remove(0);
    let committed = shop.commit(&late, &writes()).await;
    assert!(matches!(committed, Committed::Refused(_)));
    store.settle(&settlements(&others, &completion())).await;
    let committed = shop.commit(&late, &writes()).await;
    assert!(matches!(committed, Committed::Refused(_)));
    assert!(shop.get("orders", "o-1").await.is_none());
}
