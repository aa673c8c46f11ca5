//! Where effects go that are apart from their record: somebody else's system, which notes whatever it is told.

use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Json, State};
use axum::routing::post;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::history::History;
use crate::worker::Entry;

pub(crate) struct Ledger {
    pub(crate) url: String,
    server: JoinHandle<()>,
}

impl Ledger {
    pub(crate) async fn open(history: Arc<History>) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let url = format!("http://{}", listener.local_addr()?);
        let service = Router::new()
            .route("/begun", post(begun))
            .route("/effect", post(effect))
            .with_state(history);
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

async fn begun(State(history): State<Arc<History>>, Json(entry): Json<Entry>) {
    history.begun(entry);
}

async fn effect(State(history): State<Arc<History>>, Json(entry): Json<Entry>) {
    history.effect(entry);
}
