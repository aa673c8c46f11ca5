//! What happened to every order, as the queue, the ledger and the network saw it.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use clap::ValueEnum;
use parking_lot::{Mutex, MutexGuard};
use sqs_once_local::{Received, RecordLine};

use crate::network::TrafficFault;
use crate::worker::{Entry, Order};

/// The notes of a run, in order of time.
pub(crate) struct History {
    since: Instant,
    book: Mutex<Book>,
}

#[derive(Debug, Default)]
pub(crate) struct Book {
    pub(crate) orders: Vec<OrderNotes>,
    pub(crate) deliveries: Vec<Delivery>,
    /// Deliveries by the values that the function knows: process, message id and receive count.
    known: HashMap<(usize, String, u32), usize>,
    /// Ledger entries that match no delivery.
    pub(crate) strays: Vec<String>,
    pub(crate) fates: Fates,
    /// The environment of each process.
    pub(crate) processes: Vec<usize>,
    pub(crate) faults: BTreeMap<TrafficFault, usize>,
    pub(crate) requests: usize,
    pub(crate) redriven: usize,
    /// Invocations that failed for an unknown reason.
    pub(crate) failures: Vec<String>,
}

#[derive(Debug, Default)]
pub(crate) struct OrderNotes {
    pub(crate) is_spoilt: bool,
    /// Whether its first attempt may outlive its invocation.
    pub(crate) outlives: bool,
    pub(crate) notes: Vec<Note>,
    /// The counter in the table at the end, if the table counts effects.
    pub(crate) counted: Option<u64>,
    /// How many of its messages are in the dead-letter queue at the end.
    pub(crate) dead_letters: usize,
}

/// One delivery of a message to a process.
#[derive(Debug)]
pub(crate) struct Delivery {
    pub(crate) order: Option<usize>,
    pub(crate) process: usize,
    pub(crate) message_id: String,
    pub(crate) receive_count: u32,
    /// What the process logged about the delivery.
    pub(crate) line: Option<(String, Option<String>)>,
    pub(crate) close: Option<Close>,
}

/// The prefix of the ids of redriven messages.
pub(crate) const REDRIVEN: &str = "r-";

impl Delivery {
    pub(crate) fn is_redriven(&self) -> bool {
        self.message_id.starts_with(REDRIVEN)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Close {
    #[value(name = "acknowledged")]
    Deleted,
    /// The message was acknowledged after it had become visible and was received again.
    #[value(name = "acknowledged too late")]
    DeletedLate,
    /// The function reported the message as failed, or its answer could not be read.
    Returned,
    #[value(name = "answer lost")]
    AnswerLost,
    Killed,
    #[value(name = "timed out")]
    TimedOut,
    /// The process ended itself, because code could not keep its lease.
    #[value(name = "ended itself")]
    EndedItself,
    /// The process ended by itself for another reason, or its invocation failed.
    Failed,
}

#[derive(Debug)]
pub(crate) struct Note {
    pub(crate) at: Duration,
    /// The delivery that it is about, if any.
    pub(crate) delivery: Option<usize>,
    pub(crate) what: What,
}

#[derive(Clone, Debug)]
pub(crate) enum What {
    /// With this message id.
    Sent(String),
    Received,
    Begun {
        fence: u64,
    },
    Effect {
        fence: u64,
        token: String,
    },
    Recorded,
    /// The value in the table of the effects.
    Counted(u64),
    Closed(Close),
    /// The process is frozen.
    Frozen,
    Thawed,
    /// The process is gone.
    Gone,
    TrafficFault {
        fault: TrafficFault,
        operation: String,
    },
}

/// What happened to processes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Fates {
    pub(crate) killed_at_work: usize,
    pub(crate) killed_idle: usize,
    pub(crate) freezes: usize,
    /// At the timeout of an invocation, without an answer or with code that still ran.
    pub(crate) ended: usize,
    pub(crate) frozen: usize,
    pub(crate) lived_on: usize,
    /// Because code could not keep its lease.
    pub(crate) ended_themselves: usize,
}

impl History {
    pub(crate) fn new() -> Self {
        Self {
            since: Instant::now(),
            book: Mutex::default(),
        }
    }

    pub(crate) fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock()
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.since.elapsed()
    }

    fn note(&self, book: &mut Book, order: usize, delivery: Option<usize>, what: What) {
        let at = self.elapsed();
        if let Some(order) = book.orders.get_mut(order) {
            order.notes.push(Note { at, delivery, what });
        }
    }

    pub(crate) fn sent(&self, order: usize, body: &Order, message_id: &str) {
        let mut book = self.book();
        if book.orders.len() <= order {
            book.orders.resize_with(order + 1, OrderNotes::default);
        }
        book.orders[order].is_spoilt = body.is_spoilt;
        book.orders[order].outlives = body.blocks_ms > 0;
        self.note(&mut book, order, None, What::Sent(message_id.to_owned()));
    }

    /// Assigns a number to a process that an environment is about to start.
    pub(crate) fn process(&self, environment: usize) -> usize {
        let mut book = self.book();
        book.processes.push(environment);
        book.processes.len() - 1
    }

    pub(crate) fn environment(&self, process: usize) -> Option<usize> {
        self.book().processes.get(process).copied()
    }

    pub(crate) fn received(&self, process: usize, messages: &[Received]) {
        let mut book = self.book();
        for received in messages {
            let delivery = book.deliveries.len();
            let message_id = received.message.id.clone();
            let receive_count = received.receive_count;
            book.known
                .insert((process, message_id.clone(), receive_count), delivery);
            book.deliveries.push(Delivery {
                order: order_of(received),
                process,
                message_id,
                receive_count,
                line: None,
                close: None,
            });
            if let Some(order) = order_of(received) {
                self.note(&mut book, order, Some(delivery), What::Received);
            }
        }
    }

    pub(crate) fn closed(&self, process: usize, messages: &[Received], close: Close) {
        let mut book = self.book();
        for received in messages {
            let known = (process, received.message.id.clone(), received.receive_count);
            if let (Some(delivery), Some(order)) =
                (book.known.get(&known).copied(), order_of(received))
            {
                book.deliveries[delivery].close = Some(close);
                self.note(&mut book, order, Some(delivery), What::Closed(close));
            }
        }
    }

    pub(crate) fn frozen(&self, process: usize) {
        self.book().fates.freezes += 1;
        self.of_process(process, &What::Frozen);
    }

    pub(crate) fn thawed(&self, process: usize) {
        self.of_process(process, &What::Thawed);
    }

    pub(crate) fn gone(&self, process: usize) {
        self.of_process(process, &What::Gone);
    }

    /// Notes what happened to a process for the orders whose handlers it may run.
    fn of_process(&self, process: usize, what: &What) {
        let mut book = self.book();
        let all = book.deliveries.iter().enumerate();
        let its = all.filter(|(_, one)| one.process == process);
        let orders = its.filter_map(|(at, one)| Some((at, one.order?, one.close)));
        let runs = |(_, order, close): &(usize, usize, Option<Close>)| {
            close.is_none_or(|close| close == Close::TimedOut) || book.orders[*order].outlives
        };
        let orders: Vec<_> = orders.filter(runs).collect();
        for (delivery, order, _) in orders {
            self.note(&mut book, order, Some(delivery), what.clone());
        }
    }

    pub(crate) fn recorded(&self, order: usize) {
        self.note(&mut self.book(), order, None, What::Recorded);
    }

    pub(crate) fn counted(&self, order: usize, times: u64) {
        self.note(&mut self.book(), order, None, What::Counted(times));
    }

    pub(crate) fn killed(&self, at_work: bool) {
        let fates = &mut self.book().fates;
        match at_work {
            true => fates.killed_at_work += 1,
            false => fates.killed_idle += 1,
        }
    }

    pub(crate) fn logged(&self, process: usize, lines: Vec<RecordLine>) {
        let mut book = self.book();
        for line in lines {
            let receive_count = line.receive_count.and_then(|count| count.try_into().ok());
            let known = (process, line.message_id, receive_count.unwrap_or_default());
            if let Some(delivery) = book.known.get(&known).copied() {
                book.deliveries[delivery].line = Some((line.outcome, line.reason));
            }
        }
    }

    pub(crate) fn begun(&self, entry: &Entry) {
        let fence = entry.fence;
        self.entered(entry, What::Begun { fence });
    }

    pub(crate) fn effect(&self, entry: &Entry) {
        let (fence, token) = (entry.fence, entry.token.clone());
        self.entered(entry, What::Effect { fence, token });
    }

    fn entered(&self, entry: &Entry, what: What) {
        let mut book = self.book();
        let known = (entry.process, entry.message_id.clone(), entry.receive_count);
        let order = number(&entry.order_id).filter(|order| *order < book.orders.len());
        match (book.known.get(&known).copied(), order) {
            (delivery @ Some(_), Some(order)) => self.note(&mut book, order, delivery, what),
            _ => book.strays.push(format!("{entry:?}")),
        }
    }

    /// Counts a request that met no fault.
    pub(crate) fn requested(&self) {
        self.book().requests += 1;
    }

    /// Notes a fault of a request about these orders.
    pub(crate) fn fault(&self, fault: TrafficFault, operation: &str, orders: &[usize]) {
        let mut book = self.book();
        *book.faults.entry(fault).or_default() += 1;
        for order in orders {
            let operation = operation.to_owned();
            let what = What::TrafficFault { fault, operation };
            self.note(&mut book, *order, None, what);
        }
    }
}

pub(crate) fn name(order: usize) -> String {
    format!("order-{order}")
}

pub(crate) fn number(name: &str) -> Option<usize> {
    name.strip_prefix("order-")?.parse().ok()
}

pub(crate) fn order_of(received: &Received) -> Option<usize> {
    let order: Order = serde_json::from_str(&received.message.body).ok()?;
    number(&order.order_id)
}
