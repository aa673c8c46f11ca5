//! Values of options, checked as far as their syntax allows.

use proc_macro2::Span;
use quote::ToTokens;
use syn::{Error, Expr, ExprLit, Ident, Lit, LitStr, Result};

use crate::spelling::nearest;

/// The values of `mode` and their variants of `Mode`.
const MODES: [(&str, &str); 3] = [
    ("claim_first", "ClaimFirst"),
    ("record_after", "RecordAfter"),
    ("transactional", "Transactional"),
];

const MAX_NAMESPACE_LEN: usize = 255;

pub(super) fn namespace(value: &Expr) -> Result<LitStr> {
    let Some(text) = string(value) else {
        return Err(Error::new_spanned(
            value,
            "`namespace` is a string literal: `namespace = \"payments\"`",
        ));
    };
    let name = text.value();
    let problem = if name.trim().is_empty() {
        "`namespace` is empty: name the consumer, such as \"payments\", or leave the option out"
            .to_owned()
    } else if name.contains('#') {
        format!(
            "`namespace` can't hold a `#`, which ends it in the table: \"{}\"",
            name.replace('#', "-")
        )
    } else if name.len() > MAX_NAMESPACE_LEN {
        format!(
            "`namespace` has {} bytes: at most {MAX_NAMESPACE_LEN} are allowed",
            name.len()
        )
    } else {
        return Ok(text.clone());
    };
    Err(Error::new_spanned(value, problem))
}

/// Rejects a literal where code is required. The message shows `example`.
pub(super) fn code(name: &str, value: &Expr, example: &str) -> Result<()> {
    if literal(value).is_none() {
        return Ok(());
    }
    Err(Error::new_spanned(
        value,
        format!(
            "`{name}` names a value or a function of your code, without quotes: `{name} = {example}`"
        ),
    ))
}

/// The variant of `Mode`.
pub(super) fn mode(value: &Expr) -> Result<Ident> {
    let quoted = string(value).map(LitStr::value);
    let is_quoted = quoted.is_some();
    let written = quoted.unwrap_or_else(|| value.to_token_stream().to_string());
    let chosen = MODES.iter().find(|(word, _)| *word == written);
    let problem = match chosen {
        Some((_, variant)) if !is_quoted => return Ok(Ident::new(variant, Span::call_site())),
        Some(_) => format!("write `mode = {written}`, without quotes"),
        None => match nearest(&written, MODES.map(|(word, _)| word)) {
            Some(meant) => format!("unknown mode: did you mean `{meant}`?"),
            None => format!(
                "unknown mode: the modes are `{}`",
                MODES.map(|(word, _)| word).join("`, `")
            ),
        },
    };
    Err(Error::new_spanned(value, problem))
}

fn literal(value: &Expr) -> Option<&Lit> {
    match value {
        // A macro's `$value:expr` arrives in an invisible group.
        Expr::Group(group) => literal(&group.expr),
        Expr::Lit(ExprLit { lit, .. }) => Some(lit),
        _ => None,
    }
}

fn string(value: &Expr) -> Option<&LitStr> {
    match literal(value) {
        Some(Lit::Str(text)) => Some(text),
        _ => None,
    }
}
