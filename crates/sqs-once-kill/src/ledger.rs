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
use crate::killer::Killer;
use crate::worker::Entry;

pub(crate) struct Ledger {
    pub(crate) url: String,
    server: JoinHandle<()>,
}

impl Ledger {
    pub(crate) async fn open(history: Arc<History>, killer: Arc<Killer>) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let url = format!("http://{}", listener.local_addr()?);
        let service = Router::new()
            .route("/begun", post(begun))
            .route("/effect", post(effect))
            .with_state((history, killer));
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

type Shared = State<(Arc<History>, Arc<Killer>)>;

async fn begun(State((history, _)): Shared, Json(entry): Json<Entry>) {
    history.begun(entry);
}

async fn effect(State((history, killer)): Shared, Json(entry): Json<Entry>) {
    let environment = history.environment(entry.process);
    history.effect(entry);
    if environment.is_some_and(|environment| killer.on_effect(environment)) {
        // Nobody is there any more who would hear of it.
        std::future::pending().await
    }
}
