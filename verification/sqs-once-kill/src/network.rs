//! The network between the function and AWS, which loses and delays requests and answers.

use std::io;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::chance::Chance;
use crate::history::History;
use crate::killer::Killer;

/// A fault that a request meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Fault {
    /// The connection breaks before the request arrives.
    RequestLost,
    /// The request is carried out, and the connection breaks before the answer.
    AnswerLost,
    /// The request is carried out, but the answer is an internal error.
    AnswerSpoilt,
    /// The request is carried out after the client has stopped waiting.
    RequestLate,
    /// The request is carried out immediately, but its answer comes after the client has stopped waiting.
    AnswerLate,
    /// The request is slow but succeeds.
    Slow,
    /// The request is lost, and for a while so are the next ones, or their answers.
    Outage,
}

impl Fault {
    const OUTAGE: [Self; 2] = [Self::RequestLost, Self::AnswerLost];

    const ALL: [Self; 7] = [
        Self::RequestLost,
        Self::AnswerLost,
        Self::AnswerSpoilt,
        Self::RequestLate,
        Self::AnswerLate,
        Self::Slow,
        Self::Outage,
    ];

    pub(crate) fn in_words(self) -> &'static str {
        match self {
            Self::RequestLost => "request lost",
            Self::AnswerLost => "carried out, answer lost",
            Self::AnswerSpoilt => "carried out, answered as an internal error",
            Self::RequestLate => "carried out after the client gave up",
            Self::AnswerLate => "answered after the client gave up",
            Self::Slow => "slow",
            Self::Outage => "lost at the start of an outage",
        }
    }
}

/// From longer than the client waits for an attempt (2 s) to longer than a lease.
const LATE_MS: std::ops::Range<u64> = 2_200..7_000;
const SLOW_MS: std::ops::Range<u64> = 10..300;
/// Some outages are shorter than all of the client's attempts together, others longer than the function's timeout.
const OUTAGE_MS: std::ops::Range<u64> = 100..5_000;

/// The requests of a run.
pub(crate) struct Traffic {
    client: Client<HttpConnector, Full<Bytes>>,
    faults_in_thousand: usize,
    history: Arc<History>,
    killer: Arc<Killer>,
    /// The number of requests that still have to be carried out.
    under_way: watch::Sender<usize>,
}

/// The connection from one environment to one service.
pub(crate) struct Network {
    pub(crate) url: String,
    server: JoinHandle<()>,
}

struct Way {
    environment: usize,
    to: String,
    chance: Chance,
    /// The end of the current outage.
    outage: Mutex<Instant>,
    traffic: Arc<Traffic>,
}

/// Makes the connection break.
#[derive(Debug, thiserror::Error)]
#[error("the connection breaks")]
struct Broken;

impl Traffic {
    pub(crate) fn new(
        faults_in_thousand: usize,
        history: Arc<History>,
        killer: Arc<Killer>,
    ) -> Arc<Self> {
        Arc::new(Self {
            client: Client::builder(TokioExecutor::new()).build_http(),
            faults_in_thousand,
            history,
            killer,
            under_way: watch::Sender::new(0),
        })
    }

    /// Waits until the last request is carried out.
    pub(crate) async fn ended(&self) {
        let mut under_way = self.under_way.subscribe();
        // This fails only without a sender, and `self` has one.
        let _ = under_way.wait_for(|count| *count == 0).await;
    }

    /// Connects an environment to the service at `to`.
    pub(crate) async fn way(
        self: &Arc<Self>,
        environment: usize,
        to: String,
        chance: Chance,
    ) -> io::Result<Network> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let url = format!("http://{}", listener.local_addr()?);
        let way = Arc::new(Way {
            environment,
            to,
            chance,
            outage: Mutex::new(Instant::now()),
            traffic: Arc::clone(self),
        });
        let server = tokio::spawn(async move {
            loop {
                // A failed accept loses only one connection.
                let Ok((stream, _)) = listener.accept().await else {
                    continue;
                };
                let way = Arc::clone(&way);
                tokio::spawn(async move {
                    let pass = service_fn(|request| Arc::clone(&way).pass(request));
                    // An error means that the connection broke, as intended.
                    let _ = http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), pass)
                        .await;
                });
            }
        });
        Ok(Network { url, server })
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Way {
    /// Chooses the fault of the next request.
    fn fault(&self) -> Option<Fault> {
        let mut outage = self.outage.lock().unwrap_or_else(PoisonError::into_inner);
        let faults = match Instant::now() < *outage {
            true => &Fault::OUTAGE[..],
            false if self.chance.in_thousand(self.traffic.faults_in_thousand) => &Fault::ALL[..],
            false => return None,
        };
        let fault = faults[self.chance.below(faults.len())];
        if fault == Fault::Outage {
            *outage = Instant::now() + self.chance.millis(OUTAGE_MS);
        }
        Some(fault)
    }

    async fn pass(
        self: Arc<Self>,
        request: Request<Incoming>,
    ) -> Result<Response<Full<Bytes>>, Broken> {
        let (head, body) = request.into_parts();
        let body = body.collect().await.map_err(|_| Broken)?.to_bytes();
        let fault = self.fault();
        self.traffic.history.requested();
        if let Some(fault) = fault {
            let target = head.headers.get("x-amz-target");
            let target = target.and_then(|target| target.to_str().ok());
            let operation = target.and_then(|target| target.rsplit('.').next());
            let orders = orders_in(&body);
            self.traffic
                .history
                .fault(fault, operation.unwrap_or_default(), &orders);
        }
        let late = self.chance.millis(LATE_MS);
        let slow = self.chance.millis(SLOW_MS);
        // A request that was sent is carried out even if its client dies.
        let carry_out = |after: Duration| {
            let way = Arc::clone(&self);
            let request = Request::from_parts(head, Full::new(body));
            way.traffic.under_way.send_modify(|count| *count += 1);
            tokio::spawn(async move {
                sleep(after).await;
                let answer = way.carry_out(request).await;
                way.traffic.under_way.send_modify(|count| *count -= 1);
                answer
            })
        };
        let answer = |carried_out: Result<_, _>| carried_out.map_err(|_| Broken)?;
        match fault {
            None => {
                let carried_out = carry_out(Duration::ZERO).await;
                if self.traffic.killer.on_request(self.environment) {
                    // The killed process can no longer receive the answer.
                    std::future::pending().await
                }
                answer(carried_out)
            }
            Some(Fault::Slow) => answer(carry_out(slow).await),
            Some(Fault::RequestLost | Fault::Outage) => Err(Broken),
            Some(Fault::AnswerLost) => {
                // The client never gets this answer.
                let _ = carry_out(Duration::ZERO).await;
                Err(Broken)
            }
            Some(Fault::AnswerSpoilt) => {
                let _ = carry_out(Duration::ZERO).await;
                let mut spoilt = Response::new(Full::default());
                *spoilt.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
                Ok(spoilt)
            }
            Some(Fault::RequestLate) => answer(carry_out(late).await),
            Some(Fault::AnswerLate) => {
                let carried_out = carry_out(Duration::ZERO);
                sleep(late).await;
                answer(carried_out.await)
            }
        }
    }

    async fn carry_out(
        &self,
        mut request: Request<Full<Bytes>>,
    ) -> Result<Response<Full<Bytes>>, Broken> {
        let path = request
            .uri()
            .path_and_query()
            .map_or("/", |path| path.as_str());
        let uri = format!("{}{path}", self.to).parse();
        *request.uri_mut() = uri.map_err(|_| Broken)?;
        let answer = self
            .traffic
            .client
            .request(request)
            .await
            .map_err(|_| Broken)?;
        let (head, body) = answer.into_parts();
        let body = body.collect().await.map_err(|_| Broken)?.to_bytes();
        Ok(Response::from_parts(head, Full::new(body)))
    }
}

/// The orders in a request's body.
fn orders_in(body: &[u8]) -> Vec<usize> {
    let text = String::from_utf8_lossy(body);
    let mut orders: Vec<usize> = text
        .split("order-")
        .skip(1)
        .filter_map(|rest| {
            let end = rest.find(|c: char| !c.is_ascii_digit());
            rest[..end.unwrap_or(rest.len())].parse().ok()
        })
        .collect();
    orders.sort_unstable();
    orders.dedup();
    orders
}
