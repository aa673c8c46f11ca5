#[path = "../service.rs"]
mod service;

use reqwest::Client;
use sqs_once::testing::{Bench, Event, Record};

use super::{Mail, tell};
use service::Service;

fn bench(service: &Service) -> Bench {
    let (client, url) = (Client::new(), service.url());
    let api_key = "secret".to_owned();
    Bench::new(tell::handler(Mail {
        client,
        url,
        api_key,
    }))
}

#[tokio::test]
async fn an_order_that_comes_twice_is_told_once() {
    let service = Service::answering([200]).await;
    let bench = bench(&service);
    let event = Event::new([Record::text(include_str!("event.json"))]);
    bench.run(&event).await.assert_processed("m-1");
    bench.run(&event).await.assert_duplicate("m-1");

    let [request] = &service.requests()[..] else {
        panic!("one email should be sent")
    };
    assert_eq!(request.body["to"], "ada@example.com");
    assert_eq!(request.headers["authorization"], "Bearer secret");
}

#[tokio::test]
async fn only_an_email_that_the_service_refuses_is_terminal() {
    let service = Service::answering([500, 422]).await;
    let bench = bench(&service);
    let event = Event::new([Record::text(include_str!("event.json"))]);
    bench.run(&event).await.assert_failed("m-1");
    bench.run(&event).await.assert_terminal("m-1");
}
