//! Invalid values that the code sets: setters accept them, `init` names the setting, and nothing panics.

use std::time::Duration;

use crate::support::process::has;
use crate::support::{DLQ, OpenedBy, Order, SECOND, STANDARD, TestStore, assert_contains, orders};
use sqs_once::body::{Auto, EventBridge, Opened, Sns};
use sqs_once::consumer::{Cache, Margins, Queue, Runnable};
use sqs_once::extract::{RecordEnd, SnsMeta};
use sqs_once::handler::{ClaimFirst, HandlerFn};
use sqs_once::key::{Ids, KeyCodec, KeyExtractor, KeySecret, MessageKey, Namespace};
use sqs_once::policy::{PayloadMismatch, UnknownOutcome};
use sqs_once::store::MemoryStore;
use sqs_once::telemetry::Telemetry;
use sqs_once::{Batch, BatchHandler, Consumer, Handler, HandlerError, Idempotency, Writes};

fn with_key(key: impl KeyExtractor<Order>) -> Handler {
    let handler = Handler::json::<Order>().key(key).call(async |_: Order| {});
    handler.namespace("test")
}

fn with_batch_key() -> BatchHandler {
    let keyed = Handler::json::<Order>().key(MessageKey::json_pointer("id"));
    let handler = keyed.call_batch(async |all: Batch<Order>| all.all_succeeded());
    handler.namespace("test")
}

fn handling<X: 'static>(function: impl HandlerFn<Order, (), X>) -> Handler {
    orders().call(function).namespace("test")
}

fn plain() -> Handler {
    handling(async |_: Order| {})
}

/// A handler whose effect commits with the completion of its key.
fn writing() -> Handler {
    handling(write)
}

async fn write(_: Order) -> Result<Writes, HandlerError> {
    Ok(Writes::new())
}

/// A handler with the keys of Powertools for Java.
fn reading(prefix: &str) -> Handler {
    plain().ids(KeyCodec::powertools_java(prefix))
}

fn consumer(handler: impl Runnable) -> Consumer {
    Consumer::new(handler).store(TestStore::default())
}

async fn assert_refused(consumer: Consumer, says: &str) {
    let error = consumer.init().await.unwrap_err();
    assert_contains!(error.to_string(), says);
}

fn other() -> Namespace {
    Namespace::new("other").unwrap()
}

fn secret() -> KeySecret {
    KeySecret::new([7; 32]).unwrap()
}

#[tokio::test(start_paused = true)]
async fn init_names_each_setting_of_a_handler_that_the_code_sets_wrongly() {
    let long = KeyCodec::powertools_java(&"p".repeat(992));
    let zero = Duration::ZERO;
    let rising = zero..=SECOND;
    let falling = 2 * SECOND..=SECOND;
    let function = MessageKey::jmespath("powertools_json(body).id");
    let own = Namespace::new("test").unwrap();
    let strict = reading("fn").payload_mismatch(PayloadMismatch::Retry);
    let terminal = reading("fn").payload_mismatch(PayloadMismatch::Terminal);
    let commits = "`also_read` is set, but the effect commits with the completion";
    let slash = "the JSON pointer is \"id\": expected a `/` at its beginning";
    let tilde = "the JSON pointer is \"/a~\": expected `~0` for a `~`";
    let inner_tilde = "the JSON pointer is \"/a~2b\": expected `~0` for a `~`";
    let parse = "the JMESPath expression of the key is \"order.\" (Parse error";
    let unread = "SQS_ONCE_ALSO_READ is not set, but a secret hashes the keys";
    let late = UnknownOutcome::dead_letter().token_valid_for(61 * SECOND);
    let forgets = "`unknown_outcome` applies after 61s, but the table forgets a key, and when its token was first used, after the retention of 60s";
    let repeats = "`unknown_outcome` is `repeat`, with a time for which tokens are valid";
    let repeating = UnknownOutcome::repeat().token_valid_for(SECOND);
    let forgetful = plain().unknown_outcome(late).retention(60 * SECOND);
    let also_other = || Ids::hashed().also_read(other());
    let other_envelope = (MessageKey::event_bridge_id(), MessageKey::sns_message_id());
    let other_envelope = with_key(other_envelope).envelope(EventBridge);
    let reads_sns =
        "`envelope` is another one, but `MessageKey::sns_message_id` reads the envelope `Sns`";
    let reads_s3 = "`envelope` is not set, but `MessageKey::s3_event` reads the envelope `S3`: expected `envelope = S3`";
    let has_sns = "`envelope` is not set, but `SnsMeta` reads the envelope `Sns`";
    let undefined = with_key((MessageKey::json_pointer("/id"), function));
    let done = async |_: RecordEnd| Ok(());
    let hash = "`namespace` is \"pay#ments\": expected 1 to 255 bytes";
    let done_twice = plain().on_done(done).on_done(done);
    let failure_twice = plain().on_failure(done).on_failure(done);
    let no_time = "`attempt_timeout` is 0, so that every handler";
    let long = plain().ids(Ids::hashed().also_read(long));
    let own = plain().ids(Ids::hashed().also_read(own));
    for (says, handler) in [
        (hash, plain().namespace("pay#ments")),
        ("`namespace` is \" \": expected 1", plain().namespace(" ")),
        ("`retention` is 500ms", plain().retention(SECOND / 2)),
        (forgets, forgetful),
        (repeats, plain().unknown_outcome(repeating)),
        ("`on_done` is set twice", done_twice),
        ("`on_failure` is set twice", failure_twice),
        (no_time, plain().attempt_timeout(zero)),
        ("`payload_mismatch` is `Retry`, but", strict),
        ("`payload_mismatch` is `Terminal`, but", terminal),
        ("the key codec has a prefix of 1 bytes", reading(" ")),
        ("the key codec has a prefix of 992 bytes", long),
        ("`also_read` is where its keys are already", own),
        (commits, writing().ids(also_other())),
        (commits, handling(ClaimFirst(write)).ids(also_other())),
        (unread, writing().ids(Ids::secret(secret()))),
        ("`backoff` grows from 0ns to 1s", plain().backoff(rising)),
        ("`backoff` grows from 2s to 1s", plain().backoff(falling)),
        (slash, with_key(MessageKey::json_pointer("id"))),
        (tilde, with_key(MessageKey::json_pointer("/a~"))),
        (inner_tilde, with_key(MessageKey::json_pointer("/a~2b"))),
        (parse, with_key(MessageKey::jmespath("order."))),
        ("Call to undefined function powertools_json", undefined),
        (reads_s3, with_key(MessageKey::s3_event())),
        (reads_sns, other_envelope),
        (has_sns, handling(async |_: Order, _: SnsMeta| {})),
    ] {
        assert_refused(consumer(handler), says).await;
    }
    assert_refused(consumer(with_batch_key()), slash).await;
}

#[tokio::test(start_paused = true)]
async fn init_names_each_setting_of_a_consumer_that_the_code_sets_wrongly() {
    let plain = || consumer(plain());
    let no_url = "`dead_letter_queue` is \"orders-dlq\": expected the URL of an SQS queue";
    let named = Queue::any().dead_letter_queue("orders-dlq");
    let blank = Telemetry::new().service(" ");
    let is_itself = "`dead_letter_queue` is the queue itself";
    let itself = Queue::arn(format!("{STANDARD}-dlq")).dead_letter_queue(DLQ);
    let no_arn = "the setting `queue` has the ARN \"orders\": expected an ARN such as arn:aws:sqs";
    let short = "the lease in the setting `margins` is 999ms: expected 1s or more";
    let brief = Margins::new().lease(SECOND - Duration::from_millis(1));
    let zero = "the deadline in the setting `margins` is 0: expected more than zero";
    let none = Margins::new().deadline(Duration::ZERO);
    for (says, consumer) in [
        ("`service` is blank", plain().telemetry(blank)),
        ("`concurrency` is 0: expected 1", plain().concurrency(0)),
        (short, plain().margins(brief)),
        (zero, plain().margins(none)),
        ("`cache` has no room", plain().cache(Cache::new(0))),
        (no_url, plain().queue(named)),
        (is_itself, plain().queue(itself)),
        (no_arn, plain().queue(Queue::arn("orders"))),
    ] {
        assert_refused(consumer, says).await;
    }
}

#[tokio::test]
async fn init_refuses_a_secret_in_the_environment_that_would_hide_nothing() {
    let variable = "SQS_ONCE_KEY_SECRET_ARN";
    let arn = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:keys-AbCdEf";
    if !has!(&[(variable, arn)]) {
        return;
    }
    for (handler, why) in [
        (plain().ids(Ids::readable()), "the ids are readable"),
        (reading("fn"), "the ids are those of another library"),
    ] {
        let error = consumer(handler).init().await.unwrap_err();
        assert_eq!(error.setting(), variable);
        assert_contains!(error.to_string(), why);
    }
}

#[tokio::test(start_paused = true)]
async fn an_envelope_that_has_the_metadata_or_may_have_it_is_accepted() {
    let own = OpenedBy(|_| Ok(Opened::untouched()));
    let nested = || with_key((MessageKey::event_bridge_id(), MessageKey::sns_message_id()));
    let optional = async |_: Order, _: Option<SnsMeta>| {};
    for handler in [
        nested().envelope((Sns, EventBridge)),
        nested().envelope(Auto),
        nested().envelope((Sns, own)),
        handling(optional),
    ] {
        consumer(handler).init().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn an_idempotency_refuses_what_a_consumer_refuses() {
    let sound = || Idempotency::new("receipts");
    let init = async |it: Idempotency| it.store(MemoryStore::new()).init().await;
    init(sound()).await.unwrap();
    let zero = Duration::ZERO;
    let (lease, deadline) = (Margins::new().lease(zero), Margins::new().deadline(zero));
    let forgetting = Handler::work().namespace("receipts").retention(zero);
    let no_deadline = "the deadline in the setting `margins`";
    for (idempotency, setting) in [
        (Idempotency::new("a#b"), "the setting `namespace`"),
        (Idempotency::new(forgetting), "the setting `retention`"),
        (sound().margins(lease), "the lease in the setting `margins`"),
        (sound().margins(deadline), no_deadline),
        (sound().cache(Cache::new(0)), "the setting `cache`"),
    ] {
        let error = init(idempotency).await.unwrap_err();
        assert_eq!(error.setting(), setting);
    }
}

#[tokio::test(start_paused = true)]
async fn the_last_value_of_a_setting_counts() {
    let named = consumer(plain().namespace("#").namespace("payments"));
    let named = named.concurrency(0).concurrency(1);
    named.init().await.unwrap();
    let fresh = writing().ids(Ids::secret(secret()).read_alone());
    consumer(fresh).init().await.unwrap();
}
