#![allow(dead_code)]

use sqs_once::BusinessKey;

#[derive(BusinessKey)]
struct Unmarked {
    order_id: String,
}

#[derive(BusinessKey)]
struct Empty;

#[derive(BusinessKey)]
enum Event {
    Placed { order_id: String },
}

#[derive(BusinessKey)]
union Bits {
    number: u32,
    bytes: [u8; 4],
}

#[derive(BusinessKey)]
struct WithArguments {
    #[key(name = "id")]
    order_id: String,
}

#[derive(BusinessKey)]
struct Twice {
    #[key]
    #[key]
    order_id: String,
}

#[derive(BusinessKey)]
struct Float {
    #[key]
    order_id: String,
    #[key]
    amount: f64,
}

fn main() {
    let _ = BusinessKey::new(&Unmarked { order_id: String::new() });
    let _ = BusinessKey::new(&Event::Placed { order_id: String::new() });
}
