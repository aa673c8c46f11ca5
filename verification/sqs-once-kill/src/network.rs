//! The network between the function and AWS, which loses and delays requests and answers.

use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::ValueEnum;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioIo};
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::chance::Chance;
use crate::history::History;
use crate::killer::Killer;
use crate::worker::{KEY, ROUTES};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ValueEnum)]
pub(crate) enum TrafficFault {
    /// The connection breaks before the request arrives.
    #[value(name = "request lost")]
    RequestLost,
    /// The request is carried out, and the connection breaks before the answer.
    #[value(name = "carried out, answer lost")]
    AnswerLost,
    /// The request is carried out, but the answer is an internal error.
    #[value(name = "carried out, answered as an internal error")]
    AnswerSpoilt,
    /// The request is carried out after the client has stopped waiting.
    #[value(name = "carried out after the client gave up")]
    RequestLate,
    /// The request is carried out immediately, but its answer comes after the client has stopped waiting.
    #[value(name = "answered after the client gave up")]
    AnswerLate,
    /// The request is slow but succeeds.
    #[value(name = "slow")]
    Slow,
    /// The request is lost, and for a while so are the next ones, or their answers.
    #[value(name = "lost at the start of an outage")]
    Outage,
}

impl TrafficFault {
    const OUTAGE: [Self; 2] = [Self::RequestLost, Self::AnswerLost];
}

/// From longer than the client waits for an attempt (2 s) to longer than a lease.
const LATE_MS: std::ops::Range<u64> = 2_200..7_000;
const SLOW_MS: std::ops::Range<u64> = 10..300;
/// Some outages are shorter than all of the client's attempts together, others longer than the function's timeout.
const OUTAGE_MS: std::ops::Range<u64> = 100..5_000;

const BROKEN: &str = "the connection breaks";

pub(crate) struct Traffic {
    client: Client<HttpConnector, Full<Bytes>>,
    faults_in_thousand: usize,
    history: Arc<History>,
    killer: Arc<Killer>,
    /// The number of requests that still have to be carried out.
    in_flight: watch::Sender<usize>,
}

/// The connection from one environment to one service.
struct Way {
    environment: usize,
    to: String,
    chance: Chance,
    outage: Mutex<Instant>,
    traffic: Arc<Traffic>,
}

/// The answer to a request. An error breaks the connection.
type Answer = Result<Response<Full<Bytes>>>;

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
            in_flight: watch::Sender::new(0),
        })
    }

    /// Waits until the last request is carried out.
    pub(crate) async fn ended(&self) {
        let mut in_flight = self.in_flight.subscribe();
        // This fails only without a sender, and `self` has one.
        let _ = in_flight.wait_for(|count| *count == 0).await;
    }

    /// Connects an environment to the service at `to`, and returns the URL of the connection.
    pub(crate) async fn way(
        self: &Arc<Self>,
        environment: usize,
        to: String,
        chance: Chance,
        servers: &mut JoinSet<()>,
    ) -> io::Result<String> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let url = format!("http://{}", listener.local_addr()?);
        let way = Arc::new(Way {
            environment,
            to,
            chance,
            outage: Mutex::new(Instant::now()),
            traffic: Arc::clone(self),
        });
        servers.spawn(async move {
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
        Ok(url)
    }
}

impl Way {
    fn fault(&self) -> Option<TrafficFault> {
        let mut outage = self.outage.lock();
        let faults = match Instant::now() < *outage {
            true => &TrafficFault::OUTAGE[..],
            false if self.chance.in_thousand(self.traffic.faults_in_thousand) => {
                TrafficFault::value_variants()
            }
            false => return None,
        };
        let fault = faults[self.chance.below(faults.len())];
        if fault == TrafficFault::Outage {
            *outage = Instant::now() + self.chance.millis(OUTAGE_MS);
        }
        Some(fault)
    }

    async fn pass(self: Arc<Self>, request: Request<Incoming>) -> Answer {
        let (head, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
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
        let after = match fault {
            Some(TrafficFault::RequestLost | TrafficFault::Outage) => bail!(BROKEN),
            Some(TrafficFault::RequestLate) => late,
            Some(TrafficFault::Slow) => slow,
            _ => Duration::ZERO,
        };
        // A request that was sent is carried out even if its client dies.
        let way = Arc::clone(&self);
        let request = Request::from_parts(head, Full::new(body));
        way.traffic.in_flight.send_modify(|count| *count += 1);
        let carried_out = tokio::spawn(async move {
            sleep(after).await;
            let answer = way.carry_out(request).await;
            way.traffic.in_flight.send_modify(|count| *count -= 1);
            answer
        });
        if fault == Some(TrafficFault::AnswerLate) {
            sleep(late).await;
        }
        let answer = carried_out.await?;
        match fault {
            None if self.traffic.killer.on_request(self.environment) => {
                // The killed process can no longer receive the answer.
                std::future::pending().await
            }
            Some(TrafficFault::AnswerLost) => bail!(BROKEN),
            Some(TrafficFault::AnswerSpoilt) => {
                let mut spoilt = Response::new(Full::default());
                *spoilt.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
                Ok(spoilt)
            }
            _ => answer,
        }
    }

    async fn carry_out(&self, mut request: Request<Full<Bytes>>) -> Answer {
        let path = request.uri().path_and_query();
        let path = path.map_or("/", |path| path.as_str());
        *request.uri_mut() = format!("{}{path}", self.to).parse()?;
        let answer = self.traffic.client.request(request).await?;
        let (head, body) = answer.into_parts();
        let body = body.collect().await?.to_bytes();
        Ok(Response::from_parts(head, Full::new(body)))
    }
}

/// The orders that a request names: by themselves in messages, and by their keys in items.
fn orders_in(body: &[u8]) -> Vec<usize> {
    let text = String::from_utf8_lossy(body);
    let mut orders = numbers_behind("order-", &text);
    for (nth, route) in ROUTES.iter().enumerate() {
        let keys = numbers_behind(&format!("{route}#s:{KEY}"), &text);
        orders.extend(keys.into_iter().map(|key| key * ROUTES.len() + nth));
    }
    orders.sort_unstable();
    orders.dedup();
    orders
}

fn numbers_behind(prefix: &str, text: &str) -> Vec<usize> {
    let rests = text.split(prefix).skip(1);
    let numbers = rests.filter_map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_digit());
        rest[..end.unwrap_or(rest.len())].parse().ok()
    });
    numbers.collect()
}
