//! Paths through the store, for its items and its errors.

use std::collections::HashMap;
use std::time::Duration;

use sqs_once::aws_sdk_dynamodb::types::{AttributeValue, Update};
use sqs_once::policy::{Disposition, InProgress, Mode};
use sqs_once::store::{Item, Owner, Status, StoreErrorKind};
use sqs_once::time::Clock;
use sqs_once::{HandlerError, Recorded, ResultExt, Writes};

use crate::no_secrets::world::{Order, World, own_words, show};
use crate::support::database::{Database, Ledger};
use crate::support::item_id;

/// Puts another worker's item under the key `canary-key-a`.
pub(crate) fn foreign(world: &World, status: Status) {
    let key = sqs_once::BusinessKey::new("canary-key-a").unwrap();
    let now = world.clock.now();
    let mut item = Item::new(item_id(&key), status);
    item.lease_until = Some(now + Duration::from_secs(600));
    item.expiration = Some(now + Duration::from_secs(600));
    item.data = Some("canary-data".into());
    item.owner = Some(Owner::from_bits(7));
    world.store.inner.put(item);
}

pub(crate) async fn in_progress() {
    let world = World::new();
    foreign(&world, Status::InProgress);
    world.orders(&world.recording(), ["a", "a"]).await;
    let wait = InProgress::Wait(Duration::from_secs(1));
    let waiting = world.recording().in_progress(wait);
    world.orders(&waiting, ["a"]).await;
}

pub(crate) async fn lease_lost() {
    let world = World::new();
    let store = world.store.clone();
    let losing = move |_: Order| {
        store.change("canary-key-a", |item| {
            item.owner = Some(Owner::from_bits(7));
            item.data = Some("canary-data".into());
        });
        async { Recorded("canary-data") }
    };
    world.orders(&world.handling(losing), ["a"]).await;
}

pub(crate) async fn unknown_status() {
    let world = World::new();
    foreign(&world, Status::Unknown("PAUSED\n".to_owned()));
    world.orders(&world.recording(), ["a"]).await;
}

const KINDS: [StoreErrorKind; 8] = [
    StoreErrorKind::AccessDenied,
    StoreErrorKind::NoCredentials,
    StoreErrorKind::TableNotFound,
    StoreErrorKind::KeySchema,
    StoreErrorKind::Throttled,
    StoreErrorKind::Unanswered,
    StoreErrorKind::BadItem,
    StoreErrorKind::Other,
];

pub(crate) async fn store_fails() {
    for kind in KINDS {
        for call in ["claim", "settle"] {
            let world = World::new();
            world.store.fail(call, kind, usize::MAX);
            world.orders(&world.recording(), ["a", "b"]).await;
            world.orders(&world.failing(own_words), ["c"]).await;
        }
    }
}

pub(crate) async fn store_at_the_start() {
    for kind in KINDS {
        let world = World::new();
        world.store.fail("read", kind, usize::MAX);
        world.recording().init().await.unwrap();
    }
}

/// A write that contains secrets.
pub(crate) fn update() -> Update {
    let update = Update::builder()
        .table_name("stock")
        .key("article", AttributeValue::S("canary-article".to_owned()))
        .update_expression("SET card = :card, paid = :paid")
        .expression_attribute_values(":card", AttributeValue::S("canary-card".to_owned()))
        .expression_attribute_values(":paid", AttributeValue::M(nested()));
    update.build().unwrap()
}

fn nested() -> HashMap<String, AttributeValue> {
    let by = AttributeValue::L(vec![AttributeValue::S("canary-in-list".to_owned())]);
    let with = AttributeValue::Ss(vec!["canary-in-set".to_owned()]);
    HashMap::from([("by".to_owned(), by), ("with".to_owned(), with)])
}

pub(crate) async fn writes() {
    let world = World::new();
    for mode in [Mode::Transactional, Mode::ClaimFirst] {
        let rules: [fn() -> Disposition; 2] =
            [|| Disposition::Terminal, || panic!("the rule's own words")];
        for rule in rules {
            let writing = move |_: Order| async move {
                let writes = Writes::new()
                    .update(update())
                    .recording(&"canary-data")
                    .on_conflict(0, move |conflict| {
                        println!("{conflict:?}");
                        rule()
                    });
                println!("{writes:?}");
                writes
            };
            let consumer = world.handling(writing).mode(mode);
            world.store.fail_condition(0, 1);
            for _ in 0..3 {
                world.orders(&consumer, ["a", "a"]).await;
            }
        }
    }
}

pub(crate) async fn writes_that_cannot_be() {
    let world = World::new();
    let not_an_item = async |_: Order| -> Result<Writes, HandlerError> {
        let writes = Writes::new().put("orders", &"canary-item");
        writes.inspect_err(show).terminal()
    };
    let twice = async |_: Order| Writes::new().update(update()).update(update());
    for consumer in [world.handling(not_an_item), world.handling(twice)] {
        world.orders(&consumer, ["a"]).await;
    }
}

pub(crate) async fn transaction() {
    for kind in KINDS {
        let world = World::new();
        let database = Database::beside(&world.store);
        let turn = crate::support::database::Turn::Fail(kind);
        database.begins([turn.clone()]);
        database.commits([turn]);
        let working = async |_: Order, ledger: Ledger| ledger.write("canary-effect");
        let consumer = world.handling(working).store(database);
        for _ in 0..3 {
            world.orders(&consumer, ["a", "b"]).await;
        }
    }
}

pub(crate) async fn recorded_after() {
    let world = World::new();
    let consumer = world.recording().mode(Mode::RecordAfter);
    for _ in 0..2 {
        world.orders(&consumer, ["a"]).await;
    }
}
