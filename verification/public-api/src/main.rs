//! Lists the public API of a crate, one item per line, from rustdoc's JSON: `public-api-listing FILE`.
//!
//! `python3 .ci/public_api.py` creates the JSON and compares the listings with those in `listings`.

#![allow(clippy::print_stdout, reason = "the listing is the output")]

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let file = std::env::args_os()
        .nth(1)
        .ok_or("expected the path of rustdoc's JSON")?;
    let api = public_api::Builder::from_rustdoc_json(file)
        .sorted(true)
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .omit_auto_derived_impls(true)
        .include_function_parameter_names(true)
        .build()?;
    for item in api.items() {
        println!("{item}");
    }
    Ok(())
}
