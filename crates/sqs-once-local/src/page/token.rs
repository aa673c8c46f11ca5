//! What a request that changes something must show: that it comes from a page which this server gave out.

use axum::http::HeaderMap;
use uuid::Uuid;

/// The header in which the page says its token. A site elsewhere can't send it without being allowed to.
const TOKEN: &str = "x-sqs-once-token";

/// A text that nobody can guess.
pub(super) struct Token(String);

impl Token {
    pub(super) fn new() -> Self {
        Self(Uuid::new_v4().simple().to_string())
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether a request shows it.
    pub(super) fn is_in(&self, headers: &HeaderMap) -> bool {
        let said = headers.get(TOKEN).map(|value| value.as_bytes());
        said == Some(self.0.as_bytes())
    }
}
