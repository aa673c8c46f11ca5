//! The page's server on loopback.

use super::controls::{self, PageControls, Refused, Shared};
use super::html;
use super::samples::{self, Sample};
use super::story::Story;
use super::view::{Detail, Overview};
use crate::dev::{FaultControls, Faults};
use crate::guard::{Port, Server};
use crate::millis;
use axum::extract::{Path, Query, Request, State};
use axum::http::{Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use uuid::Uuid;

/// The header for the token. A page of another site can't send it without permission.
const TOKEN: &str = "x-sqs-once-token";

/// How long a request waits for the next event.
const WAIT: Duration = Duration::from_secs(20);

/// A message is 1 MiB at most, and JSON may encode each of its bytes as six.
const LARGEST_REQUEST: usize = 8 * 1024 * 1024;

/// Serves a [`Story`] as a web page on 127.0.0.1 and updates it live.
///
/// With the [`PageControls`], the user can also change what runs.
///
/// The page is for browsers on this machine. It refuses requests for another host name than `localhost` or a loopback
/// address, and requests from other sites. A request that changes anything must contain the token from the page. The
/// server stops when it is dropped.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use sqs_once_local::{Limits, LocalSqs, Page, PageControls, QueueSettings, Queues, Story};
/// use std::sync::Arc;
///
/// let story = Story::new("orders", None, Limits::default());
/// let mut queues = Queues::default();
/// queues.observe(story.observer());
/// queues.create("orders", QueueSettings::default())?;
/// let sqs = Arc::new(LocalSqs::start(queues).await?);
///
/// let controls = PageControls { sqs: Some(Arc::clone(&sqs)), ..PageControls::default() };
/// let page = Page::start(story, controls, 0).await?;
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

impl Page {
    /// Serves a story on a port. 0 means any free port.
    ///
    /// # Errors
    /// [`PageError::Listen`] if the port is not available.
    pub async fn start(story: Story, controls: PageControls, port: u16) -> Result<Self, PageError> {
        let taken = Port::take(port).await;
        let taken = taken.map_err(|source| PageError::Listen { port, source })?;
        let token = Uuid::new_v4().simple().to_string();
        let shared = Arc::new(Shared {
            story,
            controls,
            token,
        });
        let routes = Router::new()
            .route("/", get(page))
            .route("/story", get(story_since))
            .route("/message/{number}", get(message))
            .route("/report", get(report))
            .route("/samples", get(samples))
            .merge(controls::routes())
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
    let acts = request.method() == Method::POST;
    let token = request.headers().get(TOKEN).map(|token| token.as_bytes());
    if acts && token != Some(shared.token.as_bytes()) {
        let text = "the page is from an earlier run: reload it";
        return Refused::new(StatusCode::FORBIDDEN, text).into_response();
    }
    next.run(request).await
}

async fn page(State(shared): State<Arc<Shared>>) -> Response {
    let (text, policy) = html::live(&shared.token, shared.controls.sqs.is_some());
    let policy = format!("{policy}; frame-ancestors 'none'");
    let headers = [(header::CONTENT_SECURITY_POLICY, policy)];
    (headers, Html(text)).into_response()
}

#[derive(Deserialize)]
struct Since {
    #[serde(default)]
    since: u64,
    /// The story that `since` belongs to.
    #[serde(default)]
    run: String,
}

#[derive(Serialize)]
struct Live {
    #[serde(flatten)]
    overview: Overview,
    faults: Option<Faults>,
}

/// Waits for a change and returns it.
async fn story_since(
    State(shared): State<Arc<Shared>>,
    Query(Since { since, run }): Query<Since>,
) -> Json<Live> {
    let is_same_run = run == *shared.story.state().run;
    let since = if is_same_run { since } else { 0 };
    // A page without data gets an answer at once, even an empty one.
    if since > 0 {
        let _ = tokio::time::timeout(WAIT, shared.story.changed(since)).await;
    }
    let now = millis(SystemTime::now());
    Json(Live {
        overview: shared.story.state().overview(since, now),
        faults: shared.controls.faults.as_ref().map(FaultControls::get),
    })
}

/// Reads the files again for each request, so that an edit needs no restart.
async fn samples(State(shared): State<Arc<Shared>>) -> Json<Vec<Sample>> {
    let Some(folder) = shared.controls.samples.clone() else {
        return Json(Vec::new());
    };
    let read = tokio::task::spawn_blocking(move || samples::read(&folder));
    Json(read.await.unwrap_or_default())
}

async fn message(
    State(shared): State<Arc<Shared>>,
    Path(number): Path<u64>,
) -> Result<Json<Detail>, Refused> {
    let forgotten = || Refused::new(StatusCode::NOT_FOUND, "that message was forgotten");
    let detail = shared.story.state().detail(number);
    detail.map(Json).ok_or_else(forgotten)
}

async fn report(State(shared): State<Arc<Shared>>) -> Response {
    let disposition = "attachment; filename=\"run.html\"";
    let headers = [(header::CONTENT_DISPOSITION, disposition)];
    (headers, Html(shared.story.report())).into_response()
}
