//! Checks what the store concludes from DynamoDB's answers.

mod dynamodb;
mod reference;

use std::time::Duration;

use serde_json::Value;
use sqs_once::DynamoDbStore;
use sqs_once::key::ItemId;
use sqs_once::store::{
    Claim, Claimed, Item, Owner, Settled, Settlement, Settling, Status, Store, TableLayout,
    Timestamp,
};

use crate::runtime;
use dynamodb::Answer;
use reference::Names;

const NOW: Timestamp = Timestamp::from_secs(1_790_000_000);

thread_local! {
    static STORES: [(DynamoDbStore, Names); 2] = {
        let sorted = TableLayout::default()
            .partition_key("pk")
            .sort_key("sk")
            .partition_value("idempotency")
            .status("state")
            .expiration("ttl");
        let by_default = DynamoDbStore::new(dynamodb::client(), dynamodb::TABLE);
        let sorted = by_default.clone().layout(sorted).expect("a layout that is valid");
        [(by_default, Names::DEFAULT), (sorted, Names { id: "sk", status: "state", expiration: "ttl" })]
    };
}

/// Checks the promises of the store for any answers. The first line is the operation (`claim`, `claims`, `complete`,
/// `completes`, `read`), followed by `sorted` for a table with a sort key and other names. Each later line is the
/// answer to a request: a status, a space, and the body.
///
/// - The store grants a claim only if an answer does, with the fence from that answer.
/// - The store reports a settlement as written only if an answer shows the write.
/// - An item that the store reads, or that refuses a claim, comes from an answer, with the same attributes.
/// - A key is free only if an answer lists the found items completely, without the key.
/// - No worker can claim an item with an unknown status.
///
/// # Panics
/// If the store breaks a promise.
pub fn item(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let mut lines = text.lines();
    let first = lines.next().and_then(|line| line.split_once(' '));
    let (operation, layout) = first.unwrap_or_default();
    let answers: Vec<_> = lines.map_while(Answer::read).collect();
    // The SDK accepts some objects that are not quite JSON. The reference does not.
    if answers.iter().any(Answer::is_almost_json) {
        return;
    }
    dynamodb::answer_with(&answers);
    STORES.with(|stores| {
        let (store, names) = &stores[usize::from(layout == "sorted")];
        let said = Said {
            answers: &answers,
            names,
        };
        runtime::block_on(ask(operation, store, &said));
    });
}

async fn ask(operation: &str, store: &DynamoDbStore, said: &Said<'_>) {
    let ids = [id(1), id(2)];
    let count = match operation {
        "claims" | "completes" => 2,
        _ => 1,
    };
    match operation {
        "claim" | "claims" => {
            let claims = ids.clone().map(claim);
            for (claim, claimed) in claims.iter().zip(store.claim(&claims[..count]).await) {
                if let Ok(claimed) = claimed {
                    said.claimed(claim, &claimed);
                }
            }
        }
        "complete" | "completes" => {
            let settlements = ids.clone().map(completion);
            for settled in store
                .settle(&settlements[..count])
                .await
                .into_iter()
                .flatten()
            {
                said.settled(&settled);
            }
        }
        "read" => {
            for (id, found) in ids.iter().zip(store.read(&ids).await) {
                if let Ok(found) = found {
                    said.found(id, found.as_ref());
                }
            }
        }
        _ => {}
    }
}

fn id(number: u64) -> ItemId {
    ItemId::from_stored(format!("fuzz#{number}"))
}

fn claim(id: ItemId) -> Claim {
    Claim::new(
        id,
        Owner::from_bits(7),
        NOW,
        NOW + Duration::from_secs(33),
        NOW + Duration::from_secs(86_400),
    )
}

fn completion(id: ItemId) -> Settlement {
    Settlement::new(id, Owner::from_bits(7), Settling::complete(NOW, None))
}

/// The answers, for comparison with the store's results.
struct Said<'a> {
    answers: &'a [Answer],
    names: &'a Names,
}

impl Said<'_> {
    fn claimed(&self, claim: &Claim, claimed: &Claimed) {
        match claimed {
            Claimed::Written { fence } => {
                // A new item inserted in a batch has the time as its fence, and its answer has no attributes.
                let is_new = fence.get() == NOW.as_millis() && self.granted_in_a_batch();
                let said = self.answers.iter().filter(|one| one.is_success());
                let mut fences = said.filter_map(|one| {
                    let written = &one.json()?["Attributes"]["fence"]["N"];
                    written.as_str()?.parse::<u64>().ok()
                });
                let is_shown = fences.any(|shown| shown == fence.get());
                assert!(is_new || is_shown, "nobody has granted the claim");
            }
            Claimed::Refused(item) => {
                self.stands_in_an_answer(item);
                let is_unknown = matches!(item.status, Status::Unknown(_));
                assert!(!(is_unknown && claim.finds_free(item)));
            }
        }
    }

    fn settled(&self, settled: &Settled) {
        match settled {
            Settled::Written => {
                let said = self.answers.iter().filter(|one| one.is_success());
                let shown = |one: &Answer| {
                    one.json()
                        .is_some_and(|json| json["Attributes"].is_object())
                };
                let is_shown = said.into_iter().any(shown);
                assert!(
                    is_shown || self.granted_in_a_batch(),
                    "nobody has written it"
                );
            }
            Settled::Refused(Some(item)) => self.stands_in_an_answer(item),
            Settled::Refused(None) => {}
        }
    }

    fn found(&self, id: &ItemId, found: Option<&Item>) {
        if let Some(item) = found {
            assert_eq!(item.id, *id);
            return self.stands_in_an_answer(item);
        }
        let says_what_it_found = |one: &Answer| {
            let json = one.json().filter(|_| one.is_success());
            let tables = json.as_ref().and_then(|json| json["Responses"].as_object());
            tables.is_some_and(|tables| {
                tables.contains_key(dynamodb::TABLE) || tables.values().all(Value::is_null)
            })
        };
        assert!(
            self.answers.first().is_some_and(says_what_it_found),
            "nobody says that the key is free"
        );
        // An item elsewhere in an answer does not belong to the table.
        let mut items = Vec::new();
        for json in self.answers.iter().filter_map(Answer::json) {
            let of_table = &json["Responses"][dynamodb::TABLE];
            reference::collect(of_table, self.names, &mut items);
        }
        let has_item = items.iter().any(|item| item.id == *id);
        assert!(!has_item, "the key has an item");
    }

    fn stands_in_an_answer(&self, item: &Item) {
        let is_there = self.items().any(|shown| shown == *item);
        assert!(is_there, "{item:?} stands in no answer");
    }

    /// Whether an answer has two results, at least one of them without an error.
    fn granted_in_a_batch(&self) -> bool {
        let said = self.answers.iter().filter(|one| one.is_success());
        let mut results = said.filter_map(|one| one.json()?["Responses"].as_array().cloned());
        results.any(|results| {
            let is_error = |one: &Value| one.get("Error").is_some_and(|error| !error.is_null());
            results.len() == 2 && !results.iter().all(is_error)
        })
    }

    /// The items anywhere in the answers.
    fn items(&self) -> impl Iterator<Item = Item> {
        let mut found = Vec::new();
        for json in self.answers.iter().filter_map(Answer::json) {
            reference::collect(&json, self.names, &mut found);
        }
        found.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use sqs_once::store::Fence;

    use super::*;
    use crate::finds;

    fn said(line: &str, check: impl FnOnce(&Said<'_>)) {
        let answers: Vec<_> = Answer::read(line).into_iter().collect();
        let names = &Names::DEFAULT;
        check(&Said {
            answers: &answers,
            names,
        });
    }

    const REFUSED: &str = r#"400 {"Attributes":{"fence":{"N":"8"}}}"#;
    const FOUND: &str =
        r#"200 {"Responses":{"t":[{"id":{"S":"fuzz#1"},"status":{"S":"COMPLETED"}}]}}"#;

    #[test]
    fn every_broken_promise_is_found() {
        said(REFUSED, |said| {
            let fence = Fence::from_stored(8);
            finds("nobody has granted the claim", || {
                said.claimed(&claim(id(1)), &Claimed::Written { fence });
            });
            finds("nobody has written it", || said.settled(&Settled::Written));
        });
        said(FOUND, |said| {
            finds("the key has an item", || said.found(&id(1), None));
            let mut changed = said.items().next().expect("an item");
            changed.status = Status::InProgress;
            finds("stands in no answer", || {
                said.found(&id(1), Some(&changed));
            });
        });
    }
}
