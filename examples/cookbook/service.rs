//! A service on loopback that a recipe calls.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use serde_json::Value;

/// Answers each request with the next status, and keeps the requests.
#[derive(Clone)]
pub(crate) struct Service {
    url: String,
    state: Arc<Mutex<Inner>>,
}

struct Inner {
    answers: Vec<u16>,
    requests: Vec<Request>,
}

#[derive(Clone)]
pub(crate) struct Request {
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

impl Service {
    /// Starts a service that gives these answers, one after the other.
    pub(crate) async fn answering<const N: usize>(answers: [u16; N]) -> Self {
        // The recipes' own `main` does this.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (answers, requests) = (answers.into(), Vec::new());
        let state = Arc::new(Mutex::new(Inner { answers, requests }));
        let service = Self { url, state };
        let router = Router::new().fallback(answer).with_state(service.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        service
    }

    pub(crate) fn url(&self) -> String {
        self.url.clone()
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.state.lock().unwrap().requests.clone()
    }
}

async fn answer(State(service): State<Service>, headers: HeaderMap, body: String) -> StatusCode {
    let body = serde_json::from_str(&body).unwrap();
    let mut state = service.state.lock().unwrap();
    state.requests.push(Request { headers, body });
    StatusCode::from_u16(state.answers.remove(0)).unwrap()
}
