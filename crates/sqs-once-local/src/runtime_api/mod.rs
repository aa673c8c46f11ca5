//! The Lambda Runtime API, served on loopback.

mod error;
mod routes;

pub use error::{FunctionError, InvokeError};

use crate::guard::{Port, Server};
use axum::body::Bytes;
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};
use uuid::Uuid;

/// How long Lambda lets a function initialise before it gives up: 10 s.
const INIT_LIMIT: Duration = Duration::from_secs(10);

/// The Lambda Runtime API (version 2018-06-01) on a loopback port, for one function.
///
/// It also answers the two Extensions API calls that a runtime makes to be told of its shutdown
/// (register, next event); no extension is ever sent an event.
pub struct RuntimeApi {
    shared: Arc<Shared>,
    init_limit: Duration,
    server: Server,
}

type Answer = Result<Bytes, InvokeError>;

/// What the routes and the callers of [`RuntimeApi::invoke`] have in common.
struct Shared {
    function_name: String,
    pending: mpsc::UnboundedSender<Invocation>,
    // Several runtimes may poll at once (managed concurrency); each event goes to one of them.
    queue: tokio::sync::Mutex<mpsc::UnboundedReceiver<Invocation>>,
    running: Mutex<HashMap<String, oneshot::Sender<Answer>>>,
    init_error: watch::Sender<Option<FunctionError>>,
    /// How many of its runtimes wait for an event.
    asking: watch::Sender<usize>,
}

impl Shared {
    /// Takes the caller that waits for this invocation's answer, if there still is one.
    fn finish(&self, request_id: &str) -> Option<oneshot::Sender<Answer>> {
        self.running
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(request_id)
    }
}

/// An event on its way to the function.
struct Invocation {
    request_id: String,
    payload: Bytes,
    timeout: Duration,
    taken: oneshot::Sender<()>,
}

impl RuntimeApi {
    /// Starts the Runtime API for a function called `function_name`.
    ///
    /// # Errors
    /// If no loopback port could be had.
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

    /// Changes how long an event waits for the function to ask for it (Lambda's own limit, 10 s,
    /// unless set).
    pub fn init_limit(mut self, limit: Duration) -> Self {
        self.init_limit = limit;
        self
    }

    /// Where it listens: the value of `AWS_LAMBDA_RUNTIME_API`.
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Sends an event to the function and waits for its answer, which is returned as it came.
    ///
    /// The function is told a deadline of `timeout` from the moment it takes the event. Calls may
    /// overlap; the function takes their events in order.
    ///
    /// # Errors
    /// [`InvokeError::NotTaken`] if the function does not ask for an event in time,
    /// [`InvokeError::TimedOut`] if it takes this one and does not answer within `timeout`, and
    /// the error that the function reports, if it does.
    pub async fn invoke(&self, payload: impl Into<Bytes>, timeout: Duration) -> Answer {
        let request_id = Uuid::new_v4().to_string();
        self.invoke_as(&request_id, payload.into(), timeout).await
    }

    /// As [`RuntimeApi::invoke`], under a request id of the caller's.
    pub(crate) async fn invoke_as(
        &self,
        request_id: &str,
        payload: Bytes,
        timeout: Duration,
    ) -> Answer {
        let (taken, is_taken) = oneshot::channel();
        let (answer, answered) = oneshot::channel();
        self.shared
            .running
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(request_id.to_owned(), answer);
        let _forget = Forget {
            shared: &self.shared,
            request_id,
        };
        // The receiver lives in `shared`, so sending can't fail.
        let _ = self.shared.pending.send(Invocation {
            request_id: request_id.to_owned(),
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

    /// Waits until the function has initialised: until it asks for its first event.
    ///
    /// # Errors
    /// [`InvokeError::NotTaken`] if it does not in time, and [`InvokeError::Init`] if it says that it can't.
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

    /// Whether the function waits for an event now or asks for one in time. On Lambda its environment is at work until
    /// then, also when it has answered.
    pub(crate) async fn is_asking_within(&self, limit: Duration) -> bool {
        let mut asking = self.shared.asking.subscribe();
        let is_asking = asking.wait_for(|asking| *asking > 0);
        tokio::time::timeout(limit, is_asking).await.is_ok()
    }

    async fn init_failed(&self) -> InvokeError {
        let mut init_error = self.shared.init_error.subscribe();
        let seen = init_error.wait_for(Option::is_some).await;
        // Its guard must not be held further on, or the caller could not move to another thread.
        match seen.ok().and_then(|error| error.clone()) {
            Some(error) => InvokeError::Init(error),
            // The sender lives in `shared` as well.
            None => std::future::pending().await,
        }
    }
}

/// Forgets an invocation when its caller is gone, so that a late answer is refused.
struct Forget<'a> {
    shared: &'a Shared,
    request_id: &'a str,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        self.shared.finish(self.request_id);
    }
}
