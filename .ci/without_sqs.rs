//! Settings that need the feature `sqs` report that it is missing. `features.py` runs these tests, because tests of the
//! workspace always have the feature.

use std::io::{Result, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sqs_once::testing::{Bench, Event, Record};
use sqs_once::store::MemoryStore;
use sqs_once::{Consumer, Handler, HandlerError, ResultExt};

const FEATURE: &str = "sqs-once was built without its feature `sqs`";

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

/// A handler that asks for a delay.
fn delaying() -> Handler {
    Handler::json::<String>()
        .key(|id: &String| id.clone())
        .call(async |_: String| -> std::result::Result<(), HandlerError> {
            Err("busy").retry_after(Duration::from_secs(60))
        })
        .namespace("without-sqs")
}

#[tokio::test(start_paused = true)]
async fn a_delay_that_has_no_effect_is_one_warning_for_all_messages() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_writer(move || writer.clone());
    let _logging = tracing::subscriber::set_default(subscriber.finish());
    let bench = Bench::new(delaying());
    for _ in 0..2 {
        let answer = bench
            .run(Event::new(["a", "b"].map(|id| Record::json(id))))
            .await;
        answer.assert_failed("m-1").assert_failed("m-2");
    }
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    let warnings: Vec<_> = log.lines().filter(|line| line.contains(FEATURE)).collect();
    assert_eq!(warnings.len(), 1, "{log}");
    assert!(
        warnings[0].contains("WARN") && warnings[0].contains("`.retry_after` has no effect"),
        "{log}"
    );
}

#[tokio::test]
async fn a_dependency_keeps_the_function_from_starting() {
    let consumer = Consumer::new(delaying().depends_on("payments")).store(MemoryStore::new());
    let error = consumer.init().await.unwrap_err().to_string();
    assert!(
        error.contains("`depends_on`") && error.contains(FEATURE),
        "{error}"
    );
}
