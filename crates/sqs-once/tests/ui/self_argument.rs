#![allow(unused_variables)]

use serde::Deserialize;
use sqs_once::HandlerError;

#[derive(Deserialize)]
struct OrderPlaced {
    order_id: String,
}

struct App;

impl App {
    #[sqs_once::handler(key = order.order_id)]
    async fn charge(&self, order: OrderPlaced) -> Result<(), HandlerError> {
        Ok(())
    }
}

fn main() {}
