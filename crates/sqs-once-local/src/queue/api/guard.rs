//! Who may ask: programs of this machine, and no web page that is open in its browser.

use super::JSON;
use super::refused::Refused;
use axum::http::{HeaderMap, Method, StatusCode, header};
use std::net::{IpAddr, SocketAddr};

/// Refuses what a browser might send for a page from elsewhere.
///
/// A browser names the page's origin with every `POST`, sends this content type only to who agrees beforehand, and
/// names the host that the page knows: not a loopback address if a name was made to lead here.
pub(super) fn check(method: &Method, headers: &HeaderMap) -> Result<(), Refused> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    if headers.contains_key(header::ORIGIN) {
        return Err(Refused::forbidden("web pages can't use the local SQS"));
    }
    if !text(header::HOST).is_some_and(is_loopback) {
        return Err(Refused::forbidden(
            "the local SQS is asked by a loopback address or as localhost",
        ));
    }
    if method != Method::POST {
        let said = "SQS is asked by POST";
        return Err(Refused::new("InvalidAction", said).with_status(StatusCode::METHOD_NOT_ALLOWED));
    }
    let content_type = text(header::CONTENT_TYPE).unwrap_or_default();
    let content_type = content_type.split(';').next().unwrap_or_default().trim();
    if !content_type.eq_ignore_ascii_case(JSON) {
        let said = format!("the local SQS speaks the JSON protocol: the content type is {JSON}");
        let refused = Refused::new("UnsupportedMediaType", said);
        return Err(refused.with_status(StatusCode::UNSUPPORTED_MEDIA_TYPE));
    }
    Ok(())
}

/// Whether a `Host` header names this machine, with or without a port.
fn is_loopback(host: &str) -> bool {
    if let Ok(address) = host.parse::<SocketAddr>() {
        return address.ip().is_loopback();
    }
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    if let Ok(address) = bare.parse::<IpAddr>() {
        return address.is_loopback();
    }
    let name = host.split_once(':').map_or(host, |(name, _)| name);
    name.eq_ignore_ascii_case("localhost")
}
