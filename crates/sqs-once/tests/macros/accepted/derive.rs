//! A payload as its own key.

use serde::Deserialize;
use sqs_once::BusinessKey;
use sqs_once::key::MessageKey;

#[derive(Deserialize, BusinessKey)]
struct OrderPlaced {
    #[key]
    tenant: Tenant,
    #[key]
    number: Option<u64>,
    note: String,
    amount: f64,
}

#[derive(Deserialize, BusinessKey)]
struct Tenant(#[key] String);

#[derive(Deserialize, BusinessKey)]
struct Envelope<'a, T: Clone>
where
    T: Copy,
{
    #[key]
    r#type: std::borrow::Cow<'a, str>,
    #[key]
    id: T,
}

#[sqs_once::handler(key = (order, order.note), namespace = "test")]
async fn part(order: OrderPlaced) {}

#[sqs_once::handler(key = envelope, namespace = "test")]
async fn generic(envelope: Envelope<'static, u32>) {}

#[sqs_once::handler(key = (MessageKey::group_id(), |order: &OrderPlaced| BusinessKey::new(order)), namespace = "test")]
async fn beside_an_extractor(order: OrderPlaced) {}

#[test]
fn a_payloads_key_has_its_key_fields_and_no_others() {
    let order = |number, note: &str| OrderPlaced {
        tenant: Tenant("t".to_owned()),
        number,
        note: note.to_owned(),
        amount: 1.5,
    };
    let key = BusinessKey::new(&order(Some(7), "a"));
    assert_eq!(key, BusinessKey::new(&("t", 7)));
    assert_eq!(key, BusinessKey::new(&order(Some(7), "b")));
    assert!(BusinessKey::new(&order(None, "a")).is_err());
    assert!(order(None, "a").amount > 1.0);
}
