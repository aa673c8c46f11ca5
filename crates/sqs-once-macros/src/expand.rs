//! Expands the attribute into the unchanged function and a companion type.

use proc_macro2::{Delimiter, Span, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::{Attribute, Error, Expr, Ident, ItemFn, LitStr, Pat, Result, Token, Type};

use crate::key::{Key, by_reference};
use crate::options::Options;
use crate::signature::{self, Kind, Signature};

/// Expands the attribute. It emits the item even after an error, so that the compiler reports no second error where the
/// function is used.
pub(crate) fn handler(
    kind: &'static Kind,
    attribute: TokenStream,
    item: TokenStream,
) -> TokenStream {
    let companion = match signature::function(kind, item.clone()) {
        Ok(function) => companion(kind, attribute, &function),
        Err(error) => error.into_compile_error(),
    };
    quote!(#item #companion)
}

fn companion(kind: &'static Kind, attribute: TokenStream, function: &ItemFn) -> TokenStream {
    let signature = Signature::of(kind, function);
    let options = Options::of(&function.sig.ident, attribute);
    let state = signature.as_ref().ok().and_then(Signature::state).cloned();
    let (signature, mut options) = match both(signature, options) {
        Ok(both) => both,
        Err(error) => return with_stub(kind, function, state.as_ref(), &error),
    };
    let state = options.state.clone().or(state);
    let extractors = extractors(&mut options, &signature);
    let ((key, fingerprint), namespace) = match both(extractors, namespace(&options, function)) {
        Ok(both) => both,
        Err(error) => return with_stub(kind, function, state.as_ref(), &error),
    };
    let checks = checks(function, &signature, state.as_ref());
    let extractors = (&key, fingerprint.as_ref());
    let body = body(
        function,
        &signature,
        &options,
        extractors,
        namespace,
        state.as_ref(),
    );
    let companion = companion_type(kind, function, state.as_ref(), &body);
    quote!(#checks #companion)
}

/// Returns both values, or the errors of both.
fn both<A, B>(one: Result<A>, other: Result<B>) -> Result<(A, B)> {
    match (one, other) {
        (Ok(one), Ok(other)) => Ok((one, other)),
        (Err(error), Ok(_)) | (Ok(_), Err(error)) => Err(error),
        (Err(mut error), Err(other)) => {
            error.combine(other);
            Err(error)
        }
    }
}

/// Returns the namespace, which has no default: one that depends on names in the code would change with them, and the
/// consumer would forget every key.
fn namespace<'a>(options: &'a Options, function: &ItemFn) -> Result<&'a LitStr> {
    options.namespace.as_ref().ok_or_else(|| {
        let package = std::env::var("CARGO_PKG_NAME").unwrap_or_default();
        // The binaries of a package often have functions with one name.
        let binary = std::env::var("CARGO_BIN_NAME").ok();
        let binary = binary.filter(|binary| *binary != package);
        let binary = binary
            .map(|binary| format!("/{binary}"))
            .unwrap_or_default();
        let name = function.sig.ident.unraw();
        let problem = format!(
            "a handler needs a namespace, which separates its keys from others in the table: \
             `namespace = \"{package}{binary}.{name}\"`, or another name that no other handler has"
        );
        Error::new(Span::call_site(), problem)
    })
}

fn extractors(options: &mut Options, signature: &Signature) -> Result<(Key, Option<Key>)> {
    let key = Key::of(options.key.take(), signature)?;
    let fingerprint = options.fingerprint.take();
    let fingerprint = fingerprint.map(|part| Key::read("fingerprint", part, signature));
    Ok((key, fingerprint.transpose()?))
}

/// Creates the error and a stub of the companion, so that code that uses the companion still compiles.
fn with_stub(kind: &Kind, function: &ItemFn, state: Option<&Type>, error: &Error) -> TokenStream {
    let error = error.to_compile_error();
    if function.sig.receiver().is_some() {
        // An `impl` block cannot contain a type.
        return error;
    }
    let body = quote!(::core::unimplemented!());
    let stub = companion_type(kind, function, state, &body);
    quote!(#error #stub)
}

/// `state` is the type of the handler's state, if it has one.
fn companion_type(
    kind: &Kind,
    function: &ItemFn,
    state: Option<&Type>,
    body: &TokenStream,
) -> TokenStream {
    let (name, visibility) = (&function.sig.ident, &function.vis);
    let kept = kept(&function.attrs);
    let handler = match kind.is_batch {
        false => quote!(::sqs_once::Handler),
        true => quote!(::sqs_once::BatchHandler),
    };
    let argument = state.map(|state| quote!(state: #state));
    let value = state.map(|_| quote!(state));
    let type_docs = format!("The handler [`{name}()`].");
    let handler_docs = format!("Returns the handler that calls [`{name}()`].");
    let docs = format!("Returns a consumer that runs [`{name}()`].");
    quote! {
        #(#kept)*
        #[doc = #type_docs]
        #[allow(non_camel_case_types)]
        #visibility enum #name {}

        #(#kept)*
        impl #name {
            #[doc = #handler_docs]
            #visibility fn handler(#argument) -> #handler {
                // Uses the other function, so that the compiler warns only of a handler of which neither is used.
                let _: fn(#state) -> ::sqs_once::Consumer = Self::consumer;
                #body
            }

            #[doc = #docs]
            #visibility fn consumer(#argument) -> ::sqs_once::Consumer {
                ::sqs_once::Consumer::new(Self::handler(#value))
            }
        }
    }
}

/// Returns the function's attributes that its companion needs too. The companion is compiled under the same conditions
/// and names the same types.
fn kept(attributes: &[Attribute]) -> Vec<&Attribute> {
    let kept = |it: &&Attribute| it.path().is_ident("cfg") || it.path().is_ident("allow");
    attributes.iter().filter(kept).collect()
}

/// Checks each type separately, since the `Handler` trait could only report that the whole function does not fit. The
/// call of `consumer` checks the payload.
fn checks(function: &ItemFn, signature: &Signature, state: Option<&Type>) -> TokenStream {
    let kept = kept(&function.attrs);
    let state = state.map_or_else(|| quote!(()), ToTokens::to_token_stream);
    let check = |ty: &Type, bound: &TokenStream| {
        quote! {{
            const fn check<SqsOnceChecked: #bound>() {}
            check::<#ty>();
        }}
    };
    let (is_extractor, is_outcome) = match signature.kind.is_batch {
        false => (quote!(FromRecord), quote!(IntoOutcome)),
        true => (quote!(FromBatch), quote!(IntoBatchOutcome)),
    };
    let is_extractor = quote!(::sqs_once::extract::#is_extractor<#state>);
    let is_outcome = quote!(::sqs_once::handler::#is_outcome);
    let extractors = signature.extractors.iter();
    let extractors = extractors.map(|argument| check(&argument.ty, &is_extractor));
    // `impl …` can only be named in the function's own signature.
    let output = signature.output.iter();
    let output = output.filter(|output| !matches!(output, Type::ImplTrait(_)));
    let output = output.map(|output| check(output, &is_outcome));
    let future = future_check(&function.sig.ident, signature);
    quote! {
        #(#kept)*
        const _: () = {
            #(#extractors)*
            #(#output)*
            #future
        };
    }
}

/// Makes the compiler report why the handler's future is not `Send`.
fn future_check(name: &Ident, signature: &Signature) -> TokenStream {
    let payload = &signature.payload.argument;
    let arguments = std::iter::once(payload).chain(&signature.extractors);
    let types: Vec<_> = arguments.map(|argument| &argument.ty).collect();
    let arguments = (0..types.len()).map(|at| format_ident!("argument{at}"));
    let arguments: Vec<_> = arguments.collect();
    let future = quote_spanned!(name.span()=> &#name(#(#arguments),*));
    quote! {
        const fn a_handlers_future_is_send<SqsOnceChecked: ::core::marker::Send>(_: &SqsOnceChecked) {}
        let _ = |#(#arguments: #types),*| a_handlers_future_is_send(#future);
    }
}

fn body(
    function: &ItemFn,
    signature: &Signature,
    options: &Options,
    (key, fingerprint): (&Key, Option<&Key>),
    namespace: &LitStr,
    state: Option<&Type>,
) -> TokenStream {
    let name = &function.sig.ident;
    let payload = &signature.payload.ty;
    let mut key_types = Vec::new();
    let key = key_extractor(payload, key, &mut key_types);
    let start = options.start(payload);
    let keyed = quote!(#start.key(#key));
    let (fingerprint_fn, keyed) = match fingerprint {
        None if options.compares_nothing => (None, quote!(#keyed.without_fingerprint())),
        None => (None, keyed),
        Some(Key::OfPayload(pattern, part)) => {
            let with = quote!(::sqs_once::__private::fingerprint_with);
            let keyed = quote!(#with(#keyed, sqs_once_fingerprint));
            (Some(payload_fingerprint(payload, pattern, part)), keyed)
        }
        Some(function) => {
            let function = key_extractor(payload, function, &mut key_types);
            (None, quote!(#keyed.fingerprint(#function)))
        }
    };
    let settings = &options.settings;
    let handler = match signature.kind.is_batch {
        false => quote!(handler),
        true => quote!(batch_handler),
    };
    let (state, state_type) = match state {
        None => (quote!(()), quote!(())),
        Some(state) => (quote!(state), state.to_token_stream()),
    };
    let (call, check) = match &options.mode {
        None => (name.to_token_stream(), None),
        Some(mode) => {
            let call = quote_spanned!(mode.span()=> ::sqs_once::handler::#mode(#name));
            (call, Some(mode_check(signature, mode, &state_type, name)))
        }
    };
    // An error about the whole handler underlines the function's name.
    let inferred = Token![_](name.span());
    let handler = quote! {
        ::sqs_once::__private::#handler::<_, #inferred, _, _, _>(#keyed, #state, #namespace, #call) #(#settings)*
    };
    let handler = match &signature.output {
        // `impl …` can only be named in the function's own signature.
        Some(output) if !matches!(output, Type::ImplTrait(_)) => quote! {{
            use ::sqs_once::__private::{DeclaresError as _, DeclaresNothing as _};
            (&::sqs_once::__private::Returned::<#output>(::core::marker::PhantomData)).declare(#handler)
        }},
        _ => handler,
    };
    quote! {
        #(#key_types)*
        #fingerprint_fn
        #check
        #handler
    }
}

/// An assertion that the handler's effect can have the mode, for `cargo check` too: the compiler calculates constants.
fn mode_check(
    signature: &Signature,
    mode: &Ident,
    state: &TokenStream,
    name: &Ident,
) -> TokenStream {
    let payload = &signature.payload.ty;
    let mode_of = match signature.kind.is_batch {
        false => quote!(mode_of),
        true => quote!(mode_of_batch),
    };
    let (can, problem) = match mode == "RecordAfter" {
        true => (
            quote!(can_record_after),
            "`record_after` is not for this handler: its effect commits with the completion of its key, so leave `mode` out",
        ),
        false => (
            quote!(can_claim_first),
            "`claim_first` is only for handlers that return `Writes`: the key of this one is claimed first already, so leave \
             `mode` out",
        ),
    };
    quote_spanned! {mode.span()=>
        const _: () = ::core::assert!(
            ::sqs_once::__private::#mode_of::<#state, _, _, #payload>(&#name).#can(),
            #problem
        );
    }
}

/// Returns the value of a key extractor, and adds the types that it needs.
fn key_extractor(payload: &Type, key: &Key, types: &mut Vec<TokenStream>) -> TokenStream {
    match key {
        Key::Extractor(value) => value.to_token_stream(),
        Key::OfPayload(pattern, expr) => {
            let name = format_ident!("SqsOncePayloadKey{}", types.len());
            types.push(payload_key(&name, payload, pattern, expr));
            name.into_token_stream()
        }
        Key::Tuple(parts) => {
            let parts = parts.iter().map(|part| key_extractor(payload, part, types));
            let parts: Vec<_> = parts.collect();
            quote!((#(#parts,)*))
        }
    }
}

/// Creates a key extractor type that computes `expr`, in one place. It is a type and not a closure, so that it returns
/// the key's error type. Its name does not clash with names in `expr`.
fn payload_key(name: &Ident, payload: &Type, pattern: &Pat, expr: &Expr) -> TokenStream {
    let key = by_reference(expr);
    quote! {
        struct #name;

        impl ::sqs_once::key::KeyExtractor<#payload> for #name {
            #[allow(unused_variables)]
            fn key(
                &self,
                #pattern: &#payload,
                _: &::sqs_once::extract::Message,
            ) -> ::core::result::Result<::sqs_once::BusinessKey, ::sqs_once::key::KeyError> {
                ::sqs_once::BusinessKey::new(#key)
            }
        }
    }
}

/// Returns the words of an expression. Their spacing as text depends on the compiler.
fn words(tokens: TokenStream) -> Vec<String> {
    let each = tokens.into_iter().flat_map(|token| match token {
        TokenTree::Group(group) => {
            let (open, close) = match group.delimiter() {
                Delimiter::Parenthesis => ("(", ")"),
                Delimiter::Brace => ("{", "}"),
                Delimiter::Bracket => ("[", "]"),
                Delimiter::None => ("", ""),
            };
            let mut inside = words(group.stream());
            inside.insert(0, open.to_owned());
            inside.push(close.to_owned());
            inside
        }
        word => vec![word.to_string()],
    });
    each.filter(|word| !word.is_empty()).collect()
}

/// Creates a function that returns the fingerprint of `part`, which may borrow from the payload.
fn payload_fingerprint(payload: &Type, pattern: &Pat, part: &Expr) -> TokenStream {
    let expression = words(part.to_token_stream()).join(" ");
    let part = by_reference(part);
    quote! {
        #[allow(unused_variables, clippy::trivially_copy_pass_by_ref)]
        fn sqs_once_fingerprint(
            #pattern: &#payload,
        ) -> ::core::result::Result<::sqs_once::key::Fingerprint, ::sqs_once::key::KeyError> {
            ::sqs_once::__private::fingerprint(#expression, #part)
        }
    }
}
