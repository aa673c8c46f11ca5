//! The payments service: `POST $PAYMENTS_URL/charges`.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, RETRY_AFTER};
use hyper::{HeaderMap, Request, StatusCode, Uri};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use sqs_once::{HandlerError, IdempotencyToken, ResultExt};
use thiserror::Error;
use tokio::time::timeout;

use crate::order::OrderPlaced;

/// Time limit for one charge. A charge that exceeds it may have succeeded; the retry sends the same token.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Charges customers.
#[derive(Clone)]
pub(crate) struct Payments {
    /// `None` without `PAYMENTS_URL`: charges are only logged, so the example runs without a service.
    service: Option<Arc<Service>>,
}

struct Service {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    charges: Uri,
}

/// The client of the payments service cannot be created.
#[derive(Debug, Error)]
pub(crate) enum SetupError {
    #[error(
        "PAYMENTS_URL is not a URL: expected the base URL of the payments service, such as https://payments.example"
    )]
    Url(#[source] hyper::http::uri::InvalidUri),
    #[error("the system's root certificates can't be loaded")]
    Certificates(#[source] std::io::Error),
}

/// The payments service did not confirm the charge.
#[derive(Debug, Error)]
pub(crate) enum ChargeError {
    #[error("the payments service answered {0}")]
    Answered(StatusCode),
    #[error("the payments service did not answer within {TIMEOUT:?}")]
    Unanswered,
    #[error("the payments service can't be reached")]
    Unreachable(#[source] hyper_util::client::legacy::Error),
}

impl Payments {
    pub(crate) fn from_env() -> Result<Self, SetupError> {
        match std::env::var("PAYMENTS_URL") {
            Ok(url) if !url.is_empty() => Self::at(&url),
            _ => Ok(Self { service: None }),
        }
    }

    /// Creates the client of the payments service at a base URL.
    pub(crate) fn at(url: &str) -> Result<Self, SetupError> {
        let charges = format!("{}/charges", url.trim_end_matches('/'))
            .parse()
            .map_err(SetupError::Url)?;
        let connector = HttpsConnectorBuilder::new()
            .with_native_roots()
            .map_err(SetupError::Certificates)?
            .https_or_http()
            .enable_http1()
            .build();
        let client = Client::builder(TokioExecutor::new()).build(connector);
        let service = Some(Arc::new(Service { client, charges }));
        Ok(Self { service })
    }

    /// Charges an order. The token lets the service recognise a repeated charge.
    pub(crate) async fn charge(
        &self,
        order: &OrderPlaced,
        token: &IdempotencyToken,
    ) -> Result<(), HandlerError> {
        let Some(service) = &self.service else {
            tracing::info!(
                amount_cents = order.amount_cents,
                currency = order.currency,
                "charged in the built-in ledger"
            );
            return Ok(());
        };
        let request = Request::post(&service.charges)
            .header(CONTENT_TYPE, "application/json")
            .header("Idempotency-Key", token.as_str())
            .body(Full::from(serde_json::to_vec(order)?))?;
        let answer = timeout(TIMEOUT, service.client.request(request))
            .await
            .map_err(|_| ChargeError::Unanswered)?
            .map_err(ChargeError::Unreachable)?;
        outcome(answer.status(), answer.headers())
    }
}

/// Converts an answer to the message's outcome: done, retryable or terminal.
fn outcome(status: StatusCode, headers: &HeaderMap) -> Result<(), HandlerError> {
    let refused = Err(ChargeError::Answered(status));
    let status = status.as_u16();
    match (status, retry_after(headers)) {
        (200..300, _) => Ok(()),
        (400..500, _) if ![408, 425, 429].contains(&status) => refused.terminal(),
        (_, Some(delay)) => refused.retry_after(delay),
        (_, None) => Ok(refused?),
    }
}

/// Returns the delay that the service asks for: a number of seconds, or a date.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?;
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = httpdate::parse_http_date(text).ok()?;
    date.duration_since(SystemTime::now()).ok()
}

#[cfg(test)]
mod tests {
    use sqs_once::policy::Disposition;

    use super::*;

    fn answered(status: u16, retry_after: Option<&str>) -> Result<(), HandlerError> {
        let mut headers = HeaderMap::new();
        headers.extend(retry_after.map(|text| (RETRY_AFTER, text.parse().unwrap())));
        outcome(StatusCode::from_u16(status).unwrap(), &headers)
    }

    fn disposition(status: u16, retry_after: Option<&str>) -> Disposition {
        answered(status, retry_after).unwrap_err().disposition()
    }

    #[test]
    fn success_is_done_and_other_client_errors_are_terminal() {
        for status in [200, 201, 202, 204] {
            answered(status, None).unwrap();
        }
        for status in [400, 401, 402, 404, 409, 422] {
            assert!(
                answered(status, None).unwrap_err().is_terminal(),
                "{status}"
            );
        }
    }

    #[test]
    fn overload_and_server_errors_are_retried_when_the_service_says() {
        for status in [302, 408, 425, 429, 500, 502, 503, 504] {
            assert_eq!(disposition(status, None), Disposition::Retry, "{status}");
        }
        let seven = Disposition::RetryAfter(Duration::from_secs(7));
        assert_eq!(disposition(429, Some("7")), seven);
        let next_hour = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(3600));
        match disposition(503, Some(&next_hour)) {
            Disposition::RetryAfter(delay) => assert!(delay > Duration::from_secs(3000)),
            other => panic!("{other:?}"),
        }
        assert_eq!(disposition(503, Some("soon")), Disposition::Retry);
    }
}
