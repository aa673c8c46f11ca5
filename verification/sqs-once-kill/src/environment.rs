//! One execution environment, which runs one process and one batch at a time.

use std::pin::pin;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::Result;
use hyper::body::Bytes;
use serde_json::json;
use sqs_once_local::{
    Batch, EventSourceMapping, Function, InvokeError, Launch, LocalDynamoDb, Received,
    TableDescription,
};
use tokio::process::Command;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::chance::Chance;
use crate::history::{Close, History, name, order_of};
use crate::killer::{FROZEN_MS, Killer, Strike};
use crate::plan::{Plan, Way};
use crate::worker::{COUNTERS, PROCESS, PROCESS_ID, item_id};

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
    pub(crate) strikes: mpsc::UnboundedReceiver<Strike>,
    pub(crate) chance: Chance,
}

/// The fate of a process at the timeout of an invocation that has no answer, or whose code still runs.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Ends,
    /// It is frozen, and thawed after this time.
    Freezes(Duration),
    LivesOn,
}

impl Environment {
    /// Runs one process after another, until no message and no strike is left.
    pub(crate) async fn run(mut self) -> Result<()> {
        while !self.is_done() {
            let number = self.shared.history.process(self.number);
            let mut process = self.start(number).await?;
            let lived = self.live(&mut process).await;
            let lines = process.function.stop().await;
            self.shared.history.logged(number, lines);
            if let Some((messages, close)) = lived? {
                self.shared.history.closed(number, &messages, close);
            }
            self.shared.history.gone(number);
        }
        Ok(())
    }

    fn is_done(&self) -> bool {
        *self.shared.done.borrow() && self.strikes.is_empty()
    }

    async fn start(&self, number: usize) -> Result<Process> {
        let seen = watch::Sender::new(Seen::default());
        let heard = seen.subscribe();
        let launch = Launch::new(&self.shared.plan.function)
            .init_limit(INIT_LIMIT)
            .on_line(move |line| seen.send_modify(|seen| seen.line(line)))
            .env(PROCESS, number.to_string());
        let variables = self.variables.iter();
        let launch = variables.fold(launch, |launch, (name, value)| launch.env(*name, value));
        Ok(Process {
            number,
            function: launch.start().await?,
            signals: Signals {
                process: number,
                seen: heard,
                thaws: JoinSet::new(),
                history: Arc::clone(&self.shared.history),
            },
        })
    }

    /// Lets a process handle batches until a kill or a failure. Returns the messages that it had in hand, if any.
    async fn live(&mut self, process: &mut Process) -> Result<Option<(Vec<Received>, Close)>> {
        let shared = Arc::clone(&self.shared);
        while !self.is_done() {
            let Some(batch) = shared.mapping.poll(SystemTime::now())? else {
                tokio::select! {
                    () = sleep(IDLE) => continue,
                    Some(strike) = self.strikes.recv() => match strike {
                        Strike::Kill => {
                            shared.history.killed(false);
                            return Ok(None);
                        }
                        Strike::Freeze(time) => process.signals.freeze(time).await?,
                    }
                }
                continue;
            };
            shared.history.received(process.number, batch.messages());
            self.look_up(batch.messages())?;
            let time_is_up = Instant::now() + Plan::TIMEOUT;
            let answer = match self.invoke(process, &batch).await? {
                Some(answer) => answer,
                None => return Ok(Some((batch.messages().to_vec(), Close::Killed))),
            };
            match answer {
                Ok(answer) => self.answered(process.number, batch, &answer)?,
                Err(InvokeError::TimedOut { .. }) => {
                    let messages = batch.messages();
                    shared
                        .history
                        .closed(process.number, messages, Close::TimedOut);
                }
                Err(error) => {
                    let close = self.failed(process, &error);
                    return Ok(Some((batch.messages().to_vec(), close)));
                }
            }
            if !self.asks_again(process, time_is_up).await? {
                return Ok(None);
            }
        }
        Ok(None)
    }

    /// The answer to a batch. `None` if the process is killed first.
    async fn invoke(
        &mut self,
        process: &mut Process,
        batch: &Batch,
    ) -> Result<Option<Result<Bytes, InvokeError>>> {
        let Process {
            function, signals, ..
        } = process;
        let mut answer = pin!(function.invoke(batch.event(), Plan::TIMEOUT));
        loop {
            tokio::select! {
                answer = &mut answer => return Ok(Some(answer)),
                Some(strike) = self.strikes.recv() => match strike {
                    Strike::Kill => {
                        self.shared.history.killed(true);
                        return Ok(None);
                    }
                    Strike::Freeze(time) => signals.freeze(time).await?,
                }
            }
        }
    }

    /// Waits until the process asks for its next event. Meanwhile its invocation may time out. Returns `false` if the process
    /// ends.
    async fn asks_again(&mut self, process: &mut Process, time_is_up: Instant) -> Result<bool> {
        let history = Arc::clone(&self.shared.history);
        let mut is_up = false;
        loop {
            tokio::select! {
                biased;
                asks = process.function.ready() => match asks {
                    Ok(()) => return Ok(true),
                    Err(error) => {
                        self.failed(process, &error);
                        return Ok(false);
                    }
                },
                Some(strike) = self.strikes.recv() => match strike {
                    Strike::Kill => {
                        history.killed(true);
                        return Ok(false);
                    }
                    Strike::Freeze(time) => process.signals.freeze(time).await?,
                },
                () = sleep_until(time_is_up), if !is_up => {
                    is_up = true;
                    match self.fate() {
                        Fate::Ends => {
                            history.book().fates.ended += 1;
                            return Ok(false);
                        }
                        Fate::Freezes(time) => {
                            history.book().fates.frozen += 1;
                            process.signals.freeze(time).await?;
                        }
                        Fate::LivesOn => history.book().fates.lived_on += 1,
                    }
                }
            }
        }
    }

    fn fate(&self) -> Fate {
        match self.chance.below(3) {
            0 => Fate::Ends,
            1 => Fate::Freezes(self.chance.millis(FROZEN_MS)),
            _ => Fate::LivesOn,
        }
    }

    /// A process has ended by itself, or its invocation has failed.
    fn failed(&self, process: &Process, error: &InvokeError) -> Close {
        let mut book = self.shared.history.book();
        if matches!(error, InvokeError::Exited { .. }) && process.signals.seen.borrow().ends_itself
        {
            book.fates.ended_themselves += 1;
            return Close::EndedItself;
        }
        book.failures.push(format!("{error:?}"));
        Close::Failed
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

/// A process of the function.
struct Process {
    number: usize,
    function: Function,
    signals: Signals,
}

/// Freezes and thaws a process.
struct Signals {
    process: usize,
    seen: watch::Receiver<Seen>,
    /// Dropping it ends them.
    thaws: JoinSet<()>,
    history: Arc<History>,
}

/// The lines that a process has written, as far as they matter.
#[derive(Default)]
struct Seen {
    id: Option<String>,
    ends_itself: bool,
}

impl Seen {
    fn line(&mut self, line: &str) {
        if let Some(id) = line.strip_prefix(PROCESS_ID) {
            self.id = Some(id.to_owned());
        }
        self.ends_itself |= line.contains("this process ends itself");
    }
}

impl Signals {
    /// Freezes the process, and thaws it after this time.
    async fn freeze(&mut self, time: Duration) -> Result<()> {
        // The process may have ended, and never written its id.
        let has_id = self.seen.wait_for(|seen| seen.id.is_some());
        let id = timeout(INIT_LIMIT, async { has_id.await.ok()?.id.clone() }).await;
        let Ok(Some(id)) = id else {
            return Ok(());
        };
        if !self.thaws.is_empty() && self.thaws.try_join_next().is_none() {
            // It is frozen already.
            self.history.book().fates.freezes += 1;
            return Ok(());
        }
        self.history.frozen(self.process);
        signal("STOP", &id).await?;
        let (number, history) = (self.process, Arc::clone(&self.history));
        self.thaws.spawn(async move {
            sleep(time).await;
            history.thawed(number);
            // It fails only if the process has ended.
            let _ = signal("CONT", &id).await;
        });
        Ok(())
    }
}

async fn signal(name: &str, process: &str) -> Result<()> {
    let mut kill = Command::new("kill");
    kill.args(["-s", name, process]).stderr(Stdio::null());
    kill.status().await?;
    Ok(())
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
