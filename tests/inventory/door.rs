//! What stands between the function and its DynamoDB: one request, counted from 0, ends badly.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tokio::sync::Notify;

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
    to: String,
    client: Client<HttpConnector, Body>,
    fate: Option<(usize, Fate)>,
    requests: AtomicUsize,
    dies: Notify,
}

impl Door {
    /// The way to the DynamoDB at an endpoint.
    pub(crate) async fn open(to: String, fate: Option<(usize, Fate)>) -> Self {
        let shared = Arc::new(Shared {
            to,
            client: Client::builder(TokioExecutor::new()).build_http(),
            fate,
            requests: AtomicUsize::new(0),
            dies: Notify::new(),
        });
        let door = Router::new().fallback(pass).with_state(Arc::clone(&shared));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, door).await });
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

async fn pass(State(shared): State<Arc<Shared>>, mut request: Request) -> Response {
    let at = shared.requests.fetch_add(1, SeqCst);
    let fate = shared.fate.filter(|(fatal, _)| *fatal == at);
    let fate = fate.map(|(_, fate)| fate);
    if fate == Some(Fate::DiesBefore) {
        shared.dies.notify_one();
        return std::future::pending().await;
    }
    let path = request.uri().path_and_query().unwrap();
    *request.uri_mut() = format!("{}{path}", shared.to).parse().unwrap();
    let answer = shared.client.request(request).await.unwrap();
    match fate {
        Some(Fate::DiesAfter) => {
            shared.dies.notify_one();
            std::future::pending().await
        }
        Some(Fate::LosesAnswer) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        _ => answer.map(Body::new),
    }
}
