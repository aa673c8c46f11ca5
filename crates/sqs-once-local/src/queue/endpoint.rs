//! Serves the queues as SQS on loopback.

use super::api::{Api, LARGEST_REQUEST, router};
use super::queues::Queues;
use crate::guard::{Port, Server};
use crate::lock;
use crate::message::url;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

/// SQS on 127.0.0.1, in the JSON protocol of the SDKs and the AWS CLI. Clients send, receive, hide and delete messages
/// and move them out of a dead-letter queue, one by one or in batches. Requests that create or change a queue are
/// refused.
///
/// Requests from web pages in a browser are refused as well.
///
/// The server stops when it is dropped.
pub struct LocalSqs {
    queues: Arc<Mutex<Queues>>,
    server: Server,
}

impl LocalSqs {
    /// Serves these queues.
    ///
    /// # Errors
    /// If no loopback port is available.
    pub async fn start(queues: Queues) -> io::Result<Self> {
        Self::start_on(0, queues).await
    }

    /// Serves these queues on a port. 0 means any free port.
    ///
    /// # Errors
    /// If the port is not available.
    pub async fn start_on(port: u16, queues: Queues) -> io::Result<Self> {
        let port = Port::take(port).await?;
        let queues = Arc::new(Mutex::new(queues));
        let routes = router(Api::new(Arc::clone(&queues), port.address()));
        let server = port.serve(routes, LARGEST_REQUEST);
        Ok(Self { queues, server })
    }

    /// The endpoint for an AWS SDK, such as `http://127.0.0.1:40001`.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.server.address())
    }

    /// A queue's URL.
    pub fn url(&self, queue: &str) -> String {
        url(self.server.address(), queue)
    }

    /// Locks the queues for reading or changing. Requests wait until the guard is dropped.
    pub fn queues(&self) -> MutexGuard<'_, Queues> {
        lock(&self.queues)
    }

    pub(super) fn shared(&self) -> Arc<Mutex<Queues>> {
        Arc::clone(&self.queues)
    }
}
