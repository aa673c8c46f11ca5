//! Forwards requests to the embedded engine, whose own HTTP server accepts requests from any web page.
//!
//! That server accepts connections only from a listener of its own, so the guard can't wrap it. It gets a listener for
//! a single connection: this process connects, checks that the server accepted it, and closes the listener. The
//! connection stays open and carries the requests that the guard admitted.

use crate::lock;
use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::State;
use axum::http::request::Parts;
use axum::http::{Request, StatusCode, Uri, Version, header};
use axum::response::{IntoResponse, Response};
use dynoxide::Database;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use std::error::Error;
use std::io;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// DynamoDB accepts bodies up to 16 MB.
pub(super) const LARGEST_REQUEST: usize = 16 * 1024 * 1024;

/// Hop-by-hop headers, which a proxy must not forward.
const OF_ONE_CONNECTION: [header::HeaderName; 5] = [
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::EXPECT,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

pub(super) struct Engine {
    database: Database,
    idle: Mutex<Vec<Connection>>,
}

struct Connection {
    sender: SendRequest<Body>,
    task: JoinHandle<()>,
    /// Dropping it shuts down the server's side of the connection.
    _end: oneshot::Sender<()>,
}

pub(super) fn routes(engine: &Arc<Engine>) -> Router {
    Router::new()
        .fallback(respond)
        .with_state(Arc::clone(engine))
}

async fn respond(State(engine): State<Arc<Engine>>, mut parts: Parts, body: Bytes) -> Response {
    for name in OF_ONE_CONNECTION {
        parts.headers.remove(name);
    }
    let path = parts.uri.path_and_query().cloned();
    parts.uri = path.map_or_else(Uri::default, Uri::from);
    // After a request of HTTP/1.0, the engine would close its connection.
    parts.version = Version::HTTP_11;
    let request = Request::from_parts(parts, Body::from(body));
    match engine.ask(request).await {
        Ok(answer) => answer,
        Err(error) => {
            let text = format!("the embedded DynamoDB did not answer: {error}");
            (StatusCode::INTERNAL_SERVER_ERROR, text).into_response()
        }
    }
}

impl Engine {
    pub(super) fn new(database: Database) -> Arc<Self> {
        Arc::new(Self {
            database,
            idle: Mutex::default(),
        })
    }

    async fn ask(&self, request: Request<Body>) -> Result<Response, Box<dyn Error + Send + Sync>> {
        let idle = lock(&self.idle).pop();
        let mut connection = match idle {
            Some(connection) => connection,
            None => Connection::open(self.database.clone()).await?,
        };
        let answer = connection.send(request).await?;
        lock(&self.idle).push(connection);
        Ok(answer)
    }

    /// Closes the connections, each of which keeps the database open.
    pub(super) async fn stop(&self) {
        let connections = std::mem::take(&mut *lock(&self.idle));
        for Connection { sender, task, _end } in connections {
            drop((sender, _end));
            // A panic of the task does not matter here.
            let _ = task.await;
        }
    }
}

impl Connection {
    async fn open(database: Database) -> Result<Self, Box<dyn Error + Send + Sync>> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let stream = TcpStream::connect(listener.local_addr()?).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        let task = tokio::spawn(async move {
            // The sender of a request gets the error.
            let _ = connection.await;
        });
        let (end, ended) = oneshot::channel();
        let mut connection = Self {
            sender,
            task,
            _end: end,
        };
        // The engine's connections live until this future ends, even after its accept loop is gone.
        let ended = async move {
            let _ = ended.await;
        };
        let health = Request::get("/").header(header::HOST, "localhost");
        tokio::select! {
            healthy = connection.send(health.body(Body::empty())?) => healthy?,
            _ = dynoxide::server::serve_with_shutdown(listener, database, ended) => {
                return Err(io::Error::other("its server has ended").into());
            }
        };
        Ok(connection)
    }

    /// Sends a request and reads the whole answer.
    async fn send(
        &mut self,
        request: Request<Body>,
    ) -> Result<Response, Box<dyn Error + Send + Sync>> {
        self.sender.ready().await?;
        let answer = self.sender.send_request(request).await?;
        let (mut parts, body) = answer.into_parts();
        let body = to_bytes(Body::new(body), usize::MAX).await?;
        for name in OF_ONE_CONNECTION {
            parts.headers.remove(name);
        }
        Ok(Response::from_parts(parts, Body::from(body)))
    }
}
