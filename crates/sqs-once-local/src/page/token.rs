//! The token by which the server recognises requests from its own page.

use axum::http::HeaderMap;
use uuid::Uuid;

/// The header for the token. A page of another site can't send it without permission.
const TOKEN: &str = "x-sqs-once-token";

/// A random token that can't be guessed.
pub(super) struct Token(String);

impl Token {
    pub(super) fn new() -> Self {
        Self(Uuid::new_v4().simple().to_string())
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether a request contains the token.
    pub(super) fn is_in(&self, headers: &HeaderMap) -> bool {
        let said = headers.get(TOKEN).map(|value| value.as_bytes());
        said == Some(self.0.as_bytes())
    }
}
