//! The only way to listen in this crate: on loopback, with a guard against web pages.
//!
//! A browser lets every web page send requests to this machine. Three headers distinguish such a request from a
//! program's, and a page can set none of them. `Host` is the host name that the browser used, and `Origin` is the page's
//! origin. `Sec-Fetch-Site` is the relation between the page and the server.

use axum::Router;
use axum::body::Body;
use axum::extract::DefaultBodyLimit;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Request, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::json;
use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tower_service::Service;

/// The most concurrent connections. Further ones wait until one of these ends.
const CONNECTIONS: usize = 256;

/// How long a connection may take to send the head of its first request. Later requests have no such limit: a function
/// keeps its connection while a handler works.
const HEAD_TIME: Duration = Duration::from_secs(10);

/// How long to wait after `accept` fails, for example because too many files are open.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A port of 127.0.0.1 that is bound but not served yet.
pub(crate) struct Port {
    listener: TcpListener,
    address: SocketAddr,
}

impl Port {
    /// Binds a port. 0 means any free port. An error names the port.
    pub(crate) async fn take(port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await;
        let named =
            |error: io::Error| io::Error::new(error.kind(), format!("port {port}: {error}"));
        let listener = listener.map_err(named)?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves these routes to the requests that the guard admits. Extractors accept bodies of up to `largest_body`
    /// bytes.
    pub(crate) fn serve(self, routes: Router, largest_body: usize) -> Server {
        let routes = routes.layer(DefaultBodyLimit::max(largest_body));
        let (stop, stopped) = watch::channel(());
        Server {
            address: self.address,
            stop,
            task: tokio::spawn(accept(self.listener, routes, stopped)),
        }
    }
}

/// A server on a port. Dropping it ends the server and all its connections.
pub(crate) struct Server {
    address: SocketAddr,
    stop: watch::Sender<()>,
    task: JoinHandle<()>,
}

impl Server {
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops accepting connections and waits for in-flight requests.
    pub(crate) async fn stop(mut self) {
        self.stop.send_replace(());
        // A panic of the task does not matter here.
        let _ = (&mut self.task).await;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, routes: Router, mut stopped: watch::Receiver<()>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept(), if connections.len() < CONNECTIONS => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(connection(stream, routes.clone(), stopped.clone()));
                }
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            },
            Some(_) = connections.join_next() => {}
            _ = stopped.changed() => break,
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

async fn connection(stream: TcpStream, routes: Router, mut stopped: watch::Receiver<()>) {
    // Answers are written whole, so Nagle's algorithm would only delay them.
    let _ = stream.set_nodelay(true);
    let has_request = Arc::new(AtomicBool::new(false));
    let has_first_request = Arc::clone(&has_request);
    let service = service_fn(move |request| {
        has_first_request.store(true, Ordering::Relaxed);
        answer(routes.clone(), request)
    });
    let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    let mut head_time = pin!(tokio::time::sleep(HEAD_TIME));
    let (mut is_timed, mut is_stopped) = (true, false);
    loop {
        tokio::select! {
            // The client closed the connection and needs no report.
            _ = &mut connection => return,
            () = &mut head_time, if is_timed => {
                if !has_request.load(Ordering::Relaxed) {
                    return;
                }
                is_timed = false;
            }
            _ = stopped.changed(), if !is_stopped => {
                connection.as_mut().graceful_shutdown();
                is_stopped = true;
            }
        }
    }
}

async fn answer(mut routes: Router, request: Request<Incoming>) -> Result<Response, Infallible> {
    let mut response = match admit(request.uri(), request.headers()) {
        Ok(()) => routes.call(request.map(Body::new)).await?,
        Err(reason) => refused(reason),
    };
    harden(response.headers_mut());
    Ok(response)
}

fn refused(reason: &str) -> Response {
    // AWS uses these two fields, and the SDKs show both.
    let body = json!({"__type": "AccessDeniedException", "message": reason}).to_string();
    let headers = [
        (header::CONTENT_TYPE, "application/json"),
        // Closing frees the slot for a client that the guard admits.
        (header::CONNECTION, "close"),
    ];
    (StatusCode::FORBIDDEN, headers, body).into_response()
}

/// Checks that a request is meant for this machine and does not come from another site's page.
fn admit(uri: &Uri, headers: &HeaderMap) -> Result<(), &'static str> {
    let text = |value: &HeaderValue| value.to_str().unwrap_or("?").to_owned();
    let all = |name: HeaderName| headers.get_all(name).iter().map(text).collect::<Vec<_>>();
    let hosts = all(header::HOST);
    let [host] = hosts.as_slice() else {
        return Err("a request must have one Host header");
    };
    // An absolute target such as `http://name/path` names the host as well.
    let is_target_ours = uri
        .authority()
        .is_none_or(|name| is_loopback(name.as_str()));
    if !is_loopback(host) || !is_target_ours {
        return Err(
            "the Host must be localhost or a loopback address: a name that leads here may be a web page's",
        );
    }
    let own = format!("http://{host}");
    if all(header::ORIGIN).iter().any(|origin| *origin != own) {
        return Err("pages of other origins can't use this server");
    }
    let sites = all(HeaderName::from_static("sec-fetch-site"));
    if !sites
        .iter()
        .all(|site| matches!(&**site, "same-origin" | "none"))
    {
        return Err("pages of other sites can't use this server");
    }
    Ok(())
}

/// Whether a `Host` header names this machine, with or without a port.
fn is_loopback(host: &str) -> bool {
    if let Ok(address) = host.parse::<SocketAddr>() {
        return address.ip().is_loopback();
    }
    let bare = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    if let Ok(address) = bare.unwrap_or(host).parse::<IpAddr>() {
        return address.is_loopback();
    }
    let (name, port) = host.split_once(':').unwrap_or((host, "0"));
    name.eq_ignore_ascii_case("localhost") && port.parse::<u16>().is_ok()
}

/// Adds headers to every answer, from any route, so that pages of other sites can't read, embed or cache it.
fn harden(headers: &mut HeaderMap) {
    let allowing: Vec<_> = headers
        .keys()
        .filter(|name| {
            name.as_str().starts_with("access-control-") || *name == "timing-allow-origin"
        })
        .cloned()
        .collect();
    for name in allowing {
        headers.remove(name);
    }
    for (name, value) in [
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
}
