//! Commits that share transactions: as many as fit, and each with its own result.

use aws_sdk_dynamodb::types::{Put, Update};
use serde_json::json;
use sqs_once::Writes;
use sqs_once::conformance::Fixture;
use sqs_once::store::StoreErrorKind::{AccessDenied, Other, Throttled, Unanswered};
use sqs_once::store::{Committed, Settlement, Store, StoreError};

use crate::store_suite::commits::{conflict, number, order, shop, shops, taken, text};
use crate::store_suite::support::{
    Networked, TABLE, commit_of, new_claims, new_commit, refused, rivals,
};
use crate::support::assert_contains;
use crate::support::wire::Turn;

const TRANSACTION: &str = "TransactWriteItems";
const READ: &str = "BatchGetItem";

/// A commit of a new key.
pub(crate) struct Entry {
    pub(crate) settlement: Settlement,
    pub(crate) writes: Writes,
}

pub(crate) fn entry(writes: Writes) -> Entry {
    let settlement = new_commit();
    Entry { settlement, writes }
}

fn ordering(id: &str) -> Entry {
    entry(Writes::new().put_item(order(id)))
}

/// This many new orders, with `writes` writes each.
fn orderings(count: usize, writes: usize) -> Vec<Entry> {
    let entries = (0..count).map(|at| {
        let orders = (0..writes).map(|write| order(&format!("o-{at}-{write}")));
        entry(orders.fold(Writes::new(), Writes::put_item))
    });
    entries.collect()
}

impl Networked {
    pub(crate) async fn commit_all<'a>(
        &self,
        entries: impl IntoIterator<Item = &'a Entry>,
    ) -> Vec<Outcome> {
        let entries = entries.into_iter();
        let commits: Vec<_> = entries.map(|one| (&one.settlement, &one.writes)).collect();
        let atomic = self.store.atomic_writes().unwrap();
        atomic.commit_all(&commits).await
    }

    /// The entries commit, except those at these places.
    pub(crate) async fn all_commit_except(
        &self,
        entries: &[Entry],
        except: &[usize],
    ) -> Vec<Outcome> {
        let answers = self.commit_all(entries).await;
        assert_eq!(answers.len(), entries.len());
        let mut others = Vec::new();
        for (at, answer) in answers.into_iter().enumerate() {
            if except.contains(&at) {
                others.push(answer);
            } else {
                assert_eq!(answer.unwrap(), Committed::Written, "entry {at}");
                self.assert_written(&entries[at].settlement).await;
            }
        }
        others
    }

    async fn commits_except(&self, entries: &[Entry], at: usize) -> Outcome {
        let mut others = self.all_commit_except(entries, &[at]).await;
        others.remove(0)
    }

    fn items_sent(&self) -> Vec<usize> {
        let bodies = self.wire.bodies().into_iter();
        let items = bodies.map(|body| body["TransactItems"].as_array().unwrap().len());
        items.collect()
    }
}

pub(crate) type Outcome = Result<Committed, StoreError>;

fn conflicts(outcome: &Outcome) -> usize {
    match outcome {
        Ok(Committed::Conflict(conflict)) => conflict.index(),
        other => panic!("no conflict: {other:?}"),
    }
}

/// DynamoDB cancels a transaction with these reasons.
pub(crate) fn because(codes: &[&str]) -> Turn {
    let reasons = codes.iter().map(|code| match *code {
        "None" => json!({ "Code": code }),
        "Validation of a key" => {
            let said = "The provided key element does not match the schema";
            json!({ "Code": "ValidationError", "Message": said })
        }
        _ => json!({ "Code": code, "Message": "Details" }),
    });
    let reasons: Vec<_> = reasons.collect();
    let reasons = json!({ "CancellationReasons": reasons });
    refused("TransactionCanceledException", reasons)
}

#[tokio::test]
async fn as_many_records_share_a_transaction_as_its_hundred_items_hold() {
    for (records, writes, expected) in [
        (100, 0, vec![100]),
        (101, 0, vec![100, 1]),
        (50, 1, vec![100]),
        (51, 1, vec![100, 2]),
        (10, 9, vec![100]),
        (12, 9, vec![100, 20]),
        (34, 2, vec![99, 3]),
        (2, 99, vec![100, 100]),
        (2, 50, vec![51, 51]),
    ] {
        let shop = shop().await;
        let entries = orderings(records, writes);
        shop.all_commit_except(&entries, &[]).await;
        let mut sent = shop.items_sent();
        sent.sort_by_key(|items| std::cmp::Reverse(*items));
        assert_eq!(sent, expected, "{records} records of {writes} writes");
        let units = 2 * records * (1 + writes);
        assert_eq!(shop.wire.units(), units as f64, "as many as one by one");
    }
}

fn large(id: &str, bytes: usize) -> Writes {
    let put = Put::builder().table_name("orders").item("id", text(id));
    let put = put.item("body", text(&"x".repeat(bytes)));
    Writes::new().put_item(put.build().unwrap())
}

#[tokio::test]
async fn a_transaction_stays_below_four_megabytes() {
    let shop = shop().await;
    let entries = (0..12).map(|at| entry(large(&format!("o-{at}"), 380_000)));
    let entries: Vec<_> = entries.collect();
    shop.all_commit_except(&entries, &[]).await;
    let mut sent = shop.items_sent();
    sent.sort_unstable();
    assert_eq!(sent, [4, 20]);
}

#[tokio::test]
async fn conditions_that_are_not_met_refuse_their_records_alone_and_are_decided_with_one_read() {
    for shop in shops().await {
        let mut entries = orderings(6, 1);
        for at in [0, 2, 4] {
            let article = format!("a-{at}");
            shop.put_stock(&article, 0);
            let writes = Writes::new().put_item(order(&format!("sold-{at}")));
            entries[at] = entry(writes.update(taken(&article)));
        }
        for refused in shop.all_commit_except(&entries, &[0, 2, 4]).await {
            let conflict = conflict(refused.unwrap());
            assert_eq!(conflict.index(), 1);
            assert_eq!(conflict.item().unwrap()["pieces"], number(0));
        }
        assert_eq!(shop.wire.seen(), [TRANSACTION, READ, TRANSACTION]);
        for at in [0, 2, 4] {
            assert!(shop.get("orders", &format!("sold-{at}")).is_none());
            let item = shop.table.peek(&entries[at].settlement.id).await;
            assert_eq!(item, None);
        }
    }
}

#[tokio::test]
async fn a_duplicate_is_refused_and_the_others_commit() {
    for shop in shops().await {
        let claims = new_claims(2);
        let mut entries = orderings(4, 1);
        let first = commit_of(&claims);
        let writes = Writes::new().put_item(order("o-1-0"));
        shop.commit(&first, &writes).await;
        shop.wire.seen();
        entries[1].settlement = commit_of(&rivals(&claims));
        let refused = shop.commits_except(&entries, 1).await;
        let kept = shop.table.peek(&first.id).await.unwrap();
        assert_eq!(refused.unwrap(), Committed::Refused(Box::new(kept)));
        // Its own condition is not met either, but the refusal contains the key's item.
        assert_eq!(shop.wire.seen(), [TRANSACTION, TRANSACTION]);

        // All of them are duplicates.
        let again = entries.iter().map(|one| {
            let mut again = entry(Writes::new().update(taken(one.settlement.id.as_str())));
            again.settlement.id = one.settlement.id.clone();
            again
        });
        let again: Vec<_> = again.collect();
        let answers = shop.commit_all(&again).await;
        let is_refused = |answer: &Outcome| matches!(answer, Ok(Committed::Refused(_)));
        assert!(answers.iter().all(is_refused), "{answers:?}");
        assert_eq!(shop.wire.seen(), [TRANSACTION]);
    }
}

#[tokio::test]
async fn an_item_that_is_too_large_fails_its_record_alone() {
    let shop = shop().await;
    let mut entries = orderings(4, 1);
    entries[1].writes = large("large", 420_000);
    let error = shop.commits_except(&entries, 1).await.unwrap_err();
    assert_eq!(error.kind(), Other, "{error}");
    assert!(!error.is_permanent());
    assert!(shop.get("orders", "large").is_none());
    assert_eq!(shop.table.peek(&entries[1].settlement.id).await, None);
}

/// The second update must see the first.
#[tokio::test]
async fn two_records_that_write_one_item_commit_one_after_the_other() {
    let shop = shop().await;
    shop.put_stock("a-7", 2);
    let taking = |id: &str| entry(Writes::new().put_item(order(id)).update(taken("a-7")));
    let [second, fourth] = ["o-2", "o-4"].map(ordering);
    let entries = [taking("o-1"), second, taking("o-3"), fourth];
    shop.all_commit_except(&entries, &[]).await;
    assert_eq!(shop.stock("a-7"), Some(0));
    assert_eq!(shop.items_sent(), [5, 5]);

    // The stock lasts for one of three.
    shop.put_stock("a-7", 1);
    let entries = [taking("o-5"), taking("o-6"), taking("o-7")];
    let refused = shop.all_commit_except(&entries, &[1, 2]).await;
    assert!(refused.iter().all(|refused| conflicts(refused) == 1));
    assert_eq!(shop.stock("a-7"), Some(0));
}

#[tokio::test]
async fn puts_that_only_dynamodb_can_tell_to_be_of_one_item_are_sent_alone() {
    let shop = shop().await;
    let put = |total| {
        let put = Put::builder().table_name("orders").item("id", text("o-1"));
        entry(Writes::new().put_item(put.item("total", number(total)).build().unwrap()))
    };
    let entries = [put(1), put(2), ordering("o-2")];
    // DynamoDB accepts the two puts in any order, and may find them in conflict for a moment.
    for answer in shop.commit_all(&entries).await {
        match answer {
            Ok(committed) => assert_eq!(committed, Committed::Written),
            Err(error) => assert_eq!(error.kind(), Throttled),
        }
    }
    assert!(shop.get("orders", "o-2").is_some());
    assert_eq!(shop.wire.seen(), [TRANSACTION; 4]);

    // A write that shows the table's key spares the attempt.
    let update = Update::builder().table_name("orders");
    let update = update.key("id", text("o-3")).update_expression("REMOVE a");
    let update = entry(Writes::new().update(update.build().unwrap()));
    shop.items_sent();
    let entries = [put(3), put(4), update, ordering("o-4")];
    shop.all_commit_except(&entries[1..], &[]).await;
    assert_eq!(shop.commit_all(&entries).await.len(), 4);
    assert_eq!(shop.items_sent(), [6, 2, 6]);
}

#[tokio::test]
async fn a_write_to_the_item_of_another_key_fails_nothing_else() {
    let shop = shop().await;
    let mut entries = orderings(3, 1);
    let id = entries[0].settlement.id.as_str().to_owned();
    let put = Put::builder().table_name(TABLE).item("id", text(&id));
    let put = put.item("status", text("COMPLETED"));
    let put = put.condition_expression("attribute_not_exists(id)");
    entries[2].writes = Writes::new().put_item(put.build().unwrap());
    let answers = shop.commit_all(&entries).await;
    assert_eq!(*answers[1].as_ref().unwrap(), Committed::Written);
    let is_written = |answer: &&Outcome| matches!(answer, Ok(Committed::Written));
    let written = answers.iter().filter(is_written);
    assert_eq!(written.count(), 2, "{answers:?}");
}

#[tokio::test]
async fn what_a_moment_may_change_is_told_of_every_record_and_nothing_else_is_tried() {
    let shop = shop().await;
    for (turn, kind) in [
        (refused("ThrottlingException", json!({})), Throttled),
        (Turn::LoseRequest, Unanswered),
    ] {
        shop.wire.next([turn]);
        for answer in shop.commit_all(&orderings(3, 1)).await {
            assert_eq!(answer.unwrap_err().kind(), kind);
        }
        assert_eq!(shop.wire.seen().len(), 1);
    }
}

#[tokio::test]
async fn another_transaction_on_an_item_holds_up_its_record_alone() {
    let shop = shop().await;
    let entries = [ordering("o-1"), ordering("o-2")];
    let busy = because(&["TransactionConflict", "None", "None", "None"]);
    shop.wire.next([busy]);
    let error = shop.commits_except(&entries, 0).await.unwrap_err();
    assert_eq!(error.kind(), Throttled);
    assert_contains!(error.to_string(), "write 0 (put into table `orders`)");
    assert_eq!(shop.wire.seen(), [TRANSACTION; 2]);
}

#[tokio::test]
async fn an_error_that_names_no_record_sends_each_alone() {
    let error = |code: &str| refused(code, json!({ "Message": "no" }));
    for turn in [
        error("ValidationException"),
        error("AccessDeniedException"),
        error("ResourceNotFoundException"),
        error("IdempotentParameterMismatchException"),
        because(&[]),
        because(&["None"; 3]),
        because(&["None"; 5]),
        because(&["None"; 4]),
    ] {
        let shop = shop().await;
        shop.wire.next([turn.clone()]);
        let entries = [ordering("o-1"), ordering("o-2")];
        shop.all_commit_except(&entries, &[]).await;
        assert_eq!(shop.items_sent(), [4, 2, 2], "{turn:?}");
    }
}

#[tokio::test]
async fn a_table_that_is_denied_or_missing_fails_only_the_records_that_write_it() {
    let shop = shop().await;
    let mut entries = orderings(3, 1);
    let put = Put::builder().table_name("ordrs").item("id", text("o-1"));
    entries[1].writes = Writes::new().put_item(put.build().unwrap());
    let error = shop.commits_except(&entries, 1).await.unwrap_err();
    assert_eq!(error.kind(), Other);
    assert!(!error.is_permanent(), "it may be one message that is wrong");
    assert_contains!(error.to_string(), &format!("`ordrs`, `{TABLE}`"));

    let denied = refused("AccessDeniedException", json!({ "Message": "no" }));
    shop.wire.next([denied.clone(), denied]);
    let answers = shop.commit_all(&[ordering("p-1"), ordering("p-2")]).await;
    let errors = answers.into_iter().filter_map(Result::err);
    let kinds: Vec<_> = errors.map(|error| error.kind()).collect();
    assert_eq!(kinds, [AccessDenied]);
}

#[tokio::test]
async fn records_that_keep_on_being_refused_one_by_one_end_with_a_transaction_each() {
    let shop = shop().await;
    // Each answer names one more record, though DynamoDB usually names all at once.
    let [first, second, third] = [8, 7, 6].map(|records| {
        let mut reasons = vec!["None"; 2 * records];
        reasons[0] = "ConditionalCheckFailed";
        because(&reasons)
    });
    let turns = [first, Turn::Pass, second, Turn::Pass, third];
    shop.wire.next(turns);
    let entries = orderings(8, 1);
    let refused = shop.all_commit_except(&entries, &[0, 1, 2]).await;
    assert!(refused.iter().all(|refused| conflicts(refused) == 0));
    let mut sent = shop.wire.seen();
    sent.retain(|operation| *operation == TRANSACTION);
    assert_eq!(sent.len(), 3 + 5);
}

#[tokio::test]
async fn nothing_to_commit_takes_no_request_and_one_commit_is_a_transaction_of_its_own() {
    let shop = shop().await;
    assert!(shop.commit_all(&[]).await.is_empty());
    assert_eq!(shop.wire.seen(), [""; 0]);
    let entries = [ordering("o-1")];
    shop.all_commit_except(&entries, &[]).await;
    let [body] = shop.wire.bodies().try_into().unwrap();
    let owner = entries[0].settlement.owner.to_string();
    assert_eq!(body["ClientRequestToken"], owner);
}
