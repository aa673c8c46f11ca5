//! The Lambda Runtime API, served on loopback.

mod error;
mod routes;

pub use error::{FunctionError, InvokeError};

use crate::guard::{Port, Server};
use crate::lock;
use axum::body::Bytes;
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};
use uuid::Uuid;

/// How long Lambda lets a function initialise.
const INIT_LIMIT: Duration = Duration::from_secs(10);

/// The Lambda Runtime API (version 2018-06-01) on a loopback port, for one function.
///
/// Each event has a new `Lambda-Runtime-Invocation-Id`. An answer that returns another one, or that comes after the
/// timeout, is refused with 410.
///
/// It also answers the two Extensions API calls, register and next event, with which a runtime waits for its shutdown.
/// It never sends an event to an extension.
pub struct RuntimeApi {
    shared: Arc<Shared>,
    init_limit: Duration,
    server: Server,
}

type Answer = Result<Bytes, InvokeError>;

/// The state that the routes and the callers of [`RuntimeApi::invoke`] share.
struct Shared {
    function_name: String,
    pending: mpsc::UnboundedSender<Invocation>,
    // Several runtimes may poll at once (managed concurrency). Each event goes to one of them.
    queue: tokio::sync::Mutex<mpsc::UnboundedReceiver<Invocation>>,
    /// By request id, the invocations that were not answered. A caller that is gone has left its own here.
    running: Mutex<HashMap<String, Running>>,
    init_error: watch::Sender<Option<FunctionError>>,
    /// How many of its runtimes wait for an event.
    asking: watch::Sender<usize>,
}

/// An invocation whose answer is missing.
struct Running {
    invocation_id: String,
    /// Closed if the invocation has timed out.
    caller: oneshot::Sender<Answer>,
}

/// An event that waits for the function.
struct Invocation {
    request_id: String,
    /// New for each invocation, unlike the request id, which a caller may use again.
    invocation_id: String,
    payload: Bytes,
    timeout: Duration,
    taken: oneshot::Sender<()>,
}

impl RuntimeApi {
    /// Starts the Runtime API for a function called `function_name`.
    ///
    /// # Errors
    /// If no loopback port is available.
    pub async fn start(function_name: &str) -> io::Result<Self> {
        let port = Port::take(0).await?;
        let (pending, queue) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared {
            function_name: function_name.to_owned(),
            pending,
            queue: tokio::sync::Mutex::new(queue),
            running: Mutex::default(),
            init_error: watch::Sender::new(None),
            asking: watch::Sender::new(0),
        });
        let server = port.serve(routes::router(shared.clone()), routes::ANSWER_LIMIT);
        Ok(Self {
            shared,
            init_limit: INIT_LIMIT,
            server,
        })
    }

    /// Sets how long an event waits for the function to ask for it. 10 s by default, which is Lambda's own limit.
    pub fn init_limit(mut self, limit: Duration) -> Self {
        self.init_limit = limit;
        self
    }

    /// The address on which it listens, for `AWS_LAMBDA_RUNTIME_API`.
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Sends an event to the function and returns its answer unchanged.
    ///
    /// The function gets a deadline of `timeout` from the moment it takes the event. Calls may overlap. The function
    /// takes their events in order.
    ///
    /// # Errors
    /// [`InvokeError::NotTaken`] if the function does not ask for an event in time, [`InvokeError::TimedOut`] if it
    /// takes this one and does not answer within `timeout`, or the error that the function reports.
    pub async fn invoke(&self, payload: impl Into<Bytes>, timeout: Duration) -> Answer {
        let request_id = Uuid::new_v4().to_string();
        self.invoke_as(&request_id, payload.into(), timeout).await
    }

    /// Like [`RuntimeApi::invoke`], with a request id chosen by the caller.
    pub(crate) async fn invoke_as(
        &self,
        request_id: &str,
        payload: Bytes,
        timeout: Duration,
    ) -> Answer {
        let (taken, is_taken) = oneshot::channel();
        let (answer, answered) = oneshot::channel();
        let invocation_id = Uuid::new_v4().to_string();
        let running = Running {
            invocation_id: invocation_id.clone(),
            caller: answer,
        };
        lock(&self.shared.running).insert(request_id.to_owned(), running);
        // The receiver lives in `shared`, so sending can't fail.
        let _ = self.shared.pending.send(Invocation {
            request_id: request_id.to_owned(),
            invocation_id,
            payload,
            timeout,
            taken,
        });

        let invocation = async {
            let Ok(Ok(())) = tokio::time::timeout(self.init_limit, is_taken).await else {
                return Err(InvokeError::NotTaken {
                    after: self.init_limit,
                });
            };
            match tokio::time::timeout(timeout, answered).await {
                Ok(Ok(answer)) => answer,
                Ok(Err(_)) | Err(_) => Err(InvokeError::TimedOut { after: timeout }),
            }
        };
        tokio::select! {
            biased;
            answer = invocation => answer,
            error = self.init_failed() => Err(error),
        }
    }

    /// Waits until the function has initialised, which is when it asks for its first event.
    ///
    /// # Errors
    /// [`InvokeError::NotTaken`] if the function does not ask in time, and [`InvokeError::Init`] if it reports an
    /// initialisation error.
    pub async fn ready(&self) -> Result<(), InvokeError> {
        tokio::select! {
            biased;
            is_asking = self.is_asking_within(self.init_limit) => match is_asking {
                true => Ok(()),
                false => Err(InvokeError::NotTaken { after: self.init_limit }),
            },
            error = self.init_failed() => Err(error),
        }
    }

    /// Whether the function waits for an event now.
    pub(crate) fn is_asking(&self) -> bool {
        *self.shared.asking.borrow() > 0
    }

    /// Whether the function waits for an event now or asks for one within `limit`. On Lambda its environment is busy
    /// until then, even after it has answered.
    pub(crate) async fn is_asking_within(&self, limit: Duration) -> bool {
        let mut asking = self.shared.asking.subscribe();
        let is_asking = asking.wait_for(|asking| *asking > 0);
        tokio::time::timeout(limit, is_asking).await.is_ok()
    }

    async fn init_failed(&self) -> InvokeError {
        let mut init_error = self.shared.init_error.subscribe();
        let seen = init_error.wait_for(Option::is_some).await;
        // The guard must be dropped here, or this future would not be `Send`.
        match seen.ok().and_then(|error| error.clone()) {
            Some(error) => InvokeError::Init(error),
            // The sender lives in `shared` as well.
            None => std::future::pending().await,
        }
    }
}
