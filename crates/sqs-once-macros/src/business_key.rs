//! `#[derive(BusinessKey)]`: uses a payload as its own key, by its `#[key]` fields.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Attribute, Data, DeriveInput, Error, Field, Fields, Member, Meta, Result, parse_quote};

/// Expands the derive. It emits the implementation even after an error, so that the compiler reports no second error
/// where the payload is used as a key.
pub(crate) fn derive(input: TokenStream) -> TokenStream {
    let input = match syn::parse2::<DeriveInput>(input) {
        Ok(input) => input,
        Err(error) => return error.into_compile_error(),
    };
    match key_fields(&input) {
        Ok(fields) => {
            let body = fields.iter().map(|(member, field)| {
                // The type's own span, so that the compiler underlines a type that cannot be a key.
                quote_spanned! {field.ty.span()=>
                    ::sqs_once::key::KeyPart::write(&self.#member, key)?;
                }
            });
            let types = fields.iter().map(|(_, field)| *field);
            let body = quote!(#(#body)* ::core::result::Result::Ok(()));
            implementation(&input, types, &body)
        }
        Err(error) => {
            let error = error.into_compile_error();
            let stub = quote!(::core::unimplemented!());
            let implementation = implementation(&input, [], &stub);
            quote!(#error #implementation)
        }
    }
}

fn implementation<'a>(
    input: &DeriveInput,
    fields: impl IntoIterator<Item = &'a Field>,
    body: &TokenStream,
) -> TokenStream {
    let name = &input.ident;
    let mut generics = input.generics.clone();
    if generics.type_params().next().is_some() {
        let bounds = generics.make_where_clause();
        for field in fields {
            let ty = &field.ty;
            bounds
                .predicates
                .push(parse_quote!(#ty: ::sqs_once::key::KeyPart));
        }
    }
    let (parameters, arguments, bounds) = generics.split_for_impl();
    quote! {
        #[automatically_derived]
        impl #parameters ::sqs_once::key::KeyPart for #name #arguments #bounds {
            fn write(
                &self,
                key: &mut ::sqs_once::key::KeyWriter,
            ) -> ::core::result::Result<(), ::sqs_once::key::KeyError> {
                #body
            }
        }
    }
}

/// Returns the fields marked `#[key]`, in declaration order.
fn key_fields(input: &DeriveInput) -> Result<Vec<(Member, &Field)>> {
    let name = &input.ident;
    let kind = match &input.data {
        Data::Struct(data) => return marked(input, &data.fields),
        Data::Enum(_) => "an enum",
        Data::Union(_) => "a union",
    };
    let problem = format!(
        "`BusinessKey` is derived for structs, not for {kind}: write a function from `&{name}` to the \
         key, and name it with `key = …`"
    );
    Err(Error::new_spanned(name, problem))
}

fn marked<'a>(input: &DeriveInput, fields: &'a Fields) -> Result<Vec<(Member, &'a Field)>> {
    let mut marked = Vec::new();
    for (member, field) in fields.members().zip(fields) {
        let marks = field.attrs.iter();
        let mut marks = marks.filter(|mark| mark.path().is_ident("key"));
        if let Some(mark) = marks.next() {
            plain(mark)?;
            marked.push((member, field));
        }
        if let Some(again) = marks.next() {
            let problem = "this field is marked `#[key]` twice: keep one of them";
            return Err(Error::new_spanned(again, problem));
        }
    }
    if marked.is_empty() {
        let example = match fields.iter().next().and_then(|field| field.ident.as_ref()) {
            Some(field) => format!("`#[key] {field}: …`"),
            None => "`#[key] order_id: String`".to_owned(),
        };
        let problem = format!(
            "no field is marked as the business key: mark the fields that identify the \
             event, such as {example}"
        );
        return Err(Error::new_spanned(&input.ident, problem));
    }
    Ok(marked)
}

fn plain(mark: &Attribute) -> Result<()> {
    match &mark.meta {
        Meta::Path(_) => Ok(()),
        _ => Err(Error::new_spanned(
            mark,
            "`#[key]` takes no value: the field itself is the key, or a part of it",
        )),
    }
}
