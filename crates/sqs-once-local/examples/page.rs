//! The web page of a run that is controlled by one command a line. The browser test drives it.
//!
//! `cargo run -p sqs-once-local --example page`, then open what it prints and type, for example, `send m-1 {}`, `take`,
//! `answer m-1=processed`. Its argument is a folder of sample events. Faults are shown
//! and not injected.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "an example that is driven through its input and output"
)]

use serde_json::Value;
use sqs_once_local::{
    Answer, FaultControls, Limits, LocalEvent, LocalSqs, NewMessage, Page, PageControls,
    QueueSettings, Queues, Received, RecordLine, Redrive, Story,
};
use std::error::Error;
use std::io::BufRead;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

const QUEUE: &str = "orders";
const DEAD_LETTERS: &str = "orders-dlq";
const HELP: &str = "send ID BODY | letter ID BODY | behind ID GROUP | many COUNT | take | log LINE | answer ID=OUTCOME... | \
    lose ID=OUTCOME... | crash | back | report FILE";

struct Run {
    sqs: Arc<LocalSqs>,
    story: Story,
    requests: u32,
    /// The number of the last environment, and whether it runs.
    environment: u32,
    runs: bool,
    /// The messages that the function holds, and the messages that it returned.
    batch: Vec<Received>,
    returned: Vec<Received>,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let story = Story::new(QUEUE, Some(DEAD_LETTERS), Limits::default());
    let mut queues = Queues::default();
    queues.observe(story.observer());
    let redrive = Redrive {
        to: DEAD_LETTERS.to_owned(),
        max_receive_count: 2,
    };
    queues.create(DEAD_LETTERS, QueueSettings::default())?;
    queues.create(
        QUEUE,
        QueueSettings {
            redrive: Some(redrive),
            visibility_timeout: Duration::from_secs(3600),
            ..QueueSettings::default()
        },
    )?;
    let sqs = Arc::new(LocalSqs::start(queues).await?);
    let controls = PageControls {
        sqs: Some(Arc::clone(&sqs)),
        samples: std::env::args_os().nth(1).map(PathBuf::from),
        faults: Some(FaultControls::default()),
    };
    let page = Page::start(story.clone(), controls, 0).await?;
    println!("{}", page.url());
    let mut run = Run {
        sqs,
        story,
        requests: 0,
        environment: 0,
        runs: false,
        batch: Vec::new(),
        returned: Vec::new(),
    };
    tokio::task::spawn_blocking(move || {
        for line in std::io::stdin().lock().lines() {
            match run.command(&line.unwrap_or_default()) {
                Ok(()) => println!("ok"),
                Err(error) => println!("{error}; {HELP}"),
            }
        }
    })
    .await?;
    Ok(())
}

impl Run {
    fn tell(&self, event: &LocalEvent) {
        self.story.observer()(SystemTime::now(), event);
    }

    fn command(&mut self, line: &str) -> Result<(), Box<dyn Error>> {
        let (command, rest) = line.split_once(' ').unwrap_or((line, ""));
        match command {
            "send" => {
                let (id, body) = rest.split_once(' ').ok_or("send what?")?;
                self.send(QUEUE, NewMessage::new(id, body))
            }
            // A dead letter that the function sends.
            "letter" => {
                let (id, body) = rest.split_once(' ').ok_or("send what?")?;
                self.send(DEAD_LETTERS, NewMessage::new(id, body))
            }
            // A message of a blocked group, which the function sends to the dead-letter queue.
            "behind" => {
                let (id, group) = rest.split_once(' ').ok_or("send what?")?;
                self.send(DEAD_LETTERS, NewMessage::new(id, "{}").in_group(group, id))?;
                let reason = "behind a dead letter of its message group";
                self.tell(&LocalEvent::Record {
                    environment: self.environment,
                    record: RecordLine {
                        message_id: id.to_owned(),
                        outcome: "terminal".to_owned(),
                        duration_ms: None,
                        code: Some("behind-dead-letter".to_owned()),
                        reason: Some(reason.to_owned()),
                        route: None,
                        key: None,
                        receive_count: Some(1),
                    },
                });
                Ok(())
            }
            "many" => (1..=rest.parse()?).try_for_each(|number: u32| {
                let body = format!(r#"{{"order_id": "many-{number}"}}"#);
                self.send(QUEUE, NewMessage::new(format!("many-{number}"), body))
            }),
            "take" => self.take(),
            "log" => {
                self.log(rest.to_owned());
                Ok(())
            }
            "answer" => self.answer(rest),
            "lose" => {
                self.record(rest);
                let reason = "answer lost by --fault drop-response".to_owned();
                self.answered(Answer::Failed { reason });
                self.returned.append(&mut self.batch);
                Ok(())
            }
            "crash" => {
                self.runs = false;
                let reason = "killed by signal 9".to_owned();
                self.tell(&LocalEvent::EnvironmentEnded {
                    environment: self.environment,
                    reason: reason.clone(),
                });
                self.answered(Answer::Failed { reason });
                self.returned.append(&mut self.batch);
                Ok(())
            }
            // Makes returned messages visible at once.
            "back" => self.returned.drain(..).try_for_each(|received| {
                let handle = &received.receipt_handle;
                let mut queues = self.sqs.queues();
                queues.change_visibility(QUEUE, handle, Duration::ZERO, SystemTime::now())?;
                Ok(())
            }),
            "report" => Ok(std::fs::write(rest, self.story.report())?),
            _ => Err("no such command".into()),
        }
    }

    fn send(&self, queue: &str, message: NewMessage) -> Result<(), Box<dyn Error>> {
        self.sqs.queues().send(queue, message, SystemTime::now())?;
        Ok(())
    }

    fn request_id(&self) -> String {
        format!("request-{}", self.requests)
    }

    fn take(&mut self) -> Result<(), Box<dyn Error>> {
        self.batch = self.sqs.queues().receive(QUEUE, 10, SystemTime::now())?;
        if !self.runs {
            self.runs = true;
            self.environment += 1;
            self.tell(&LocalEvent::EnvironmentStarted {
                environment: self.environment,
            });
        }
        self.requests += 1;
        let ids = self.batch.iter().map(|one| one.message.id.clone());
        let message_ids: Vec<_> = ids.collect();
        self.tell(&LocalEvent::Invoked {
            environment: self.environment,
            request_id: self.request_id(),
            queue: QUEUE.to_owned(),
            message_ids: message_ids.clone(),
        });
        self.log(r#"{"level":"INFO","message":"a batch has come"}"#.to_owned());
        for id in message_ids {
            self.log(format!(
                r#"{{"level":"INFO","message":"charging the card","message_id":"{id}","cents":1250}}"#
            ));
        }
        Ok(())
    }

    fn log(&self, line: String) {
        let environment = self.environment;
        self.tell(&LocalEvent::Logged { environment, line });
    }

    /// Answers after it has reported `ID=OUTCOME` of messages. Messages that are not named are processed.
    fn answer(&mut self, said: &str) -> Result<(), Box<dyn Error>> {
        let failures = self.record(said);
        for received in std::mem::take(&mut self.batch) {
            if failures.contains(&received.message.id) {
                self.returned.push(received);
            } else {
                let mut queues = self.sqs.queues();
                queues.delete(QUEUE, &received.receipt_handle, SystemTime::now())?;
            }
        }
        self.answered(Answer::Read { failures });
        Ok(())
    }

    /// Reports the outcome of each message, and returns the messages that failed.
    fn record(&self, said: &str) -> Vec<String> {
        let mut failures = Vec::new();
        for received in &self.batch {
            let id = received.message.id.clone();
            let mut named = said.split(' ').filter_map(|one| one.split_once('='));
            let named = named.find(|(name, _)| *name == id);
            let outcome = named.map_or("processed", |one| one.1);
            let failed = !matches!(outcome, "processed" | "duplicate");
            let body: Value = serde_json::from_str(&received.message.body).unwrap_or_default();
            let key = body["order_id"].as_str().unwrap_or(&id);
            self.tell(&LocalEvent::Record {
                environment: self.environment,
                record: RecordLine {
                    message_id: id.clone(),
                    outcome: outcome.to_owned(),
                    duration_ms: Some(12.5),
                    code: failed.then(|| "handler-error".to_owned()),
                    reason: failed.then(|| "the card was <b>declined</b>".to_owned()),
                    route: Some("OrderPlaced".to_owned()),
                    key: Some(format!("orders#{key}")),
                    receive_count: Some(received.receive_count.into()),
                },
            });
            if failed {
                failures.push(id);
            }
        }
        failures
    }

    fn answered(&self, answer: Answer) {
        self.tell(&LocalEvent::Answered {
            environment: self.environment,
            request_id: self.request_id(),
            answer,
        });
    }
}
