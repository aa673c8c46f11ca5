//! One execution environment, which runs one process and one batch at a time.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::Result;
use serde_json::json;
use sqs_once_local::{
    Batch, EventSourceMapping, Function, InvokeError, Launch, LocalDynamoDb, Received,
    TableDescription,
};
use tokio::sync::{mpsc, watch};
use tokio::time::sleep;

use crate::chance::Chance;
use crate::history::{Close, History, name, order_of};
use crate::killer::Killer;
use crate::plan::{Plan, Way};
use crate::worker::{COUNTERS, PROCESS, item_id};

/// How long an environment waits if the queue is empty.
const IDLE: Duration = Duration::from_millis(20);
/// A busy machine starts processes slowly, which is not an error.
const INIT_LIMIT: Duration = Duration::from_secs(60);
/// Of 1,000 answers, how many never reach Lambda's poller.
const ANSWERS_LOST_IN_THOUSAND: usize = 10;

/// The state that all environments share.
pub(crate) struct Shared {
    pub(crate) plan: Plan,
    pub(crate) history: Arc<History>,
    pub(crate) dynamodb: LocalDynamoDb,
    pub(crate) mapping: EventSourceMapping,
    pub(crate) killer: Arc<Killer>,
    pub(crate) done: watch::Sender<bool>,
}

pub(crate) struct Environment {
    pub(crate) number: usize,
    pub(crate) shared: Arc<Shared>,
    pub(crate) variables: Vec<(&'static str, String)>,
    pub(crate) kills: mpsc::UnboundedReceiver<()>,
    pub(crate) chance: Chance,
}

impl Environment {
    /// Runs one process after another, until no message and no kill is left.
    pub(crate) async fn run(mut self) -> Result<()> {
        while !self.is_done() {
            let process = self.shared.history.process(self.number);
            let function = self.launch(process).start().await?;
            let lived = self.live(process, &function).await;
            let lines = function.stop().await;
            self.shared.history.logged(process, lines);
            if let Some((messages, close)) = lived? {
                self.shared.history.closed(process, &messages, close);
            }
        }
        Ok(())
    }

    fn is_done(&self) -> bool {
        *self.shared.done.borrow() && self.kills.is_empty()
    }

    fn launch(&self, process: usize) -> Launch {
        let launch = Launch::new(&self.shared.plan.function)
            .init_limit(INIT_LIMIT)
            .env(PROCESS, process.to_string());
        let variables = self.variables.iter();
        variables.fold(launch, |launch, (name, value)| launch.env(*name, value))
    }

    /// Lets a process handle batches until a kill or a failure. Returns the messages that it had in hand, if any.
    async fn live(
        &mut self,
        process: usize,
        function: &Function,
    ) -> Result<Option<(Vec<Received>, Close)>> {
        let shared = Arc::clone(&self.shared);
        while !self.is_done() {
            let Some(batch) = shared.mapping.poll(SystemTime::now())? else {
                tokio::select! {
                    () = sleep(IDLE) => continue,
                    Some(()) = self.kills.recv() => {
                        shared.history.killed(false);
                        return Ok(None);
                    }
                }
            };
            shared.history.received(process, batch.messages());
            self.look_up(batch.messages())?;
            let answer = tokio::select! {
                answer = function.invoke(batch.event(), Plan::TIMEOUT) => answer,
                Some(()) = self.kills.recv() => {
                    shared.history.killed(true);
                    return Ok(Some((batch.messages().to_vec(), Close::Killed)));
                }
            };
            match answer {
                Ok(answer) => self.answered(process, batch, &answer)?,
                Err(error) => {
                    let close = match error {
                        InvokeError::TimedOut { .. } => Close::TimedOut,
                        _ => Close::Failed,
                    };
                    if close == Close::Failed {
                        shared.history.book().failures.push(format!("{error:?}"));
                    }
                    return Ok(Some((batch.messages().to_vec(), close)));
                }
            }
        }
        Ok(None)
    }

    fn answered(&self, process: usize, batch: Batch, answer: &[u8]) -> Result<()> {
        let shared = &self.shared;
        if self.chance.in_thousand(ANSWERS_LOST_IN_THOUSAND) {
            let messages = batch.messages();
            shared.history.closed(process, messages, Close::AnswerLost);
            return Ok(());
        }
        let settled = shared.mapping.settle(batch, answer, SystemTime::now())?;
        if let Some(refused) = settled.refused {
            shared.history.book().failures.push(format!("{refused:?}"));
        }
        self.look_up(&settled.deleted)?;
        self.look_up(&settled.not_deleted)?;
        shared.killer.acknowledged(settled.deleted.len());
        for (messages, close) in [
            (settled.deleted, Close::Deleted),
            (settled.not_deleted, Close::DeletedLate),
            (settled.returned, Close::Returned),
        ] {
            shared.history.closed(process, &messages, close);
        }
        Ok(())
    }

    /// Notes whether the tables contain these orders now.
    fn look_up(&self, messages: &[Received]) -> Result<()> {
        let (plan, history) = (&self.shared.plan, &self.shared.history);
        let dynamodb = &self.shared.dynamodb;
        for order in messages.iter().filter_map(order_of) {
            if is_recorded(dynamodb, order)? {
                history.recorded(order);
            }
            if plan.way == Way::Transactional {
                history.counted(order, counted(dynamodb, order)?);
            }
        }
        Ok(())
    }
}

/// Whether the library's table records the order's key as completed.
fn is_recorded(dynamodb: &LocalDynamoDb, order: usize) -> Result<bool> {
    let table = TableDescription::default().name;
    let item = dynamodb.item(&table, json!({"id": {"S": item_id(order)}}))?;
    Ok(item.is_some_and(|item| item["status"]["S"] == "COMPLETED"))
}

/// How often the effect of an order has happened, according to the table.
pub(crate) fn counted(dynamodb: &LocalDynamoDb, order: usize) -> Result<u64> {
    let item = dynamodb.item(COUNTERS, json!({"id": {"S": name(order)}}))?;
    let times = item.as_ref().and_then(|item| item["times"]["N"].as_str());
    Ok(times
        .and_then(|times| times.parse().ok())
        .unwrap_or_default())
}
