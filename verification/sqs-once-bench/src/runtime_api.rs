//! The Lambda Runtime API for one contender. It measures each invocation, from sending the event to reading the answer.
//!
//! The Runtime API of `sqs-once-local` does not expose when it sends an event.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::contract;
use crate::http::{self, Connection, response};

/// How long an event may take. The contender gets it as its deadline.
const TIMEOUT: Duration = Duration::from_secs(300);
/// How often it checks whether a contender that has not answered is alive.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// The Runtime API on a loopback port. It listens until the process ends.
pub(crate) struct RuntimeApi {
    address: SocketAddr,
    shared: Arc<Shared>,
}

/// A contender's answer to an event.
#[derive(Debug)]
pub(crate) struct Answer {
    /// The response, or the error as the contender reported it.
    pub(crate) result: Result<Vec<u8>, String>,
    /// The time from sending the event to reading the answer.
    pub(crate) latency: Duration,
    pub(crate) at: Instant,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    event: Option<Arc<[u8]>>,
    /// The number of connections that wait for an event.
    waiting: usize,
    handed_out: Option<Instant>,
    answer: Option<Answer>,
}

impl RuntimeApi {
    pub(crate) fn start() -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let serving = Arc::clone(&shared);
        let serve = move |connection: &mut Connection| serve(connection, &serving);
        let address = http::listen("runtime-api", serve)?;
        Ok(Self { address, shared })
    }

    /// Its address: the value of `AWS_LAMBDA_RUNTIME_API`.
    pub(crate) fn address(&self) -> String {
        self.address.to_string()
    }

    /// Sends an event and waits for the answer. Returns `None` if no answer arrives in time, or the contender has died.
    pub(crate) fn invoke(
        &self,
        event: Arc<[u8]>,
        mut is_alive: impl FnMut() -> bool,
    ) -> Option<Answer> {
        let until = Instant::now() + TIMEOUT;
        let mut state = self.shared.state.lock();
        state.answer = None;
        state.event = Some(event);
        self.shared.changed.notify_all();
        while state.answer.is_none() && Instant::now() < until && is_alive() {
            let is_open = |state: &mut State| state.answer.is_none();
            self.shared
                .changed
                .wait_while_for(&mut state, is_open, LOOK_EVERY);
        }
        state.answer.take()
    }

    /// Waits until the contender asks for an event. Returns whether it did so in time.
    pub(crate) fn wait_until_idle(&self, timeout: Duration) -> bool {
        let mut state = self.shared.state.lock();
        let is_busy = |state: &mut State| state.waiting == 0;
        let waited = self
            .shared
            .changed
            .wait_while_for(&mut state, is_busy, timeout);
        !waited.timed_out()
    }
}

impl Shared {
    /// Waits for the next event without a timeout.
    fn next(&self) -> Arc<[u8]> {
        let mut state = self.state.lock();
        state.waiting += 1;
        self.changed.notify_all();
        loop {
            if let Some(event) = state.event.take() {
                state.waiting -= 1;
                return event;
            }
            self.changed.wait(&mut state);
        }
    }

    fn answer(&self, result: Result<Vec<u8>, String>, at: Instant) {
        let mut state = self.state.lock();
        let since = state.handed_out.unwrap_or(at);
        state.answer = Some(Answer {
            result,
            latency: at - since,
            at,
        });
        self.changed.notify_all();
    }
}

fn serve(connection: &mut Connection, shared: &Shared) -> io::Result<()> {
    while let Some(request) = connection.next_request()? {
        let at = Instant::now();
        let path = request.path.as_str();
        if path.ends_with("/invocation/next") {
            let event = shared.next();
            let event = handed_out(&event);
            shared.state.lock().handed_out = Some(Instant::now());
            connection.send(&event)?;
            continue;
        }
        let body = connection.body(&request);
        if path.ends_with("/response") {
            shared.answer(Ok(body.to_vec()), at);
        } else if path.ends_with("/error") {
            shared.answer(Err(String::from_utf8_lossy(body).into_owned()), at);
        }
        connection.send(&response(202, &[], b"{\"status\":\"OK\"}"))?;
    }
    Ok(())
}

fn handed_out(event: &[u8]) -> Vec<u8> {
    let deadline = contract::now_ms() + TIMEOUT.as_millis() as u64;
    let headers = [
        ("content-type", "application/json"),
        (
            "lambda-runtime-aws-request-id",
            "8476a536-e9f4-11e8-9739-2dfe598c3fcd",
        ),
        ("lambda-runtime-deadline-ms", &deadline.to_string()),
        (
            "lambda-runtime-invoked-function-arn",
            "arn:aws:lambda:eu-central-1:123456789012:function:bench",
        ),
        (
            "lambda-runtime-trace-id",
            "Root=1-5bef4de7-ad49b0e87f6ef6c87fc2e700;Parent=9a9197af755a6419;Sampled=0",
        ),
    ];
    response(200, &headers, event)
}
