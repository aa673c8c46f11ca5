//! Who may ask: the page itself, and nobody through a name or a site of their own.

use axum::http::{HeaderMap, StatusCode, header};

/// The header in which the page says its token. A site elsewhere can't send it without being allowed to.
pub(super) const TOKEN: &str = "x-sqs-once-token";

/// What a request must show.
pub(super) struct Guard {
    port: u16,
    token: String,
}

/// Why a request is refused.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refused(pub(super) StatusCode, pub(super) &'static str);

impl Guard {
    pub(super) fn new(port: u16, token: String) -> Self {
        Self { port, token }
    }

    pub(super) fn token(&self) -> &str {
        &self.token
    }

    /// That a request is meant for this page and comes from it: a name that only leads here (DNS rebinding) is none of
    /// its hosts, and another site is none of its origins.
    pub(super) fn admit(&self, headers: &HeaderMap) -> Result<(), Refused> {
        let refused = |why| Err(Refused(StatusCode::FORBIDDEN, why));
        let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
        let is_own = |authority: &str| {
            let named = ["127.0.0.1", "localhost"];
            let own = named.map(|host| format!("{host}:{}", self.port));
            own.iter().any(|own| own == authority) || self.port == 80 && named.contains(&authority)
        };
        if headers.get_all(header::HOST).iter().count() != 1
            || !text(header::HOST).is_some_and(is_own)
        {
            return refused("the Host must be 127.0.0.1 or localhost with the page's port");
        }
        let is_own_origin = |origin: &str| origin.strip_prefix("http://").is_some_and(is_own);
        if !text(header::ORIGIN).is_none_or(is_own_origin) {
            return refused("only the page itself may ask");
        }
        let site = text(header::HeaderName::from_static("sec-fetch-site"));
        if !site.is_none_or(|site| matches!(site, "same-origin" | "none")) {
            return refused("only the page itself may ask");
        }
        Ok(())
    }

    /// That the request comes from a page which this server gave out.
    pub(super) fn may_act(&self, headers: &HeaderMap) -> Result<(), Refused> {
        let said = headers.get(TOKEN).map(|value| value.as_bytes());
        match said == Some(self.token.as_bytes()) {
            true => Ok(()),
            false => Err(Refused(
                StatusCode::FORBIDDEN,
                "the token is not this page's: load the page anew",
            )),
        }
    }
}
