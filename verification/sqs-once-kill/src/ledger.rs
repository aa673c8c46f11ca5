//! Where effects go that are apart from their record: somebody else's system, which notes whatever it is told.

use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Json, State};
use axum::http::StatusCode;
use axum::routing::post;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::chance::Chance;
use crate::history::History;
use crate::killer::Killer;
use crate::worker::Entry;

pub(crate) struct Ledger {
    pub(crate) url: String,
    server: JoinHandle<()>,
}

impl Ledger {
    pub(crate) async fn open(
        history: Arc<History>,
        killer: Arc<Killer>,
        chance: Chance,
    ) -> io::Result<Self> {
        let desk = Arc::new(Desk {
            history,
            killer,
            chance,
        });
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let url = format!("http://{}", listener.local_addr()?);
        let service = Router::new()
            .route("/begun", post(begun))
            .route("/effect", post(effect))
            .with_state(desk);
        let server = tokio::spawn(async move {
            // It never returns: it tries failed accepts again.
            let _ = axum::serve(listener, service).await;
        });
        Ok(Self { url, server })
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// How many of a thousand handlers are told to come back later.
const BUSY_IN_THOUSAND: usize = 20;

struct Desk {
    history: Arc<History>,
    killer: Arc<Killer>,
    chance: Chance,
}

async fn begun(State(desk): State<Arc<Desk>>, Json(entry): Json<Entry>) -> StatusCode {
    if desk.chance.in_thousand(BUSY_IN_THOUSAND) {
        // The handler ends there, and its order is anybody's.
        return StatusCode::SERVICE_UNAVAILABLE;
    }
    desk.history.begun(entry);
    StatusCode::OK
}

async fn effect(State(desk): State<Arc<Desk>>, Json(entry): Json<Entry>) {
    let Desk {
        history, killer, ..
    } = &*desk;
    let environment = history.environment(entry.process);
    history.effect(entry);
    if environment.is_some_and(|environment| killer.on_effect(environment)) {
        // Nobody is there any more who would hear of it.
        std::future::pending().await
    }
}
