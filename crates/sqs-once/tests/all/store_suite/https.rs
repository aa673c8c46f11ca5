//! Whose certificates the clients that this crate builds trust.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Output;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use sqs_once::DynamoDbStore;
use sqs_once::store::Store;
use sqs_once_local::TableDescription;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

use crate::store_suite::support::{is_written, new_claims, output, process_with_table};
use crate::support::dynamodb::local;

const TEST: &str = "in_a_process_that_claims_a_key";

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
    let mut process = process_with_table(module_path!(), TEST, &endpoint);
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
