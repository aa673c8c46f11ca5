//! What happened to every order, as the queue, the ledger and the network saw it.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sqs_once_local::{Outcome, Received, RecordLine};

use crate::network::Fault;
use crate::worker::{Entry, Order};

/// A run's notes. What is noted first happened first.
pub(crate) struct History {
    since: Instant,
    book: Mutex<Book>,
}

/// All that was noted.
#[derive(Debug, Default)]
pub(crate) struct Book {
    pub(crate) orders: Vec<OrderNotes>,
    pub(crate) deliveries: Vec<Delivery>,
    /// Deliveries by what the function knows of them.
    known: HashMap<(usize, String, u32), usize>,
    /// What came to the ledger for nothing that was delivered.
    pub(crate) strays: Vec<String>,
    pub(crate) kills: Kills,
    /// The environment of each process.
    pub(crate) processes: Vec<usize>,
    pub(crate) faults: HashMap<Fault, usize>,
    pub(crate) requests: usize,
    pub(crate) redriven: usize,
    /// Invocations that failed for no reason that the run knows of.
    pub(crate) failures: Vec<String>,
}

/// One order.
#[derive(Debug, Default)]
pub(crate) struct OrderNotes {
    pub(crate) is_spoilt: bool,
    pub(crate) notes: Vec<Note>,
    /// What the table says in the end, where effects are counted there.
    pub(crate) counted: Option<u64>,
    /// How many messages the dead-letter queue has in the end.
    pub(crate) dead_letters: usize,
}

/// One message, delivered once, to a process.
#[derive(Debug)]
pub(crate) struct Delivery {
    pub(crate) process: usize,
    pub(crate) message_id: String,
    pub(crate) receive_count: u32,
    /// What the process logged of it.
    pub(crate) line: Option<(Outcome, Option<String>)>,
    pub(crate) close: Option<Close>,
}

/// What the ids of redriven messages begin with.
pub(crate) const REDRIVEN: &str = "r-";

impl Delivery {
    pub(crate) fn is_redriven(&self) -> bool {
        self.message_id.starts_with(REDRIVEN)
    }
}

/// How a delivery ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Close {
    /// It was acknowledged and deleted.
    Deleted,
    /// It was acknowledged after it had become visible and was received again.
    DeletedLate,
    /// The function reported it, or the answer could not be read.
    Returned,
    /// The function's answer never came.
    AnswerLost,
    Killed,
    TimedOut,
    /// The process ended by itself, or failed as a whole.
    Failed,
}

#[derive(Debug)]
pub(crate) struct Note {
    pub(crate) at: Duration,
    pub(crate) what: What,
}

#[derive(Debug)]
pub(crate) enum What {
    Sent {
        message_id: String,
    },
    Received {
        delivery: usize,
    },
    Begun {
        delivery: usize,
        fence: u64,
    },
    Effect {
        delivery: usize,
        fence: u64,
        token: String,
    },
    /// The library's table said that the order was handled.
    Recorded,
    /// What the table of the effects said.
    Counted {
        times: u64,
    },
    Closed {
        delivery: usize,
        close: Close,
    },
    Fault {
        fault: Fault,
        operation: String,
    },
}

/// What the killed processes were doing.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Kills {
    pub(crate) at_work: usize,
    pub(crate) idle: usize,
}

impl History {
    pub(crate) fn new() -> Self {
        Self {
            since: Instant::now(),
            book: Mutex::default(),
        }
    }

    pub(crate) fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.since.elapsed()
    }

    fn note(&self, book: &mut Book, order: usize, what: What) {
        let at = self.elapsed();
        if let Some(order) = book.orders.get_mut(order) {
            order.notes.push(Note { at, what });
        }
    }

    pub(crate) fn sent(&self, order: usize, is_spoilt: bool, message_id: &str) {
        let mut book = self.book();
        if book.orders.len() <= order {
            book.orders.resize_with(order + 1, OrderNotes::default);
        }
        book.orders[order].is_spoilt = is_spoilt;
        let message_id = message_id.to_owned();
        self.note(&mut book, order, What::Sent { message_id });
    }

    /// The number of a process that an environment is about to start.
    pub(crate) fn process(&self, environment: usize) -> usize {
        let mut book = self.book();
        book.processes.push(environment);
        book.processes.len() - 1
    }

    /// Which environment a process is in.
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
                process,
                message_id,
                receive_count,
                line: None,
                close: None,
            });
            if let Some(order) = order_of(received) {
                self.note(&mut book, order, What::Received { delivery });
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
                self.note(&mut book, order, What::Closed { delivery, close });
            }
        }
    }

    pub(crate) fn recorded(&self, order: usize) {
        self.note(&mut self.book(), order, What::Recorded);
    }

    pub(crate) fn counted(&self, order: usize, times: u64) {
        self.note(&mut self.book(), order, What::Counted { times });
    }

    pub(crate) fn killed(&self, at_work: bool) {
        let kills = &mut self.book().kills;
        match at_work {
            true => kills.at_work += 1,
            false => kills.idle += 1,
        }
    }

    /// What a process has logged, now that it has ended.
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

    pub(crate) fn begun(&self, entry: Entry) {
        self.entered(entry, |delivery, Entry { fence, .. }| What::Begun {
            delivery,
            fence,
        });
    }

    pub(crate) fn effect(&self, entry: Entry) {
        self.entered(entry, |delivery, Entry { fence, token, .. }| What::Effect {
            delivery,
            fence,
            token,
        });
    }

    fn entered(&self, entry: Entry, what: impl FnOnce(usize, Entry) -> What) {
        let mut book = self.book();
        let known = (entry.process, entry.message_id.clone(), entry.receive_count);
        let order = number(&entry.order_id).filter(|order| *order < book.orders.len());
        match (book.known.get(&known).copied(), order) {
            (Some(delivery), Some(order)) => self.note(&mut book, order, what(delivery, entry)),
            _ => book.strays.push(format!("{entry:?}")),
        }
    }

    /// A request was sent on its way, and nothing happened to it.
    pub(crate) fn requested(&self) {
        self.book().requests += 1;
    }

    /// A request about these orders went wrong.
    pub(crate) fn fault(&self, fault: Fault, operation: &str, orders: &[usize]) {
        let mut book = self.book();
        *book.faults.entry(fault).or_default() += 1;
        for order in orders {
            let operation = operation.to_owned();
            self.note(&mut book, *order, What::Fault { fault, operation });
        }
    }
}

/// The name of an order.
pub(crate) fn name(order: usize) -> String {
    format!("order-{order}")
}

/// The number in an order's name.
pub(crate) fn number(name: &str) -> Option<usize> {
    name.strip_prefix("order-")?.parse().ok()
}

pub(crate) fn order_of(received: &Received) -> Option<usize> {
    let order: Order = serde_json::from_str(&received.message.body).ok()?;
    number(&order.order_id)
}
