//! A consumer that keeps order, its queues, and an operator.

use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use lambda_runtime::{Context, LambdaEvent};
use serde_json::Value;
use sqs_once::consumer::Queue;
use sqs_once::store::{Item, Store, Timestamp};
use sqs_once::unstable::block::{Block, item_id};
use sqs_once::unstable::new_owner;
use sqs_once::{Consumer, DynamoDbStore, Handler, HandlerError};
use sqs_once_local::{
    EventSourceMapping, LocalDynamoDb, LocalSqs, NewMessage, QueueSettings, Queues, REGION,
    TableDescription,
};
use sqs_once_operate::{Change, DeadLetters, Error, Keys, Selection};
use tower_service::Service;

use crate::dynamodb;

const SOURCE: &str = "steps.fifo";
const DEAD: &str = "steps-dlq.fifo";
const GROUP: &str = "order-7";

struct World {
    sqs: LocalSqs,
    _dynamodb: LocalDynamoDb,
    store: DynamoDbStore,
    consumer: Consumer,
    /// The step that fails.
    broken: Arc<Mutex<&'static str>>,
    done: Arc<Mutex<Vec<String>>>,
}

impl World {
    async fn new() -> Self {
        let mut queues = Queues::default();
        for queue in [SOURCE, DEAD] {
            queues.create(queue, QueueSettings::default()).unwrap();
        }
        let sqs = LocalSqs::start(queues).await.unwrap();
        let (dynamodb, store) = dynamodb(&TableDescription::default()).await;
        let (broken, done) = (
            Arc::new(Mutex::new("")),
            Arc::<Mutex<Vec<String>>>::default(),
        );
        let (fails, notes) = (Arc::clone(&broken), Arc::clone(&done));
        let handler = Handler::json()
            .key(|step: &Value| step.as_str().map(str::to_owned))
            .call(move |step: Value| {
                let step = step.as_str().unwrap().to_owned();
                let fails = *fails.lock().unwrap() == step;
                let notes = Arc::clone(&notes);
                async move {
                    if fails {
                        return Err(HandlerError::terminal("no luck"));
                    }
                    notes.lock().unwrap().push(step);
                    Ok(())
                }
            });
        let queue = Queue::any()
            .client(crate::sqs(&sqs.endpoint()))
            .dead_letter_queue(sqs.url(DEAD))
            .keep_order(NonZeroU32::MIN);
        let consumer = Consumer::new(handler.namespace("steps")).store(store.clone());
        Self {
            consumer: consumer.queue(queue),
            sqs,
            _dynamodb: dynamodb,
            store,
            broken,
            done,
        }
    }

    fn breaks(&self, step: &'static str) {
        *self.broken.lock().unwrap() = step;
    }

    fn send(&self, steps: &[&str]) {
        for step in steps {
            let message = NewMessage::new(format!("m-{step}"), format!("\"{step}\""));
            let message = message.in_group(GROUP, *step);
            self.sqs
                .queues()
                .send(SOURCE, message, SystemTime::now())
                .unwrap();
        }
    }

    /// Delivers until the queue is empty. Returns what was done.
    async fn deliver(&mut self) -> Vec<String> {
        let mapping = EventSourceMapping::new(&self.sqs, SOURCE, 10);
        while let Some(batch) = mapping.poll(SystemTime::now()).unwrap() {
            let event = serde_json::from_slice(&batch.event()).unwrap();
            let mut context = Context::default();
            context.deadline = (Timestamp::now() + Duration::from_secs(60)).as_millis();
            let answer = self
                .consumer
                .call(LambdaEvent::new(event, context))
                .await
                .unwrap();
            let answer = serde_json::to_vec(&answer).unwrap();
            mapping.settle(batch, &answer, SystemTime::now()).unwrap();
        }
        std::mem::take(&mut self.done.lock().unwrap())
    }

    fn letters(&self, keys: Option<Keys>) -> DeadLetters {
        let client = crate::sqs(&self.sqs.endpoint());
        DeadLetters::new(client, self.sqs.url(DEAD), keys)
    }

    fn keys(&self) -> Keys {
        Keys::new(self.store.clone())
    }

    /// Brings back the dead letters with these steps, or all.
    async fn redrive(&self, letters: &DeadLetters) -> usize {
        let (to, all) = (self.sqs.url(SOURCE), Selection::default());
        let run = letters.redrive(&to, &all, false, &|| false, |_| true, |_, _| {});
        let (tally, ended) = run.await;
        ended.unwrap();
        tally.redriven
    }

    async fn block(&self) -> Option<Item> {
        let arn = format!(
            "arn:aws:sqs:{REGION}:{}:{SOURCE}",
            sqs_once_local::ACCOUNT_ID
        );
        let items = self.store.read(&[item_id(&arn, GROUP)]).await;
        items.into_iter().next()?.unwrap()
    }

    async fn unblock(&self) {
        let seen = self.block().await.unwrap();
        let new = Change::Unblock.write(&seen.id, Some(&seen), new_owner(), Timestamp::now());
        let replaced = self.keys().replace(Some(&seen), &new.unwrap()).await;
        replaced.unwrap();
    }

    /// Moves all dead letters to their queue, as new messages.
    fn comes_back_as_new(&self) {
        let (now, mut queues) = (SystemTime::now(), self.sqs.queues());
        for received in queues.receive(DEAD, 10, now).unwrap() {
            let id = format!("new-{}", received.message.id);
            let message = NewMessage::new(&id, received.message.body).in_group(GROUP, &id);
            queues.send(SOURCE, message, now).unwrap();
            queues.delete(DEAD, &received.receipt_handle, now).unwrap();
        }
    }

    async fn is_blocked(&self) -> bool {
        let item = self.block().await;
        item.is_some_and(|item| Block::from_item(&item).unwrap().stands())
    }

    fn dead(&self) -> Vec<String> {
        let queues = self.sqs.queues();
        let messages = queues.messages(DEAD).unwrap();
        messages.map(|message| message.body.clone()).collect()
    }

    /// Drops the first dead letter.
    async fn drop_first(&self, letters: &DeadLetters) -> Result<(), Error> {
        let held = letters.hold(&Selection::default(), &|| false).await;
        let (held, _) = held.unwrap();
        let (first, others) = held.split_at(1);
        letters.release(others).await.unwrap();
        letters
            .drop_held(first, &|| false, |_| true, |_| {})
            .await
            .1
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redrive_brings_a_group_back_in_its_order_without_a_table() {
    let mut world = World::new().await;
    world.breaks("b");
    world.send(&["a", "b", "c", "d"]);
    assert_eq!(world.deliver().await, ["a"]);
    assert_eq!(world.dead(), ["\"b\"", "\"c\"", "\"d\""]);
    world.breaks("c");
    let letters = world.letters(None);
    assert_eq!(world.redrive(&letters).await, 3);
    assert_eq!(world.deliver().await, ["b"]);
    assert_eq!(world.dead(), ["\"c\"", "\"d\""]);
    world.breaks("");
    world.send(&["e"]);
    assert_eq!(world.deliver().await, [""; 0]);
    assert_eq!(world.redrive(&letters).await, 3);
    assert_eq!(world.deliver().await, ["c", "d", "e"]);
    assert!(!world.is_blocked().await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn those_behind_a_dropped_message_need_not_wait_for_it() {
    let mut world = World::new().await;
    world.breaks("a");
    world.send(&["a", "b"]);
    assert_eq!(world.deliver().await, [""; 0]);
    let refused = world.drop_first(&world.letters(None)).await.unwrap_err();
    assert!(refused.to_string().contains("give --table"), "{refused}");
    assert_eq!(world.dead().len(), 2);

    let letters = world.letters(Some(world.keys()));
    world.drop_first(&letters).await.unwrap();
    assert!(world.is_blocked().await);
    assert_eq!(world.redrive(&letters).await, 1);
    assert_eq!(world.deliver().await, ["b"]);
    assert!(!world.is_blocked().await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_is_done_comes_back_to_end_its_place() {
    let mut world = World::new().await;
    world.send(&["a"]);
    world.deliver().await;
    world.breaks("b");
    let again = NewMessage::new("m-again", "\"a\"").in_group(GROUP, "again");
    world.send(&["b"]);
    world
        .sqs
        .queues()
        .send(SOURCE, again, SystemTime::now())
        .unwrap();
    assert_eq!(world.deliver().await, [""; 0]);
    world.breaks("");
    let letters = world.letters(Some(world.keys()));
    assert_eq!(world.redrive(&letters).await, 2);
    assert_eq!(world.deliver().await, ["b"]);
    assert!(!world.is_blocked().await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unblocked_group_goes_on_and_what_comes_back_late_runs_too() {
    let mut world = World::new().await;
    world.breaks("a");
    world.send(&["a", "b"]);
    world.deliver().await;
    world.unblock().await;
    assert!(!world.is_blocked().await);
    world.breaks("");
    world.send(&["c"]);
    assert_eq!(world.deliver().await, ["c"]);
    assert_eq!(world.redrive(&world.letters(None)).await, 2);
    assert_eq!(world.deliver().await, ["a", "b"]);
    let block = world.block().await.unwrap();
    let now = Timestamp::now();
    assert_eq!(
        Change::Unblock.write(&block.id, Some(&block), new_owner(), now),
        None
    );
}

/// So does the console's redrive send them back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_that_come_back_as_new_ones_wait_until_their_group_is_unblocked() {
    let mut world = World::new().await;
    world.breaks("a");
    world.send(&["a", "b"]);
    world.deliver().await;
    world.breaks("");
    world.comes_back_as_new();
    assert_eq!(world.deliver().await, [""; 0]);
    let letters = world.letters(None);
    assert_eq!(world.redrive(&letters).await, 2);
    assert_eq!(world.deliver().await, [""; 0]);
    world.unblock().await;
    assert_eq!(world.redrive(&letters).await, 2);
    assert_eq!(world.deliver().await, ["a", "b"]);
    assert!(!world.is_blocked().await);
}
