use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::extract::Path;
use axum::http::StatusCode;
use axum::routing::get;
use serde_json::json;
use sqs_once::testing::{Bench, Event, Record};

use super::handler;

/// A service that has all orders but `lost`, while it is up.
async fn orders(is_up: Arc<AtomicBool>) -> String {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let order = move |Path(id): Path<String>| async move {
        match id.as_str() {
            _ if !is_up.load(Ordering::SeqCst) => Err(StatusCode::SERVICE_UNAVAILABLE),
            "lost" => Err(StatusCode::NOT_FOUND),
            _ => Ok(json!({ "order_id": id, "address": "1 Main Street" }).to_string()),
        }
    };
    let router = Router::new().route("/orders/{id}", get(order));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    url
}

#[tokio::test]
async fn an_order_that_comes_twice_ships_once() {
    let bench = Bench::new(handler(orders(Arc::new(true.into())).await).unwrap());
    let event = Event::new([Record::text(include_str!("event.json"))]);
    bench.run(&event).await.assert_processed("m-1");
    bench.run(&event).await.assert_duplicate("m-1");
}

#[tokio::test]
async fn an_order_that_cant_be_fetched_is_tried_again_and_an_unknown_one_is_terminal() {
    let is_up = Arc::new(AtomicBool::new(false));
    let bench = Bench::new(handler(orders(Arc::clone(&is_up)).await).unwrap());
    let orders = [json!({ "order_id": "lost" }), json!({ "order_id": "o-2" })];
    bench
        .run(Event::new(&orders))
        .await
        .assert_retried(["m-1", "m-2"]);
    is_up.store(true, Ordering::SeqCst);
    let answer = bench.run(Event::new(&orders)).await;
    answer.assert_terminal("m-1").assert_processed("m-2");
}
