//! A handler compiles anywhere a function does, with any visibility.

use serde::Deserialize;

#[derive(Deserialize)]
pub struct OrderPlaced {
    pub order_id: String,
}

pub mod orders {
    use super::OrderPlaced;

    #[sqs_once::handler(key = order.order_id, namespace = "test")]
    pub(crate) async fn charge(order: OrderPlaced) {}

    #[sqs_once::handler(key = order.order_id, namespace = "test")]
    pub async fn ship(order: OrderPlaced) {}

    #[sqs_once::handler(key = order.order_id, namespace = "test")]
    pub(super) async fn r#return(order: OrderPlaced) {}
}

#[cfg(any())]
#[sqs_once::handler(key = order.order_id, namespace = "test")]
async fn left_out(order: OrderPlaced) {}

#[sqs_once::handler(key = order.order_id, namespace = "test")]
#[cfg(any())]
async fn left_out(order: OrderPlaced) {}

macro_rules! handlers {
    ($($name:ident: $payload:ty, $key:expr, $namespace:expr;)*) => {$(
        #[sqs_once::handler(key = $key, namespace = $namespace)]
        async fn $name(order: $payload) {}
    )*};
}

handlers! {
    from_a_macro: OrderPlaced, sqs_once::key::MessageKey::group_id(), "orders";
}

#[sqs_once::handler(key = order.order_id, namespace = "test")]
async fn calling(order: OrderPlaced) {
    // The function is unchanged and can be called.
    orders::charge(order).await;
}

fn in_a_function() {
    #[sqs_once::handler(key = order.order_id, namespace = "test")]
    async fn local(order: OrderPlaced) {}

    let _ = (local::consumer(), orders::r#return::consumer());
}
