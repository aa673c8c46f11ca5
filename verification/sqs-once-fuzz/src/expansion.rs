//! Expands the macros with arbitrary tokens.

use proc_macro2::{TokenStream, TokenTree};
use syn::visit_mut::VisitMut;

use crate::implementation::{business_key, disposition, expand};
use crate::signature::{BATCH_HANDLER, HANDLER};

/// Deeper than hand-written code. The parser's recursion at this depth fits a thread's stack.
const DEEPEST: usize = 64;

/// Checks the promises of the macros. The first line is `handler`, `batch_handler` or `derive`; options of the
/// attribute follow the first two. The rest is the item with the attribute.
///
/// - The expansion contains the handler's function unchanged. A consumer, a compile error, or both follow it.
/// - Each derive expands to an implementation or a compile error.
/// - Every expansion is valid Rust.
///
/// # Panics
/// If a macro breaks a promise.
pub fn macros(bytes: &[u8]) {
    let Some((line, item)) = std::str::from_utf8(bytes)
        .ok()
        .and_then(|text| text.split_once('\n'))
    else {
        return;
    };
    let (name, options) = line.split_once(' ').unwrap_or((line, ""));
    let Some((options, item)) = tokens(options).zip(tokens(item)) else {
        return;
    };
    match name {
        "handler" => check(item.clone(), expand::handler(HANDLER, options, item)),
        "batch_handler" => check(item.clone(), expand::handler(BATCH_HANDLER, options, item)),
        "derive" => {
            check_derive(business_key::derive(item.clone()));
            check_derive(disposition::derive(item));
        }
        _ => {}
    }
}

fn tokens(text: &str) -> Option<TokenStream> {
    // These characters may open a level of the parser's recursion: groups, types, references, closures, operators,
    // values.
    let levels = text.bytes().filter(|byte| b"([{<&|!-*=".contains(byte));
    if levels.count() > DEEPEST {
        return None;
    }
    text.parse().ok()
}

fn check(item: TokenStream, expanded: TokenStream) {
    let companion = behind(&item, expanded);
    let text = companion.to_string();
    let is_error = text.contains("compile_error");
    match syn::parse2::<syn::File>(companion) {
        Ok(companion) => assert!(
            is_error || companion.items.len() == 3,
            "no consumer: {text}"
        ),
        Err(error) => assert!(takes_a_trait(&item), "{error} in {text}"),
    }
    if syn::parse2::<syn::ItemFn>(item).is_err() {
        assert!(is_error, "no function, and no error: {text}");
    }
}

/// Whether an argument has a bare `Trait + Trait` in its type. Such a type is not a valid payload, because a reference
/// to it needs parentheses.
fn takes_a_trait(item: &TokenStream) -> bool {
    struct Traits(bool);

    impl VisitMut for Traits {
        fn visit_type_trait_object_mut(&mut self, _: &mut syn::TypeTraitObject) {
            self.0 = true;
        }
    }

    let mut traits = Traits(false);
    if let Ok(mut function) = syn::parse2::<syn::ItemFn>(item.clone()) {
        traits.visit_signature_mut(&mut function.sig);
    }
    traits.0
}

/// The part of the expansion after the original item.
fn behind(item: &TokenStream, expanded: TokenStream) -> TokenStream {
    let mut expanded = expanded.into_iter();
    for token in item.clone() {
        let is_same = |other: TokenTree| other.to_string() == token.to_string();
        let same = expanded.next().is_some_and(is_same);
        assert!(
            same,
            "the function did not come out as it went in at {token}"
        );
    }
    expanded.collect()
}

fn check_derive(expanded: TokenStream) {
    let text = expanded.to_string();
    let file = syn::parse2::<syn::File>(expanded);
    let file = file.unwrap_or_else(|error| panic!("{error} in {text}"));
    let is_impl = |item: &syn::Item| matches!(item, syn::Item::Impl(_));
    let is_error = text.contains("compile_error");
    assert!(is_error || file.items.iter().all(is_impl), "{text}");
}

#[cfg(test)]
mod tests {
    use quote::quote;

    use super::*;
    use crate::finds;

    #[test]
    fn every_broken_promise_is_found() {
        let function = |name: &str| -> TokenStream {
            let name = quote::format_ident!("{name}");
            quote!(async fn #name() {})
        };
        finds("did not come out as it went in", || {
            check(function("charge"), function("charged"));
        });
        finds("no consumer", || {
            check(function("charge"), function("charge"));
        });
        finds("expected", || check_derive(quote!(impl KeyPart for {})));
    }
}
