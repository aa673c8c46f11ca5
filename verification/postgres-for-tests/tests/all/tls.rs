//! A server that requires TLS.

use postgres_for_tests::Server;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tokio_postgres::config::SslMode;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Config, Error, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

/// Connects with TLS, trusting `authority`, and asks the server whether the connection uses TLS.
async fn is_encrypted(config: &Config, authority: &Server) -> Result<bool, Error> {
    let mut roots = RootCertStore::empty();
    let path = authority.authority().unwrap();
    let certificate = CertificateDer::from_pem_file(path).unwrap();
    roots.add(certificate).unwrap();
    let tls = ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let (client, connection) = config.connect(MakeRustlsConnect::new(tls)).await?;
    tokio::spawn(connection);
    let query = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
    Ok(client.query_one(query, &[]).await?.get(0))
}

fn config(url: &str) -> Config {
    let mut config: Config = url.parse().unwrap();
    config.ssl_mode(SslMode::Require);
    config
}

fn assert_refused(connected: Result<bool, Error>, why: &str) {
    let error = format!("{:?}", connected.unwrap_err());
    assert!(error.contains(why), "{error}");
}

#[tokio::test]
async fn a_client_that_trusts_the_authority_is_encrypted_also_after_a_restart() {
    let server = Server::start_with_tls();
    let config = config(&server.create_database());
    assert!(is_encrypted(&config, &server).await.unwrap());
    server.restart();
    assert!(is_encrypted(&config, &server).await.unwrap());
}

#[tokio::test]
async fn a_client_that_trusts_another_authority_does_not_connect() {
    let (server, other) = (Server::start_with_tls(), Server::start_with_tls());
    let config = config(&server.connection_string());
    assert_refused(is_encrypted(&config, &other).await, "InvalidCertificate");
}

#[tokio::test]
async fn the_certificate_is_for_no_name() {
    let server = Server::start_with_tls();
    let config = config(&server.connection_string());
    let mut named = Config::new();
    named
        .host("localhost")
        .hostaddr([127, 0, 0, 1].into())
        .port(config.get_ports()[0])
        .user("postgres")
        .password(config.get_password().unwrap())
        .ssl_mode(SslMode::Require);
    assert_refused(is_encrypted(&named, &server).await, "NotValidForName");
}

#[tokio::test]
async fn a_client_without_tls_is_refused() {
    let server = Server::start_with_tls();
    let plain = tokio_postgres::connect(&server.create_database(), NoTls).await;
    let code = plain.err().unwrap().code().cloned();
    assert_eq!(code, Some(SqlState::INVALID_AUTHORIZATION_SPECIFICATION));
}
