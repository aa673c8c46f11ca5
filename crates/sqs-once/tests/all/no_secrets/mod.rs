//! No log line, span, error or dead letter contains a part of a message: no body, key, receipt handle, attribute or group,
//! no completion's value, and no quotation of these by AWS.
//!
//! [`SECRETS`] are in the bodies, keys and receipt handles of the tests. Every test of this program looks through the log of
//! the whole process: see [`watch`]. A secret ends the process with the name of the thread, which is that of the test.
//! [`REACHING`] lists tests that together reach every line of the log. The test of a new line belongs there.

mod lambda;
mod leaks;
mod quoting;
mod sites;
pub(crate) mod watch;

use std::collections::BTreeSet;
use std::error::Error;
use std::process::Command;

use sites::Site;
use sqs_once::HandlerError;
use sqs_once::key::Fingerprint;
use sqs_once::store::{Status, StoreErrorKind};
use sqs_once::telemetry::{Outcome, Telemetry};
use tracing::Level;

use crate::support::{Bench, Order, SECOND, orders};

/// Every secret contains one of these: as text, in base64, in hexadecimal digits, and as formatted bytes. The testing kit's
/// receipt handles contain one, and the field of the tests' bodies another.
const SECRETS: [&str; 12] = [
    "canary",
    "4111-1111",
    "Y2FuYXJ5",
    "63616e617279",
    "63616E617279",
    "99, 97, 110, 97, 114, 121",
    "receipt-handle-of-",
    "deduplication-",
    "AIDAIENQZ",
    "#s:",
    "\"id\":",
    "id\\\":",
];

/// The tests that reach every line of the log.
const REACHING: [&str; 22] = [
    "async_decoders::when_keys_cant_be_completed_nothing_more_is_claimed",
    "batch_handlers_fifo::a_failure_hook_that_hangs_holds_up_no_call",
    "blocking::cancelled_work_holds_its_transaction_until_its_blocking_work_has_ended",
    "cache::the_off_switch_bypasses_cache_and_store",
    "deadline::without_time_left_nothing_starts",
    "executions::another_input_under_the_name_of_an_execution_is_treated_like_another_payload",
    "hostile_code::a_payload_that_panics_when_it_is_dropped_fails_nothing_else",
    "hostile_code::a_result_that_panics_when_it_is_written_never_makes_the_effect_happen_again",
    "keep_order::a_queue_that_sqs_could_empty_in_silence_is_refused",
    "no_secrets::what_no_other_test_logs_is_logged_here",
    "outages::a_breaker_that_an_operator_opens_during_the_ramp_is_noticed_after_a_pause",
    "outages::an_error_is_recognised_by_its_own_type_and_by_that_of_a_cause_only_if_the_consumer_says_so",
    "outages::queues::a_message_of_a_queue_with_unknown_settings_keeps_its_visibility_timeout_or_its_backoff",
    "renewals::a_record_that_is_left_out_of_a_batch_handlers_call_holds_no_key",
    "silence::a_record_whose_move_is_not_answered_stays_terminal",
    "start::a_start_that_the_store_refuses_says_what_to_do_and_succeeds",
    "unknown_outcome::a_first_attempt_may_take_longer_than_its_token_is_valid",
    "variables::a_store_in_memory_on_lambda_is_a_warning",
    "variables::unknown_variables_are_warned_about_once_with_the_variable_that_they_stand_for",
    "visibility::a_call_that_fails_changes_nothing_and_is_one_line_without_receipt_handles",
    "visibility::the_answer_is_in_time_even_if_sqs_never_answers",
    "visibility_warning::the_warning_comes_while_the_batch_is_at_work",
];

/// The lines that no test in this process reaches, with the reason.
const UNREACHED: [(&str, &str); 7] = [
    // No signal handler can be installed.
    ("lambda/shutdown.rs", "no signal can be received"),
    // The library catches every panic of user code earlier, so this needs a bug in this crate.
    ("batch/answer.rs", "a batch ended early"),
    // The test `lambda` reads them in the log of another process.
    ("lambda/shutdown.rs", "asked to end: "),
    ("lambda/shutdown.rs", "asked to end again"),
    ("lambda/after_answer.rs", "did not complete"),
    // They end the process, and have no fields: the test `next_event` reads them.
    ("batch/watchdog.rs", "takes no other event"),
    ("batch/watchdog.rs", "ends itself"),
];

#[track_caller]
pub(crate) fn assert_hidden(text: &str) {
    let secret = watch::secret_in(text);
    assert!(secret.is_none(), "a secret in {text}");
}

/// Asserts that neither an error nor its causes show a secret in any format.
#[track_caller]
fn assert_error_hidden(error: &(dyn Error + 'static)) {
    assert_hidden(&format!("{error:?} {error:#?}"));
    let mut cause = Some(error);
    while let Some(error) = cause {
        assert_hidden(&error.to_string());
        cause = error.source();
    }
}

#[tokio::test(start_paused = true)]
async fn what_no_other_test_logs_is_logged_here() {
    // A record's line at every level.
    let bench = Bench::new();
    for level in ["TRACE", "DEBUG", "INFO", "WARN", "ERROR"] {
        let failing = bench.handling(async |_: Order| Err::<(), HandlerError>("no luck".into()));
        let level: Level = level.parse().unwrap();
        let telemetry = Telemetry::new().record_level(Outcome::Failed, level);
        let failing = failing.telemetry(telemetry);
        assert_eq!(bench.deliver(&failing, ["canary"]).await, ["m-0"]);
    }
    // Payloads that can't be compared.
    let idempotency = bench.idempotency();
    let until = || idempotency.until(bench.deadline());
    let seven = async || Ok::<_, HandlerError>(7);
    for body in ["{\"canary\": 1}", "{\"canary\": 1, \"canary-2\": 2}"] {
        let invocation = until().fingerprint(Fingerprint::from_body(body));
        invocation.run("canary-1", seven).await.unwrap();
    }
    // A completion's value of another type.
    let text = async || Ok::<_, HandlerError>("canary".to_owned());
    until().run("canary-2", text).await.unwrap();
    until().run("canary-2", seven).await.unwrap();
    // A completion of another worker.
    let overtaken = async || {
        bench.foreign("canary-3", Status::Completed, SECOND);
        seven().await
    };
    until().run("canary-3", overtaken).await.unwrap();
    // A release that the store refuses.
    let denied = StoreErrorKind::AccessDenied;
    bench.store.always_fails("settle", denied);
    let failing = async || Err::<u8, HandlerError>("no luck".into());
    until().run("canary-4", failing).await.unwrap_err();
    // A function without a table.
    let handler = orders().call(async |_: Order| {}).namespace("test");
    let error = sqs_once::run(handler).await.unwrap_err();
    assert_hidden(&format!("{error} {error:?}"));
}

#[test]
fn every_line_of_the_log_is_reached_by_a_test_that_is_listed_here() {
    let output = Command::new(std::env::current_exe().unwrap())
        .arg("--exact")
        .args(REACHING)
        .env(watch::SITES, "1")
        // Sampled invocations have one more span.
        .env("POWERTOOLS_LOGGER_SAMPLE_RATE", "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let all_passed = format!("{} passed", REACHING.len());
    assert!(said.contains(&all_passed), "{said}");

    let reached: BTreeSet<Site> = sites::said(&said).collect();
    let in_source = sites::in_source();
    let strange = &reached - &in_source.keys().cloned().collect();
    assert!(strange.is_empty(), "not found in the source: {strange:?}");
    let unreached = in_source.iter().filter(|(site, _)| !reached.contains(site));
    let mut excused = 0;
    for (site, text) in unreached {
        let is_it = |(file, words): &(&str, &str)| site.0 == *file && text.contains(words);
        let is_excused = UNREACHED.iter().any(is_it);
        assert!(is_excused, "no test reaches {site:?}: {text}");
        excused += 1;
    }
    assert_eq!(excused, UNREACHED.len(), "what is excused is unreached");
}
