//! TLS according to `sslmode`. Every mode with TLS verifies the server's certificate. libpq's `require` does not, so it
//! does not protect against a server that impersonates the database.

use std::path::Path;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use sqs_once::ConfigError;
use tokio_postgres::config::SslMode;
use tokio_postgres_rustls::MakeRustlsConnect;

/// Trusts the certificates in `root_cert`, or the system's without such a file.
pub(crate) fn connector(
    mode: SslMode,
    root_cert: Option<&Path>,
) -> Result<MakeRustlsConnect, ConfigError> {
    let roots = match (mode, root_cert) {
        // Not used. Reading the system's certificates, about a hundred, would slow down the cold start.
        (SslMode::Disable, _) => RootCertStore::empty(),
        (_, Some(path)) => from_file(path)?,
        (_, None) => {
            let mut roots = RootCertStore::empty();
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            roots
        }
    };
    // The process may have several crypto providers, or no default.
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| ConfigError::invalid("TLS", error.to_string(), "TLS 1.2 or 1.3"))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}

fn from_file(path: &Path) -> Result<RootCertStore, ConfigError> {
    let refused = |problem: &dyn std::fmt::Display| {
        let setting = format!("the file of root certificates {}", path.display());
        ConfigError::invalid(setting, problem.to_string(), "certificates in PEM form")
    };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(path).map_err(|error| refused(&error))? {
        let certificate = certificate.map_err(|error| refused(&error))?;
        roots.add(certificate).map_err(|error| refused(&error))?;
    }
    if roots.is_empty() {
        return Err(refused(&"contains no certificate"));
    }
    Ok(roots)
}
