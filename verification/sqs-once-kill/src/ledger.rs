//! The ledger: another service, which receives the effects that do not commit with their record, and notes all of them.

use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Json, State};
use axum::http::StatusCode;
use axum::routing::post;
use tokio::net::TcpListener;

use crate::chance::Chance;
use crate::history::History;
use crate::killer::Killer;
use crate::worker::Entry;

/// Opens the ledger, and returns its URL.
pub(crate) async fn open(desk: Desk) -> io::Result<String> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let url = format!("http://{}", listener.local_addr()?);
    let service = Router::new()
        .route("/begun", post(begun))
        .route("/effect", post(effect))
        .with_state(Arc::new(desk));
    // It ends with the runtime.
    tokio::spawn(async { axum::serve(listener, service).await });
    Ok(url)
}

/// Of 1,000 handlers, how many the ledger tells to retry later.
const BUSY_IN_THOUSAND: usize = 20;

pub(crate) struct Desk {
    pub(crate) history: Arc<History>,
    pub(crate) killer: Arc<Killer>,
    pub(crate) chance: Chance,
}

async fn begun(State(desk): State<Arc<Desk>>, Json(entry): Json<Entry>) -> StatusCode {
    if desk.chance.in_thousand(BUSY_IN_THOUSAND) {
        // The handler fails, and any worker may take the order.
        return StatusCode::SERVICE_UNAVAILABLE;
    }
    desk.history.begun(&entry);
    StatusCode::OK
}

async fn effect(State(desk): State<Arc<Desk>>, Json(entry): Json<Entry>) {
    let environment = desk.history.environment(entry.process);
    desk.history.effect(&entry);
    if environment.is_some_and(|environment| desk.killer.on_effect(environment)) {
        // The killed process can no longer receive the answer.
        std::future::pending().await
    }
}
