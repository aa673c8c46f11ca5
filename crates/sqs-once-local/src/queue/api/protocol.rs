//! The method and headers that every request of the JSON protocol must have.

use super::JSON;
use super::refused::Refused;
use axum::http::{HeaderMap, Method, StatusCode, header};

/// Refuses a request that is not a `POST` of the JSON protocol.
pub(super) fn check(method: &Method, headers: &HeaderMap) -> Result<(), Refused> {
    if method != Method::POST {
        let said = "SQS is asked by POST";
        return Err(Refused::new("InvalidAction", said).with_status(StatusCode::METHOD_NOT_ALLOWED));
    }
    let content_type = headers.get(header::CONTENT_TYPE);
    let content_type = content_type.and_then(|value| value.to_str().ok());
    let content_type = content_type.unwrap_or_default();
    let content_type = content_type.split(';').next().unwrap_or_default().trim();
    if !content_type.eq_ignore_ascii_case(JSON) {
        let said = format!("the local SQS speaks the JSON protocol: the content type is {JSON}");
        let refused = Refused::new("UnsupportedMediaType", said);
        return Err(refused.with_status(StatusCode::UNSUPPORTED_MEDIA_TYPE));
    }
    Ok(())
}
