//! The page's server on loopback.

use super::act::{self, ActError, Done};
use super::html;
use super::story::Story;
use super::token::Token;
use crate::guard::{Port, Server};
use crate::queue::LocalSqs;
use axum::extract::rejection::JsonRejection;
use axum::extract::{Path, Query, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::json;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// How long a request waits for the next event.
const WAIT: Duration = Duration::from_secs(20);

/// A message is 1 MiB at most, and JSON may encode each of its bytes as six.
const LARGEST_REQUEST: usize = 8 * 1024 * 1024;

/// Serves a [`Story`] as a web page on 127.0.0.1 and updates it live.
///
/// If it gets a [`LocalSqs`], the page has buttons to send a message, to deliver one twice, and to move the messages in
/// the dead-letter queue back.
///
/// The page is for browsers on this machine. It refuses requests for another host name than `localhost` or a loopback
/// address, and requests from other sites. A request that changes anything must contain the token from the page. The
/// server stops when it is dropped.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use sqs_once_local::{Limits, LocalSqs, Page, QueueSettings, Queues, Story};
/// use std::sync::Arc;
///
/// let story = Story::new("orders", None, Limits::default());
/// let mut queues = Queues::default();
/// queues.observe(story.observer());
/// queues.create("orders", QueueSettings::default())?;
/// let sqs = Arc::new(LocalSqs::start(queues).await?);
///
/// let page = Page::start(story, Some(Arc::clone(&sqs)), 0).await?;
/// println!("see {}", page.url());
/// # Ok(())
/// # }
/// ```
pub struct Page {
    server: Server,
}

/// The page can't be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PageError {
    /// The port is not available.
    #[error("the web page can't have port {port} of 127.0.0.1: choose another, or 0 for any")]
    Listen {
        /// The requested port.
        port: u16,
        /// The cause.
        source: io::Error,
    },
}

/// The state that all routes share.
struct Shared {
    story: Story,
    sqs: Option<Arc<LocalSqs>>,
    token: Token,
}

impl Page {
    /// Serves a story on a port. 0 means any free port. Without `sqs`, the page is read-only.
    ///
    /// # Errors
    /// [`PageError::Listen`] if the port is not available.
    pub async fn start(
        story: Story,
        sqs: Option<Arc<LocalSqs>>,
        port: u16,
    ) -> Result<Self, PageError> {
        let taken = Port::take(port).await;
        let taken = taken.map_err(|source| PageError::Listen { port, source })?;
        let token = Token::new();
        let shared = Arc::new(Shared { story, sqs, token });
        let routes = Router::new()
            .route("/", get(page))
            .route("/story", get(story_since))
            .route("/message/{number}", get(message))
            .route("/report", get(report))
            .route("/send", post(send))
            .route("/duplicate", post(duplicate))
            .route("/redrive", post(redrive))
            .layer(middleware::from_fn_with_state(Arc::clone(&shared), may_act))
            .with_state(shared);
        let server = taken.serve(routes, LARGEST_REQUEST);
        Ok(Self { server })
    }

    /// The address on which it listens.
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// The URL to open in a browser, such as `http://127.0.0.1:40001/`.
    pub fn url(&self) -> String {
        format!("http://{}/", self.address())
    }
}

/// Checks that a request that changes anything comes from a page of this server.
async fn may_act(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    let acts = request.method() == axum::http::Method::POST;
    if acts && !shared.token.is_in(request.headers()) {
        let said = "the token is not this page's: load the page anew";
        return Refused(StatusCode::FORBIDDEN, said).into_response();
    }
    next.run(request).await
}

/// The reason for refusing a request.
struct Refused(StatusCode, &'static str);

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let Self(status, why) = self;
        (status, Json(json!({"error": why}))).into_response()
    }
}

async fn page(State(shared): State<Arc<Shared>>) -> Response {
    let page = html::live(shared.token.as_str(), shared.sqs.is_some());
    let policy = format!("{}; frame-ancestors 'none'", page.policy);
    let headers = [(header::CONTENT_SECURITY_POLICY, policy)];
    (headers, Html(page.text)).into_response()
}

#[derive(Deserialize)]
struct Since {
    #[serde(default)]
    since: u64,
    /// The story that `since` belongs to.
    #[serde(default)]
    run: String,
}

/// Waits for a change and returns it.
async fn story_since(
    State(shared): State<Arc<Shared>>,
    Query(Since { since, run }): Query<Since>,
) -> Response {
    let since = if run == *shared.story.run() { since } else { 0 };
    // A page without data gets an answer at once, even an empty one.
    if since > 0 {
        let _ = tokio::time::timeout(WAIT, shared.story.changed(since)).await;
    }
    Json(shared.story.overview(since, SystemTime::now())).into_response()
}

async fn message(State(shared): State<Arc<Shared>>, Path(number): Path<u64>) -> Response {
    match shared.story.detail(number) {
        Some(detail) => Json(detail).into_response(),
        None => Refused(StatusCode::NOT_FOUND, "that message was forgotten").into_response(),
    }
}

async fn report(State(shared): State<Arc<Shared>>) -> Response {
    let headers = [(
        header::CONTENT_DISPOSITION,
        "attachment; filename=\"run.html\"",
    )];
    (headers, Html(shared.story.report())).into_response()
}

async fn send(
    State(shared): State<Arc<Shared>>,
    body: Result<Json<act::Send>, JsonRejection>,
) -> Response {
    acted(&shared, body, |sqs, request| {
        act::send(&shared.story, sqs, request)
    })
}

async fn duplicate(
    State(shared): State<Arc<Shared>>,
    body: Result<Json<act::Duplicate>, JsonRejection>,
) -> Response {
    acted(&shared, body, |sqs, request| {
        act::duplicate(&shared.story, sqs, &request)
    })
}

async fn redrive(State(shared): State<Arc<Shared>>) -> Response {
    acted(&shared, Ok(Json(())), |sqs, ()| {
        act::redrive(&shared.story, sqs)
    })
}

/// Performs a button's action and returns its result.
fn acted<T>(
    shared: &Shared,
    request: Result<Json<T>, JsonRejection>,
    act: impl FnOnce(&LocalSqs, T) -> Result<Done, ActError>,
) -> Response {
    let Some(sqs) = &shared.sqs else {
        return Refused(StatusCode::NOT_FOUND, "this page only shows").into_response();
    };
    let request = match request {
        Ok(Json(request)) => request,
        Err(rejection) => return rejection.into_response(),
    };
    match act(sqs, request) {
        Ok(done) => Json(done).into_response(),
        Err(error) => {
            let error = json!({"error": error.to_string()});
            (StatusCode::CONFLICT, Json(error)).into_response()
        }
    }
}
