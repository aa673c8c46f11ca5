//! HTTPS for the AWS clients of this crate. Parsing all of the system's root certificates took half of a cold start, and
//! AWS's endpoints need five of them.

use std::error::Error;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use aws_smithy_http_client::tls::{Provider, TlsContext, TrustStore};
use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpClient,
    SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;

/// The root certificates of Amazon Trust Services: <https://www.amazontrust.com/repository>.
const AMAZON_ROOTS: &[u8] = include_bytes!("amazon_roots.pem");

/// Returns a client that trusts Amazon's root certificates. After it has refused a server's certificate, such as that of
/// a local endpoint or of a proxy that intercepts TLS, it trusts the system's root certificates too. The SDK's next
/// attempt then succeeds.
pub(crate) fn client() -> SharedHttpClient {
    let amazon = TrustStore::empty().with_pem_certificate(AMAZON_ROOTS);
    SharedHttpClient::new(Https {
        amazon: trusting(amazon),
        all: trusting(TrustStore::default().with_pem_certificate(AMAZON_ROOTS)),
        trusts_all: Arc::default(),
    })
}

fn trusting(roots: TrustStore) -> SharedHttpClient {
    let tls = TlsContext::builder().with_trust_store(roots).build();
    aws_smithy_http_client::Builder::new()
        // ring builds faster than the SDK's default TLS provider and starts faster.
        .tls_provider(Provider::Rustls(CryptoMode::Ring))
        .tls_context(tls.unwrap_or_default())
        .build_https()
}

#[derive(Debug)]
struct Https {
    amazon: SharedHttpClient,
    /// Parses its certificates when its first connector is built.
    all: SharedHttpClient,
    trusts_all: Arc<AtomicBool>,
}

/// Has no check of a new client. The SDK's own would build a throw-away connector with all certificates.
impl HttpClient for Https {
    fn http_connector(
        &self,
        settings: &HttpConnectorSettings,
        components: &RuntimeComponents,
    ) -> SharedHttpConnector {
        if self.trusts_all.load(Ordering::Relaxed) {
            return self.all.http_connector(settings, components);
        }
        SharedHttpConnector::new(TrustingAmazon {
            connector: self.amazon.http_connector(settings, components),
            trusts_all: Arc::clone(&self.trusts_all),
        })
    }
}

#[derive(Debug)]
struct TrustingAmazon {
    connector: SharedHttpConnector,
    trusts_all: Arc<AtomicBool>,
}

impl HttpConnector for TrustingAmazon {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let answer = self.connector.call(request);
        let trusts_all = Arc::clone(&self.trusts_all);
        HttpConnectorFuture::new(async move {
            match answer.await {
                Err(error) if refuses_certificate(&error) => {
                    trusts_all.store(true, Ordering::Relaxed);
                    // The SDK tries again after an I/O error, whatever it thinks of TLS errors.
                    Err(ConnectorError::io(error.into()))
                }
                answer => answer,
            }
        })
    }
}

/// Returns whether the TLS library refused what the server sent.
fn refuses_certificate(error: &(dyn Error + 'static)) -> bool {
    if let Some(error) = error.downcast_ref::<io::Error>() {
        // The source of an I/O error leaves out the error that it carries.
        let carried = error.get_ref().map(|carried| carried as _);
        return error.kind() == ErrorKind::InvalidData || carried.is_some_and(refuses_certificate);
    }
    error.source().is_some_and(refuses_certificate)
}
