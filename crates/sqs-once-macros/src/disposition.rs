//! `#[derive(ErrorDisposition)]`: an error type chooses what happens to the message.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::meta::ParseNestedMeta;
use syn::{Attribute, Data, DeriveInput, Error, Fields, Ident, LitStr, Result};

/// Expands the derive. It emits the implementation even after an error, so that the compiler reports no second error where
/// the type is declared.
pub(crate) fn derive(input: TokenStream) -> TokenStream {
    let input = match syn::parse2::<DeriveInput>(input) {
        Ok(input) => input,
        Err(error) => return error.into_compile_error(),
    };
    match arms(&input) {
        Ok(arms) => {
            let dispositions = arms.iter().map(|(pattern, choice)| {
                let disposition = &choice.disposition;
                quote!(#pattern => #disposition,)
            });
            let unknown = arms.iter().map(|(pattern, choice)| {
                let is_unknown = choice.is_outcome_unknown;
                quote!(#pattern => #is_unknown,)
            });
            let disposition = quote!(match *self { #(#dispositions)* });
            let unknown = quote!(match *self { #(#unknown)* });
            implementation(&input, &disposition, &unknown)
        }
        Err(error) => {
            let error = error.into_compile_error();
            let none = quote!(::core::option::Option::None);
            let implementation = implementation(&input, &none, &quote!(false));
            quote!(#error #implementation)
        }
    }
}

fn implementation(
    input: &DeriveInput,
    disposition: &TokenStream,
    unknown: &TokenStream,
) -> TokenStream {
    let name = &input.ident;
    let mut generics = input.generics.clone();
    if generics.type_params().next().is_some() {
        // The supertrait may need bounds of the parameters.
        let (_, arguments, _) = input.generics.split_for_impl();
        generics
            .make_where_clause()
            .predicates
            .push(syn::parse_quote!(#name #arguments: ::std::error::Error + 'static));
    }
    let (parameters, arguments, bounds) = generics.split_for_impl();
    quote! {
        #[automatically_derived]
        #[allow(deprecated)]
        impl #parameters ::sqs_once::handler::ErrorDisposition for #name #arguments #bounds {
            fn disposition(&self) -> ::core::option::Option<::sqs_once::policy::Disposition> {
                #disposition
            }

            fn is_outcome_unknown(&self) -> bool {
                #unknown
            }
        }
    }
}

/// The choice of a variant, as code.
struct Choice {
    disposition: TokenStream,
    is_outcome_unknown: bool,
}

/// Returns the patterns of the type's values with their choices.
fn arms(input: &DeriveInput) -> Result<Vec<(TokenStream, Choice)>> {
    match &input.data {
        Data::Struct(data) => {
            misplaced(&data.fields, "the struct")?;
            Ok(vec![(quote!(Self { .. }), choice(&input.attrs)?)])
        }
        Data::Enum(data) => {
            if let Some(attribute) = marks(&input.attrs).next() {
                let problem = "`#[disposition(…)]` stands on the variants of an enum";
                return Err(Error::new_spanned(attribute, problem));
            }
            let arms = data.variants.iter().map(|variant| {
                misplaced(&variant.fields, "the variant")?;
                let name = &variant.ident;
                Ok((quote!(Self::#name { .. }), choice(&variant.attrs)?))
            });
            all(arms)
        }
        Data::Union(_) => Err(Error::new_spanned(
            &input.ident,
            "`ErrorDisposition` is derived for enums and structs, not for a union",
        )),
    }
}

/// Returns all values, or all errors.
fn all<T>(results: impl Iterator<Item = Result<T>>) -> Result<Vec<T>> {
    let mut values = Vec::new();
    let mut errors: Option<Error> = None;
    for result in results {
        match (result, &mut errors) {
            (Ok(value), _) => values.push(value),
            (Err(error), Some(errors)) => errors.combine(error),
            (Err(error), None) => errors = Some(error),
        }
    }
    errors.map_or(Ok(values), Err)
}

fn marks(attributes: &[Attribute]) -> impl Iterator<Item = &Attribute> {
    let is_mark = |it: &&Attribute| it.path().is_ident("disposition");
    attributes.iter().filter(is_mark)
}

fn misplaced(fields: &Fields, owner: &str) -> Result<()> {
    match fields.iter().find_map(|field| marks(&field.attrs).next()) {
        Some(mark) => Err(Error::new_spanned(
            mark,
            format!("`#[disposition(…)]` stands on {owner}, not on its field"),
        )),
        None => Ok(()),
    }
}

fn choice(attributes: &[Attribute]) -> Result<Choice> {
    let mut disposition: Option<(Ident, TokenStream)> = None;
    let mut is_outcome_unknown = false;
    for mark in marks(attributes) {
        mark.parse_nested_meta(|meta| {
            let Some(name) = meta.path.get_ident().cloned() else {
                return Err(unknown(&meta));
            };
            let policy = quote!(::sqs_once::policy::Disposition);
            let code = match &*name.to_string() {
                "outcome_unknown" => {
                    is_outcome_unknown = true;
                    return Ok(());
                }
                "retry" => quote!(#policy::Retry),
                "terminal" => quote!(#policy::Terminal),
                "retry_after" => {
                    let millis = millis(&meta.value()?.parse()?)?;
                    // Without the feature `sqs`, the compiler names it here.
                    quote_spanned!(name.span()=> ::sqs_once::__private::retry_after(#millis))
                }
                "unavailable" => {
                    let dependency: LitStr = meta.value()?.parse()?;
                    quote!(#policy::Unavailable(::std::convert::From::from(#dependency)))
                }
                _ => return Err(unknown(&meta)),
            };
            match &disposition {
                Some((other, _)) => {
                    let problem = format!("`{other}` and `{name}` exclude each other: keep one");
                    Err(Error::new(name.span(), problem))
                }
                None => {
                    disposition = Some((name, code));
                    Ok(())
                }
            }
        })?;
    }
    Ok(Choice {
        disposition: match disposition {
            Some((_, code)) => quote!(::core::option::Option::Some(#code)),
            None => quote!(::core::option::Option::None),
        },
        is_outcome_unknown,
    })
}

fn unknown(meta: &ParseNestedMeta<'_>) -> Error {
    meta.error(
        "expected `terminal`, `retry`, `retry_after = \"30s\"`, `unavailable = \"payments\"` or `outcome_unknown`",
    )
}

/// Returns the milliseconds of a time such as `30s`.
fn millis(text: &LitStr) -> Result<u64> {
    let value = text.value();
    let unit_at = value.find(|c: char| !c.is_ascii_digit());
    let (number, unit) = value.split_at(unit_at.unwrap_or(value.len()));
    let unit = match unit {
        "ms" => Some(1),
        "s" => Some(1000),
        "m" => Some(60 * 1000),
        "h" => Some(60 * 60 * 1000),
        "d" => Some(24 * 60 * 60 * 1000),
        _ => None,
    };
    let millis = unit.zip(number.parse::<u64>().ok());
    let millis = millis.and_then(|(unit, number)| number.checked_mul(unit));
    millis.ok_or_else(|| {
        Error::new(
            text.span(),
            "expected a time such as `500ms`, `30s` or `5m`",
        )
    })
}
