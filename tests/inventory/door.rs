//! What stands between the function and its DynamoDB: one request, counted from 0, ends badly.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use tokio::sync::Notify;

use crate::recorded::{Upstream, serve};

/// How a request ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The process dies before it arrives.
    DiesBefore,
    /// It arrives, and the process dies before it is answered.
    DiesAfter,
    /// It arrives, and the process is told that something went wrong.
    LosesAnswer,
}

pub(crate) struct Door {
    pub(crate) url: String,
    shared: Arc<Shared>,
}

struct Shared {
    dynamodb: Upstream,
    fate: Option<(usize, Fate)>,
    requests: AtomicUsize,
    dies: Notify,
}

impl Door {
    /// The way to the DynamoDB at an endpoint.
    pub(crate) async fn open(to: String, fate: Option<(usize, Fate)>) -> Self {
        let shared = Arc::new(Shared {
            dynamodb: Upstream::new(to),
            fate,
            requests: AtomicUsize::new(0),
            dies: Notify::new(),
        });
        let door = Router::new().fallback(pass).with_state(Arc::clone(&shared));
        let url = serve(door).await;
        Self { url, shared }
    }

    /// How many requests there were.
    pub(crate) fn requests(&self) -> usize {
        self.shared.requests.load(SeqCst)
    }

    /// Waits for the moment in which the process is to die.
    pub(crate) async fn dies(&self) {
        self.shared.dies.notified().await;
    }
}

async fn pass(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let at = shared.requests.fetch_add(1, SeqCst);
    let fate = shared.fate.filter(|(fatal, _)| *fatal == at);
    let fate = fate.map(|(_, fate)| fate);
    if fate == Some(Fate::DiesBefore) {
        shared.dies.notify_one();
        return std::future::pending().await;
    }
    let answer = shared.dynamodb.ask(request).await;
    match fate {
        Some(Fate::DiesAfter) => {
            shared.dies.notify_one();
            std::future::pending().await
        }
        Some(Fate::LosesAnswer) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        _ => answer,
    }
}
