//! Code can still call the function by its own name.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use serde::Deserialize;
use sqs_once::{HandlerError, IdempotencyToken, State};

#[derive(Deserialize)]
struct OrderPlaced {
    order_id: String,
}

#[sqs_once::handler(key = order.order_id, namespace = "test")]
async fn charge(order: OrderPlaced, State(limit): State<usize>) -> Result<(), HandlerError> {
    if order.order_id.len() > limit {
        return Err(HandlerError::terminal("too long"));
    }
    Ok(())
}

#[sqs_once::handler(key = order.order_id, namespace = "test")]
async fn ship(order: OrderPlaced, token: IdempotencyToken) -> Result<(), HandlerError> {
    charge(order, State(token.as_str().len())).await
}

#[test]
fn a_handler_is_called_like_any_function() {
    let order = OrderPlaced {
        order_id: "o-1001".to_owned(),
    };
    let called = pin!(charge(order, State(3))).poll(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(called, Poll::Ready(Err(error)) if error.is_terminal()));
}
