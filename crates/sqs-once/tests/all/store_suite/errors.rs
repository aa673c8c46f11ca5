//! Store errors: their kind, and the suggested fix.

use std::error::Error as _;
use std::time::Duration;

use serde_json::json;
use sqs_once::store::StoreErrorKind::{
    AccessDenied, KeySchema, Other, TableNotFound, Throttled, Unanswered,
};
use sqs_once::store::{Settled, Store, StoreError, StoreErrorKind, TableLayout};
use sqs_once::{DynamoDbStore, Writes};
use sqs_once_local::{KeyAttribute, KeyType, TableDescription};

use crate::store_suite::support::{
    TABLE, client, completion, ids, is_written, new_claims, new_commit, recording, settlements,
    store_at,
};
use crate::support::assert_contains;
use crate::support::dynamodb::local;
use crate::support::wire::{Turn, Wire};

const TYPE: &str = "com.amazonaws.dynamodb.v20120810#";
const TABLE_VARIABLE: &str = "SQS_ONCE_TABLE";

/// The error of every method of the store. Each must fail.
async fn errors_of(store: &DynamoDbStore) -> Vec<StoreError> {
    let claims = new_claims(3);
    let mut errors = Vec::new();
    for slice in [&claims[..1], &claims] {
        errors.extend(store.claim(slice).await.into_iter().map(Result::unwrap_err));
        for settling in [completion(), recording()] {
            let settled = store.settle(&settlements(slice, &settling)).await;
            errors.extend(settled.into_iter().map(Result::unwrap_err));
        }
    }
    let read = store.read(&ids(&claims)).await;
    errors.extend(read.into_iter().map(Result::unwrap_err));
    assert_eq!(errors.len(), 15);
    errors
}

/// Every method of the store must fail with this kind of error, whose text names the fix.
async fn all_are(store: &DynamoDbStore, kind: StoreErrorKind, fix: &str) {
    for error in errors_of(store).await {
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(fix), "{error}");
    }
}

async fn answering(status: u16, body: &str) -> (Wire, DynamoDbStore) {
    let wire = Wire::always(Turn::Answer(status, body.to_owned())).await;
    let store = store_at(&wire.endpoint());
    (wire, store)
}

#[tokio::test]
async fn a_refused_request_names_its_fix() {
    const SAID: &str = "User: arn:aws:sts::123456789012:assumed-role/orders/orders";
    let exceeded = "ProvisionedThroughputExceededException";
    for (code, kind, fix) in [
        ("AccessDeniedException", AccessDenied, "role"),
        ("ExpiredTokenException", AccessDenied, "have expired"),
        ("UnknownOperationException", Other, "SQS_ONCE_REQUESTS="),
        ("ResourceNotFoundException", TableNotFound, TABLE_VARIABLE),
        (exceeded, Throttled, "capacity"),
        ("ThrottlingException", Throttled, "capacity"),
        ("RequestLimitExceeded", Throttled, "capacity"),
        ("ReplicatedWriteConflictException", Throttled, "capacity"),
        ("ItemCollectionSizeLimitExceededException", Other, SAID),
        ("ValidationException", Other, SAID),
    ] {
        let body = json!({"__type": format!("{TYPE}{code}"), "message": SAID}).to_string();
        let (_wire, store) = answering(400, &body).await;
        for error in errors_of(&store).await {
            assert_eq!(error.kind(), kind, "{code}: {error}");
            assert_contains!(error.to_string(), fix, SAID);
            assert!(error.source().is_some(), "{error} has lost its source");
        }
    }
}

#[tokio::test]
async fn an_answer_that_is_not_dynamodbs_or_says_nothing_is_never_a_yes_and_leaves_open_what_was_done()
 {
    let internal = json!({"__type": format!("{TYPE}InternalServerError")}).to_string();
    let of_other_types = "{\"Responses\": 7, \"Attributes\": 7}";
    for (status, body, kind, said) in [
        (500, internal.as_str(), Unanswered, "endpoint"),
        (500, "", Unanswered, "endpoint"),
        (500, "<html>", Unanswered, "endpoint"),
        (503, "{}", Unanswered, "endpoint"),
        (200, "<html>", Unanswered, "endpoint"),
        (403, "<html>", Unanswered, "endpoint"),
        (200, of_other_types, Unanswered, "endpoint"),
        (200, "", Other, "answer"),
        (200, "{}", Other, "answer"),
    ] {
        let (_wire, store) = answering(status, body).await;
        let errors = errors_of(&store).await;
        // An emulator that can't do the batches of statements answers so.
        let names_variable = |error: &StoreError| error.to_string().contains("SQS_ONCE_REQUESTS");
        assert_eq!(errors.iter().any(names_variable), status >= 500);
        for error in errors {
            assert_eq!(error.kind(), kind, "{status} {body:?}: {error}");
            assert_contains!(error.to_string(), said);
        }
    }
    // No server listens there.
    all_are(&store_at("http://127.0.0.1:9"), Unanswered, "endpoint").await;
}

#[tokio::test]
async fn no_answer_in_time_is_unknown() {
    let wire = Wire::always(Turn::Hang).await;
    let impatient = client(&wire.endpoint(), Duration::from_millis(20));
    let store = DynamoDbStore::new(impatient, TABLE);
    all_are(&store, Unanswered, "did not answer").await;
    let atomic = store.atomic_writes().unwrap();
    let committed = atomic.commit(&new_commit(), &Writes::new()).await;
    assert_eq!(committed.unwrap_err().kind(), Unanswered);
}

#[tokio::test]
async fn a_missing_table_and_one_with_other_keys_are_recognised_on_every_way() {
    let another = TableDescription {
        name: "another".to_owned(),
        ..TableDescription::default()
    };
    let another = local(&another).await;
    let store = store_at(&another.endpoint());
    all_are(&store, TableNotFound, TABLE_VARIABLE).await;

    let number = KeyAttribute {
        name: "id".to_owned(),
        kind: KeyType::N,
    };
    let string = KeyAttribute::string;
    let plain = TableLayout::default;
    let is_id = "partition key `id` of type S";
    let sorted = plain().sort_key("sk").partition_value("p");
    let renamed = plain().partition_key("pk");
    let [id, pk, sk] = ["id", "pk", "sk"].map(string);
    for (partition_key, sort_key, layout, fix) in [
        (pk.clone(), None, plain(), is_id),
        (string("ID"), None, plain(), is_id),
        (id.clone(), Some(sk.clone()), plain(), is_id),
        (pk, Some(id.clone()), plain(), is_id),
        (number, None, plain(), is_id),
        (id.clone(), None, sorted, "layout"),
        (id, Some(sk), renamed, "layout"),
    ] {
        let table = TableDescription {
            partition_key,
            sort_key,
            ..TableDescription::default()
        };
        let local = local(&table).await;
        let store = store_at(&local.endpoint()).layout(layout).unwrap();
        all_are(&store, KeySchema, fix).await;
    }
}

#[tokio::test]
async fn the_texts_of_dynamodb_about_keys_are_recognised() {
    for text in [
        "The provided key element does not match the schema",
        "One or more parameter values were invalid: Missing the key pk in the item",
        "One of the required keys was not given a value",
        "One or more parameter values were invalid: Type mismatch for key id expected: N actual: S",
        "Where clause does not contain a mandatory equality on all key attributes",
        "Key attribute's data type should match its data type in table's schema: Key id",
        "Provided list of item keys contains duplicates",
    ] {
        let code = "com.amazon.coral.validate#ValidationException";
        let refusal = json!({"__type": code, "message": text});
        let (_wire, store) = answering(400, &refusal.to_string()).await;
        all_are(&store, KeySchema, text).await;

        let statement = json!({"Error": {"Code": "ValidationError", "Message": text}});
        let answer = json!({"Responses": [statement, {"TableName": TABLE}]});
        let (_wire, store) = answering(200, &answer.to_string()).await;
        let claimed = store.claim(&new_claims(2)).await;
        let error = claimed[0].as_ref().unwrap_err();
        assert_eq!(error.kind(), KeySchema, "{text}");
    }
}

#[tokio::test]
async fn the_error_of_a_statement_concerns_its_own_entry_alone() {
    let failed = [
        ("AccessDenied", AccessDenied, "role"),
        ("ResourceNotFound", TableNotFound, TABLE_VARIABLE),
        ("ProvisionedThroughputExceeded", Throttled, "capacity"),
        ("ThrottlingError", Throttled, "capacity"),
        ("RequestLimitExceeded", Throttled, "capacity"),
        ("TransactionConflict", Throttled, "capacity"),
        ("InternalServerError", Unanswered, "did not answer"),
        ("ItemCollectionSizeLimitExceeded", Other, "Details"),
        ("ValidationError", Other, "Details"),
        ("SomethingNew", Other, "SomethingNew"),
    ];
    let mut responses = Vec::new();
    for (code, ..) in failed {
        responses.push(json!({"TableName": TABLE}));
        responses.push(json!({"Error": {"Code": code, "Message": "Details"}}));
    }
    let answer = json!({ "Responses": responses }).to_string();
    let (_wire, store) = answering(200, &answer).await;

    let claims = new_claims(2 * failed.len());
    let claimed = store.claim(&claims).await;
    let settled = store.settle(&settlements(&claims, &completion())).await;
    for (n, (code, kind, fix)) in failed.into_iter().enumerate() {
        let at = 2 * n;
        assert!(is_written(&claimed[at]), "before {code}");
        assert!(matches!(settled[at], Ok(Settled::Written)), "before {code}");
        let claim = claimed[at + 1].as_ref().unwrap_err();
        let errors = [claim, settled[at + 1].as_ref().unwrap_err()];
        for error in errors {
            assert_eq!(error.kind(), kind, "{code}");
            assert!(error.to_string().contains(fix), "{error}");
        }
    }
}

#[tokio::test]
async fn a_batch_with_too_few_or_too_many_results_is_unknown_for_all() {
    for results in [0, 1, 3, 4] {
        let answer = json!({"Responses": vec![json!({"TableName": TABLE}); results]});
        let (_wire, store) = answering(200, &answer.to_string()).await;
        let claims = new_claims(2);
        let claimed = store.claim(&claims).await.into_iter();
        let settled = store.settle(&settlements(&claims, &completion())).await;
        let errors = claimed.map(Result::unwrap_err);
        for error in errors.chain(settled.into_iter().map(Result::unwrap_err)) {
            assert_eq!(error.kind(), Other);
        }
    }
}

#[tokio::test]
async fn keys_that_a_read_left_out_may_be_asked_for_again() {
    let claims = new_claims(2);
    let unprocessed = json!({"Keys": [{"id": {"S": claims[1].id.as_str()}}]});
    let answer = json!({
        "Responses": {TABLE: []},
        "UnprocessedKeys": {TABLE: unprocessed},
    });
    let (_wire, store) = answering(200, &answer.to_string()).await;
    let read = store.read(&ids(&claims)).await;
    assert!(matches!(read[0], Ok(None)));
    let error = read[1].as_ref().unwrap_err();
    assert_eq!(error.kind(), Throttled);
    assert!(error.is_transient());
}

#[tokio::test]
async fn an_answer_about_another_table_frees_no_key() {
    let claims = new_claims(2);
    let answer = json!({"Responses": {"arn:aws:dynamodb:eu-central-1:123456789012:table/t": []}});
    let (_wire, store) = answering(200, &answer.to_string()).await;
    for read in store.read(&ids(&claims)).await {
        assert_eq!(read.unwrap_err().kind(), Other);
    }
}
