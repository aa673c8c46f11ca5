//! Effects of the attribute's options on the running consumer.

use crate::support::envelope_bench::publication;
use crate::support::{Bench, Seen, body};
use sqs_once::body::{Sns, Text};
use sqs_once::{Batch, BatchOutcome, State, batch_handler, handler};

#[handler(key = line, decode = Text, envelope = Sns, namespace = "test")]
async fn unwrapped(line: String, State(seen): State<Seen>) {
    seen.add(line);
}

#[batch_handler(key = |line| line, decode = Text, envelope = Sns, namespace = "test")]
async fn together(lines: Batch<String>, State(seen): State<Seen>) -> BatchOutcome {
    lines.payloads().for_each(|line| seen.add(line.clone()));
    lines.all_succeeded()
}

#[tokio::test(start_paused = true)]
async fn a_message_is_opened_and_decoded_as_the_attribute_says_also_for_a_batch_handler() {
    let seen = Seen::default();
    for consumer in [
        unwrapped::consumer().state(seen.clone()),
        together::consumer().state(seen.clone()),
    ] {
        let bench = Bench::new().on(consumer);
        let published = body(&publication("p-1", "no json"));
        assert_eq!(bench.run([published.clone(), published]).await, [""; 0]);
        assert_eq!(seen.take(), ["no json"]);
    }
}
