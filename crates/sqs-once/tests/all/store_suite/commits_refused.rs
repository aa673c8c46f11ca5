//! Transactions that DynamoDB cancels, and the reasons that the store distinguishes.

use aws_sdk_dynamodb::types::{Put, Update};
use serde_json::json;
use sqs_once::Writes;
use sqs_once::conformance::Fixture;
use sqs_once::store::StoreErrorKind::{AccessDenied, KeySchema, Other, Throttled, Unanswered};
use sqs_once::store::{Committed, Item, Settlement, StoreErrorKind};

use crate::store_suite::commits::{number, order, shop, taken, text};
use crate::store_suite::commits_together::because;
use crate::store_suite::support::{Networked, TABLE, new_commit, refused};
use crate::support::wire::Turn;
use crate::support::{assert_contains, assert_lacks};

const UNMET: &str = "ConditionalCheckFailed";
const INVALID: &str = "ValidationError";

fn writes() -> Writes {
    Writes::new().put_item(order("o-1")).update(taken("a-7"))
}

impl Networked {
    /// The key's item after another worker completed it.
    async fn completed(&self, settlement: &Settlement) -> Box<Item> {
        let mut other = new_commit();
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
            ([UNMET, code, "None"], "write 1 (update of"),
            ([INVALID, code, "None"], "write 1 (update of"),
            ([UNMET, INVALID, code], "the key's completion"),
        ] {
            shop.wire.next([because(&reasons)]);
            let error = shop.fails(&new_commit(), &writes()).await;
            assert_eq!(error.kind(), Throttled, "{reasons:?}");
            assert!(error.is_transient());
            assert_contains!(error.to_string(), whose, code);
            assert_eq!(shop.wire.seen(), ["TransactWriteItems"]);
        }
    }
}

#[tokio::test]
async fn a_refusal_by_the_key_comes_before_all_else() {
    let shop = shop().await;
    for reasons in [
        ["None", "None", UNMET],
        // DynamoDB does not promise to report every reason.
        [UNMET, "None", "None"],
        [UNMET; 3],
        ["TransactionConflict", INVALID, UNMET],
    ] {
        let settlement = new_commit();
        let item = shop.completed(&settlement).await;
        shop.wire.next([because(&reasons)]);
        let committed = shop.commit(&settlement, &writes()).await;
        assert_eq!(committed, Committed::Refused(item), "{reasons:?}");
        let read = ["TransactWriteItems", "BatchGetItem"];
        assert_eq!(shop.wire.seen(), read, "the item was not shown");
    }
}

#[tokio::test]
async fn a_commit_whose_refusal_is_gone_is_sent_again_and_is_unknown_after_two_tries() {
    let shop = shop().await;
    shop.put_stock("a-7", 1);
    let settlement = new_commit();
    let unmet = || because(&["None", "None", UNMET]);
    shop.wire.next([unmet(), Turn::Pass, unmet()]);
    let error = shop.fails(&settlement, &writes()).await;
    assert_eq!(error.kind(), Other);
    assert_eq!(shop.wire.seen().len(), 4);
    assert_eq!(shop.table.peek(&settlement.id).await, None);

    shop.wire.next([unmet()]);
    let committed = shop.commit(&settlement, &writes()).await;
    assert_eq!(committed, Committed::Written);
    let expected = ["TransactWriteItems", "BatchGetItem", "TransactWriteItems"];
    assert_eq!(shop.wire.seen(), expected);
    assert_eq!(shop.stock("a-7"), Some(0));
}

#[tokio::test]
async fn a_write_that_is_wrong_is_named_and_holds_up_no_other_message() {
    let shop = shop().await;
    let [first, second] = [
        "write 0 (put into table `orders`)",
        "write 1 (update of table `stock`)",
    ];
    for (reasons, named) in [
        (["None", INVALID, "None"], second),
        (["Validation of a key", "None", "None"], first),
        (["ItemCollectionSizeLimitExceeded", "None", "None"], first),
    ] {
        let settlement = new_commit();
        shop.wire.next([because(&reasons)]);
        let error = shop.fails(&settlement, &writes()).await;
        assert_eq!(error.kind(), Other, "{error}");
        assert!(!error.is_permanent());
        assert!(error.to_string().contains(named), "{error}");
        // A duplicate's writes may fail because the first delivery made them.
        let item = shop.completed(&settlement).await;
        shop.wire.next([because(&reasons)]);
        let committed = shop.commit(&settlement, &writes()).await;
        assert_eq!(committed, Committed::Refused(item));
    }
}

/// With these turns, the commit of [`writes`] fails in this way.
async fn assert_fails(turns: &[Turn], kind: StoreErrorKind, parts: &[&str]) {
    let shop = shop().await;
    shop.wire.next(turns.to_vec());
    let error = shop.fails(&new_commit(), &writes()).await;
    assert_eq!(error.kind(), kind, "{turns:?}: {error}");
    assert_eq!(error.is_transient(), kind == Unanswered, "{turns:?}");
    for part in parts {
        assert_contains!(error.to_string(), part);
    }
}

#[tokio::test]
async fn a_commit_that_fails_says_why() {
    let error = |code: &str, said: &str| refused(code, json!({ "Message": said }));
    let answer = |body: &str| Turn::Answer(200, body.to_owned());
    let is_wrong = "One of the required keys was not given a value";
    let mismatch = error("IdempotentParameterMismatchException", "");
    for (turn, part) in [
        (error("ValidationException", is_wrong), is_wrong),
        // The reasons do not fit the writes.
        (because(&[]), "3 writes"),
        (because(&[UNMET]), "3 writes"),
        (because(&["None"; 4]), "3 writes"),
        (because(&["None"; 3]), ""),
        (mismatch, "last ten minutes"),
        (answer(""), "answer"),
        (answer("{}"), "answer"),
    ] {
        assert_fails(&[turn], Other, &[part]).await;
    }

    let rejected = because(&["None", UNMET, "Validation of a key"]);
    assert_fails(&[rejected], KeySchema, &["the key's completion"]).await;
    // An earlier copy of the request is being carried out.
    let in_progress = error("TransactionInProgressException", "");
    assert_fails(&[in_progress], Unanswered, &[]).await;

    let denied = "User: arn:aws:sts::123456789012:assumed-role/orders is not authorized to perform: \
                  dynamodb:PutItem on resource: arn:aws:dynamodb:…";
    let needs = [
        denied,
        "dynamodb:PutItem on `orders`",
        "dynamodb:UpdateItem on `stock`",
        &format!("dynamodb:UpdateItem on `{TABLE}`"),
    ];
    let denied = error("AccessDeniedException", denied);
    assert_fails(std::slice::from_ref(&denied), AccessDenied, &needs).await;
    // The key can't be read.
    let conflict = because(&["None", UNMET, "None"]);
    assert_fails(&[conflict, denied], AccessDenied, &[]).await;
}

#[tokio::test]
async fn puts_that_only_dynamodb_can_tell_to_be_of_one_item_are_named() {
    let shop = shop().await;
    let of_one_item = || {
        let writes = Writes::new().update(taken("a-7"));
        writes.put_item(order("o-1")).put_item(order("o-1"))
    };
    let error = shop.fails(&new_commit(), &of_one_item()).await;
    assert_eq!(error.kind(), Other);
    let names = "write 1 (put into table `orders`), write 2 (put into table `orders`)";
    assert_contains!(error.to_string(), names);
    assert_lacks!(error.to_string(), "o-1", "write 0");
}

#[tokio::test]
async fn the_item_of_the_key_is_not_for_handlers_to_write() {
    let shop = shop().await;
    let settlement = new_commit();
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
    let writes = Writes::new().put_item(other);
    assert_eq!(shop.commit(&settlement, &writes).await, Committed::Written);
}
