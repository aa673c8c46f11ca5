//! The clients that a function's environment configures: whose certificates they trust, and requests that AWS refuses
//! because of the time of their signature, usual after Lambda has frozen the function.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Output;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use lambda_runtime::Context;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use serde_json::json;
use sqs_once::store::Store;
use sqs_once::store::StoreErrorKind::AccessDenied;
use sqs_once::{Consumer, DynamoDbStore, HandlerError, ResultExt};
use sqs_once_local::TableDescription;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

use crate::store_suite::support::{is_written, new_claims, output, process_with_table, store_at};
use crate::support::dynamodb::local;
use crate::support::wire::{Turn, Wire};
use crate::support::{DLQ, Order, failures, invoke, one, orders};

/// Puts a server with a certificate of its own authority in front of this address. Returns its endpoint and the
/// authority. Counts the connections.
async fn with_tls(to: SocketAddr, connections: Arc<AtomicUsize>) -> (String, String) {
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority_key = KeyPair::generate().unwrap();
    let roots = authority.self_signed(&authority_key).unwrap().pem();
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(["localhost".to_owned()])
        .unwrap()
        .signed_by(&key, &Issuer::new(authority, authority_key))
        .unwrap();
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key);
    let tls = TlsAcceptor::from(Arc::new(config.unwrap()));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            connections.fetch_add(1, Ordering::Relaxed);
            let tls = tls.clone();
            tokio::spawn(async move {
                let mut stream = tls.accept(stream).await.ok()?;
                let mut to = TcpStream::connect(to).await.ok()?;
                copy_bidirectional(&mut stream, &mut to).await.ok()
            });
        }
    });
    (format!("https://localhost:{port}"), roots)
}

/// Claims two keys in another process, one after the other, over TLS. Returns the number of connections.
async fn claim_over_tls(trust_authority: bool) -> (Output, usize) {
    let local = local(&TableDescription::default()).await;
    let address = local.endpoint().replace("http://", "").parse().unwrap();
    let connections = Arc::default();
    let (endpoint, roots) = with_tls(address, Arc::clone(&connections)).await;
    let file =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("trusted-{trust_authority}.pem"));
    let others = CertificateParams::default();
    let others = others.self_signed(&KeyPair::generate().unwrap()).unwrap();
    std::fs::write(&file, if trust_authority { roots } else { others.pem() }).unwrap();
    let mut process =
        process_with_table(module_path!(), "in_a_process_that_claims_a_key", &endpoint);
    process.arg("--nocapture").env("SSL_CERT_FILE", file);
    let ended = output(process).await;
    (ended, connections.load(Ordering::Relaxed))
}

#[tokio::test]
async fn in_a_process_that_claims_a_key() {
    if std::env::var_os("SQS_ONCE_TABLE").is_none() {
        return;
    }
    let store = DynamoDbStore::from_env().await.unwrap();
    for _ in 0..2 {
        let claimed = store.claim(&new_claims(1)).await;
        assert!(is_written(&claimed[0]), "{claimed:?}");
    }
}

#[tokio::test]
async fn a_server_is_trusted_by_amazons_roots_or_the_systems_or_refused_with_the_reason() {
    let (ended, connections) = claim_over_tls(true).await;
    assert!(ended.status.success(), "{ended:?}");
    // Refused by Amazon's roots, and then open for both.
    assert_eq!(connections, 2);

    let (ended, _) = claim_over_tls(false).await;
    assert!(!ended.status.success());
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(said.contains("invalid peer certificate"), "{said}");
}

const EXPIRED: &str = "Signature expired: 20260921T140000Z is now earlier than 20260921T141000Z (20260921T141500Z - 5 min.)";
const EARLY: &str = "Signature not yet current: 20260921T142230Z is still later than 20260921T142000Z (20260921T141500Z + 5 min.)";
const WRONG: &str =
    "The request signature we calculated does not match the signature you provided.";
const DLQ_VARIABLE: &str = "SQS_ONCE_DLQ_URL";

fn refusal(message: &str) -> Turn {
    let code = "com.amazon.coral.service#InvalidSignatureException";
    let refusal = json!({ "__type": code, "message": message });
    Turn::Answer(400, refusal.to_string())
}

#[tokio::test]
async fn an_expired_signature_is_transient_and_a_wrong_one_is_denied_access() {
    for (message, is_transient) in [(EXPIRED, true), (EARLY, true), (WRONG, false)] {
        let wire = Wire::always(refusal(message)).await;
        for count in [1, 3] {
            let claims = new_claims(count);
            for claimed in store_at(&wire.endpoint()).claim(&claims).await {
                let error = claimed.unwrap_err();
                assert_eq!(error.is_transient(), is_transient, "{error}");
                assert_eq!(error.is_permanent(), !is_transient, "{error}");
                assert_eq!(error.kind() == AccessDenied, !is_transient, "{error}");
                assert!(error.to_string().contains(message), "{error}");
            }
        }
    }
}

#[tokio::test]
async fn in_a_process_whose_clients_come_from_the_environment() {
    if std::env::var_os(DLQ_VARIABLE).is_none() {
        return;
    }
    let store = DynamoDbStore::from_env().await.unwrap();
    let claimed = store.claim(&new_claims(1)).await;
    assert!(is_written(&claimed[0]), "{claimed:?}");
    let refusing = async |_: Order| Err::<(), HandlerError>("no such card".into()).terminal();
    let handler = orders().call(refusing).namespace("test");
    let consumer = Consumer::new(handler).store(store);
    let answer = invoke(&consumer, &one("o-1"), Context::default()).await;
    assert_eq!(failures(&answer), [""; 0]);
}

#[tokio::test]
async fn the_clients_from_the_environment_sign_again() {
    let local = local(&TableDescription::default()).await;
    let dynamodb = Wire::to(&local.endpoint()).await;
    dynamodb.next([refusal(EXPIRED), refusal(EARLY)]);
    let moved = json!({ "MessageId": "copy" }).to_string();
    let sqs = Wire::always(Turn::Answer(200, moved)).await;
    sqs.next([refusal(EXPIRED), refusal(EARLY)]);
    let test = "in_a_process_whose_clients_come_from_the_environment";
    let endpoint = dynamodb.endpoint();
    let mut process = process_with_table(module_path!(), test, &endpoint);
    process
        .env(DLQ_VARIABLE, DLQ)
        .env("AWS_ENDPOINT_URL_SQS", sqs.endpoint());
    let ended = output(process).await;
    assert!(ended.status.success(), "{ended:?}");
    let moves = sqs.seen().into_iter().filter(|seen| seen == "SendMessage");
    assert_eq!(moves.count(), 3);
}
