//! The page's one HTML file: live, or with everything in it.

use super::view::Whole;
use serde::Serialize;
use serde_json::json;
use uuid::Uuid;

const PAGE: &str = include_str!("web/page.html");
const STYLE: &str = include_str!("web/page.css");
/// One script in five files, the last of which starts it.
const SCRIPT: &str = concat!(
    include_str!("web/words.js"),
    include_str!("web/board.js"),
    include_str!("web/timeline.js"),
    include_str!("web/source.js"),
    include_str!("web/main.js"),
);

/// A page, and the content security policy that fits it.
pub(super) struct Html {
    pub(super) text: String,
    pub(super) policy: String,
}

/// The page that asks this server, and may act if it says `token`.
pub(super) fn live(token: &str, can_act: bool) -> Html {
    let data = json!({"live": {"token": token, "can_act": can_act}});
    page(&data, "'self'")
}

/// The page that has everything in it and asks nobody.
pub(super) fn report(whole: &Whole) -> String {
    page(&json!({ "report": whole }), "'none'").text
}

/// `connect` is whom the page may ask.
fn page(data: &impl Serialize, connect: &str) -> Html {
    // Nobody who wrote a message or a log line could know it.
    let nonce = Uuid::new_v4().simple().to_string();
    let policy = format!(
        "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; img-src data:; \
         connect-src {connect}; base-uri 'none'; form-action 'none'"
    );
    let data = serde_json::to_string(data).unwrap_or_default();
    // In a script element only a `<` could end the data.
    let data = data.replace('<', "\\u003c");
    // The data comes last: what stands in it is not looked at again.
    let text = PAGE
        .replace("{{policy}}", &policy)
        .replace("{{nonce}}", &nonce)
        .replace("{{style}}", STYLE)
        .replace("{{script}}", SCRIPT)
        .replace("{{data}}", &data);
    Html { text, policy }
}
