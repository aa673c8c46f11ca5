//! A batch and its answer, which goes out in time whatever the batch does.

use std::sync::Arc;

use tokio::task::JoinHandle;
use tokio::time::timeout_at;
use tracing::{Instrument, error};

use crate::record::Message;

use super::Deadline;
use super::engine::Engine;
use super::ledger::{Ledger, Report};
use super::run::Run;

/// Runs a batch and reports on every record, in the batch's order, before the deadline.
pub(crate) async fn run(
    engine: Arc<Engine>,
    messages: Vec<Message>,
    deadline: Deadline,
) -> Vec<Report> {
    let ledger = Ledger::new(messages.into_iter().map(Arc::new).collect());
    // A task of its own, so that a handler that blocks holds up its batch but not the answer.
    let mut batch = AbortOnDrop(tokio::spawn({
        let ledger = ledger.clone();
        let batch = async move { Run::new(&engine, &ledger, deadline).run().await };
        batch.in_current_span()
    }));
    let ended = timeout_at(deadline.answer_by, &mut batch.0).await;
    let open = match ended {
        Ok(Ok(())) => "it has no outcome",
        Ok(Err(failure)) => {
            error!(%failure, "a batch ended early: its open records are returned");
            "its batch ended early"
        }
        Err(_) => {
            error!("a batch did not end in time: its open records are returned");
            "the deadline came before its outcome"
        }
    };
    ledger.close(open)
}

/// Nothing of a batch goes on once its invocation is over.
struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
