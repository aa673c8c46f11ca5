use serde::Deserialize;
use sqs_once::{Batch, BatchOutcome};

#[derive(Deserialize)]
struct OrderPlaced {
    tenant: String,
    order_id: String,
}

#[sqs_once::batch_handler]
async fn missing(orders: Batch<OrderPlaced>) -> BatchOutcome {
    orders.all_succeeded()
}

#[sqs_once::batch_handler(key = "order")]
async fn constant(orders: Batch<OrderPlaced>) -> BatchOutcome {
    orders.all_succeeded()
}

#[sqs_once::batch_handler(key = format!("{}/{}", order.tenant, order.order_id))]
async fn nameless(orders: Batch<OrderPlaced>) -> BatchOutcome {
    orders.all_succeeded()
}

#[sqs_once::batch_handler(key = order.number)]
async fn no_such_field(orders: Batch<OrderPlaced>) -> BatchOutcome {
    orders.all_succeeded()
}

fn main() {
    let _ = missing::consumer();
    let _ = constant::consumer();
    let _ = nameless::consumer();
    let _ = no_such_field::consumer();
}
