//! Runs a batch, and answers in time even if the batch does not end.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use lambda_runtime::Context;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};
use tracing::{Instrument, error, warn};

use crate::handler::Running;
use crate::idempotency::Deadline;
use crate::record::Message;
use crate::report::{Entry, Tally};
use crate::telemetry::flush;

use super::engine::Engine;
use super::ledger::Ledger;
use super::run::run;
use super::visibility_warning;
use super::watchdog::{self, Watch};

/// The longest time that a cancelled batch needs to end, unless a handler blocks its thread.
const CANCELLED: Duration = Duration::from_millis(1);

/// Runs a batch. Returns the entry of every record, in the batch's order, before the deadline.
pub(crate) async fn answer(
    engine: Arc<Engine>,
    messages: Vec<Message>,
    invocation: Context,
    deadline: Deadline,
) -> (Vec<Entry>, Tally) {
    let began = Instant::now();
    let ledger = Ledger::new(
        messages.into_iter().map(Arc::new).collect(),
        invocation,
        engine.record_levels.clone(),
        engine.tallies(),
    );
    let running = Running::current().unwrap_or_default();
    // The batch runs in its own task, so that a handler that blocks its thread does not delay the answer.
    let mut batch = JoinSet::new();
    batch.spawn({
        let (engine, ledger, polled) = (Arc::clone(&engine), ledger.clone(), running.clone());
        let batch = async move {
            let mut run = pin!(run(&engine, &ledger, deadline, polled.clone()));
            poll_fn(|context| {
                let _guard = polled.enter();
                let polled = run.as_mut().poll(context);
                // The lines about the records that this poll has ended.
                flush();
                polled
            })
            .await;
        };
        running.clone().scope(batch).in_current_span()
    });
    let watch = Watch::begin(&ledger.held, &engine.driver().clock, &deadline);
    let ended = tokio::select! {
        biased;
        ended = timeout_at(deadline.answer_by, batch.join_next()) => ended,
        never = visibility_warning::watch(&engine, &ledger.messages, deadline) => match never {},
    };
    let open = match ended {
        Ok(Some(Err(failure))) => {
            error!(
                failure = failure.to_string(),
                "a batch ended early: its open messages are returned"
            );
            "its batch ended early"
        }
        Ok(_) => "it has no outcome",
        Err(_) => {
            error!(
                "a batch did not end in time: its open messages are returned. A handler blocks its thread: run blocking code \
                 in `sqs_once::spawn_blocking`"
            );
            let unended = ledger.open() as u64;
            let _ = timeout(CANCELLED, batch.shutdown()).await;
            // The batch did not count them if its thread was blocked.
            let mut tally = ledger.tally();
            tally.deadline_hits = tally.deadline_hits.max(unended);
            "the deadline came before its outcome"
        }
    };
    let entries = ledger.close(open);
    let still_running = running.count();
    if still_running > 0 {
        warn_of_running(&engine, still_running);
    }
    ledger.tally().still_running = still_running as u64;
    hide_returned(&engine, &ledger.messages, &entries, began, deadline).await;
    if ledger.held.is_running() {
        let (engine, held) = (Arc::clone(&engine), ledger.held.clone());
        // Lambda has the answer long before the first renewal.
        watch.answered();
        tokio::spawn(async move {
            let (running, renewed) = (|| held.running(), |ends_by| watch.renewed(ends_by));
            engine.driver().renew(deadline, running, renewed).await;
        });
    }
    let mut tally = std::mem::take(&mut *ledger.tally());
    tally.is_draining = watchdog::is_draining();
    (entries, tally)
}

fn warn_of_running(engine: &Engine, still_running: usize) {
    let routes = engine.routes.iter();
    let handlers: Vec<_> = routes
        .map(|route| route.handler.inner.handler_type.name)
        .collect();
    warn!(
        handler = handlers.join(", "),
        still_running,
        "code of the handler still runs after the deadline: this environment takes no other event until the code has ended, \
         and keeps its keys"
    );
}

/// Sets the visibility timeouts that the reports ask for. A failure does not change the answer to Lambda.
async fn hide_returned(
    engine: &Engine,
    messages: &[Arc<Message>],
    entries: &[Entry],
    began: Instant,
    by: Deadline,
) {
    let waits: Vec<_> = messages
        .iter()
        .zip(entries)
        .filter_map(|(message, entry)| {
            let since_its_end = entry.entered?.elapsed();
            let wait = entry.report.wait()?;
            Some((&**message, wait.saturating_sub(since_its_end)))
        })
        .collect();
    let hidden = engine.failed.hide(waits, began.elapsed());
    if timeout_at(by.answer_by, hidden).await.is_err() {
        warn!("the deadline came before all returned messages were hidden");
    }
}
