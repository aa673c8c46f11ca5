//! HTTPS for the AWS clients of this crate. Parsing all of the system's root certificates took half of a cold start, and
//! AWS's endpoints need five of them.

use std::error::Error;
use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
    SharedHttpClient::new(Https {
        amazon: Arc::new(Pool::new(|| {
            TrustStore::empty().with_pem_certificate(AMAZON_ROOTS)
        })),
        all: Arc::new(Pool::new(|| {
            TrustStore::default().with_pem_certificate(AMAZON_ROOTS)
        })),
        trusts_all: Arc::default(),
    })
}

#[derive(Debug)]
struct Https {
    amazon: Arc<Pool>,
    /// Parses its certificates when its first connector is built.
    all: Arc<Pool>,
    trusts_all: Arc<AtomicBool>,
}

/// The connections of a client. After an outage of the network all of them may be dead, without a notice. Each would cost a
/// request its timeout, so that they are replaced together after the first request that was given up.
#[derive(Debug)]
struct Pool {
    roots: fn() -> TrustStore,
    client: Mutex<SharedHttpClient>,
    /// How often the connections were replaced.
    age: AtomicUsize,
}

impl Pool {
    fn new(roots: fn() -> TrustStore) -> Self {
        Self {
            roots,
            client: Mutex::new(trusting(roots())),
            age: AtomicUsize::new(0),
        }
    }

    fn client(&self) -> MutexGuard<'_, SharedHttpClient> {
        self.client.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the connections, unless another request of this age did so.
    fn give_up(&self, age: usize) {
        let mut client = self.client();
        if self.age.load(Ordering::Relaxed) == age {
            *client = trusting((self.roots)());
            self.age.store(age + 1, Ordering::Relaxed);
        }
    }
}

fn trusting(roots: TrustStore) -> SharedHttpClient {
    let tls = TlsContext::builder().with_trust_store(roots).build();
    aws_smithy_http_client::Builder::new()
        // ring builds faster than the SDK's default TLS provider and starts faster.
        .tls_provider(Provider::Rustls(CryptoMode::Ring))
        .tls_context(tls.unwrap_or_default())
        .build_https()
}

/// Has no check of a new client. The SDK's own would build a throw-away connector with all certificates.
impl HttpClient for Https {
    fn http_connector(
        &self,
        settings: &HttpConnectorSettings,
        components: &RuntimeComponents,
    ) -> SharedHttpConnector {
        let trusts_all = self.trusts_all.load(Ordering::Relaxed);
        let pool = Arc::clone(if trusts_all { &self.all } else { &self.amazon });
        let client = pool.client();
        let connector = Connector {
            connector: client.http_connector(settings, components),
            age: pool.age.load(Ordering::Relaxed),
            pool: Arc::clone(&pool),
            trusts_all: Arc::clone(&self.trusts_all),
        };
        drop(client);
        SharedHttpConnector::new(connector)
    }
}

#[derive(Debug)]
struct Connector {
    connector: SharedHttpConnector,
    pool: Arc<Pool>,
    age: usize,
    trusts_all: Arc<AtomicBool>,
}

impl HttpConnector for Connector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let answer = self.connector.call(request);
        let trusts_all = Arc::clone(&self.trusts_all);
        let unanswered = Unanswered {
            pool: Arc::clone(&self.pool),
            age: Some(self.age),
        };
        HttpConnectorFuture::new(async move {
            let mut unanswered = unanswered;
            let answer = answer.await;
            unanswered.age = None;
            match answer {
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

/// A request without an answer. The SDK drops it after its timeout.
struct Unanswered {
    pool: Arc<Pool>,
    age: Option<usize>,
}

impl Drop for Unanswered {
    fn drop(&mut self) {
        if let Some(age) = self.age {
            self.pool.give_up(age);
        }
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

#[cfg(all(test, feature = "sqs"))]
mod tests {
    use std::time::Duration;

    use aws_sdk_sqs::config::retry::RetryConfig;
    use aws_sdk_sqs::config::{BehaviorVersion, Credentials, Region};
    use aws_sdk_sqs::{Client, Config};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::sync::mpsc;
    use tokio::time::timeout;

    use super::*;

    type Requests = mpsc::UnboundedSender<()>;

    /// Answers the first request on a connection, and nothing that comes later. Reports each request.
    async fn answer_once(mut connection: TcpStream, requests: Requests) -> io::Result<()> {
        let mut buffer = [0; 4096];
        let mut is_first = true;
        while connection.read(&mut buffer).await? > 0 {
            if std::mem::take(&mut is_first) {
                let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
                connection.write_all(answer).await?;
            }
            let _ = requests.send(());
        }
        Ok(())
    }

    async fn serve(listener: TcpListener, requests: Requests) {
        while let Ok((connection, _)) = listener.accept().await {
            tokio::spawn(answer_once(connection, requests.clone()));
        }
    }

    #[tokio::test]
    async fn one_request_without_an_answer_is_enough_to_open_new_connections() {
        const REQUESTS: usize = 8;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (sender, mut requests) = mpsc::unbounded_channel();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(serve(listener, sender));
        let config = Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::from_static("eu-central-1"))
            .credentials_provider(Credentials::new("local", "local", None, None, "test"))
            .http_client(client())
            .retry_config(RetryConfig::disabled())
            .endpoint_url(url)
            .build();
        let client = Client::from_conf(config);
        let call = || client.list_queues().send();
        let all = || futures_util::future::join_all((0..REQUESTS).map(|_| call()));
        for answer in all().await {
            answer.unwrap();
        }
        // A network that is gone loses what is sent. The SDK gives up after its timeout.
        for _ in 0..REQUESTS {
            requests.recv().await.unwrap();
        }
        tokio::select! {
            _ = call() => panic!("it was answered"),
            _ = requests.recv() => {}
        }
        let answers = timeout(Duration::from_secs(60), all()).await;
        for answer in answers.expect("the connections of before are used") {
            answer.unwrap();
        }
    }
}
