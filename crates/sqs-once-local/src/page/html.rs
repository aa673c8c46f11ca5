//! Builds the page as a single HTML file: live, or as a report that contains all data.

use super::view::Whole;
use serde_json::{Value, json};
use uuid::Uuid;

const PAGE: &str = include_str!("web/page.html");
const STYLE: &str = include_str!("web/page.css");
/// One script in six files. The last one starts it.
const SCRIPT: &str = concat!(
    include_str!("web/words.js"),
    include_str!("web/board.js"),
    include_str!("web/timeline.js"),
    include_str!("web/faults.js"),
    include_str!("web/source.js"),
    include_str!("web/main.js"),
);

/// The page that requests data from this server, and its policy. With `token`, it may perform actions.
pub(super) fn live(token: &str, can_act: bool) -> (String, String) {
    let data = json!({"live": {"token": token, "can_act": can_act}});
    page(&data, "'self'")
}

/// The page that contains all data and makes no requests.
pub(super) fn report(whole: &Whole) -> String {
    page(&json!({ "report": whole }), "'none'").0
}

/// `connect` is the policy's `connect-src`.
fn page(data: &Value, connect: &str) -> (String, String) {
    // Random, so that an attacker can't put it into a message body or a log line.
    let nonce = Uuid::new_v4().simple().to_string();
    let policy = format!(
        "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; img-src data:; \
         connect-src {connect}; base-uri 'none'; form-action 'none'"
    );
    // In a script element, only a `<` could end the data.
    let data = data.to_string().replace('<', "\\u003c");
    // Insert the data last, so that placeholders in it are not replaced.
    let text = PAGE
        .replace("{{policy}}", &policy)
        .replace("{{nonce}}", &nonce)
        .replace("{{style}}", STYLE)
        .replace("{{script}}", SCRIPT)
        .replace("{{data}}", &data);
    (text, policy)
}
