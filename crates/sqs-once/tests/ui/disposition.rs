//! Error types whose choice can not be derived.

use sqs_once::handler::ErrorDisposition;

#[derive(Debug, ErrorDisposition)]
enum PayError {
    #[disposition(fatal)]
    Unknown,
    #[disposition(retry_after = "soon")]
    Later,
    #[disposition(retry_after)]
    After,
    #[disposition(terminal, retry)]
    Both,
    #[disposition]
    Empty,
    Field(#[disposition(terminal)] u8),
}

#[derive(Debug, ErrorDisposition)]
#[disposition(terminal)]
enum OfAll {
    One,
}

#[derive(Debug, ErrorDisposition)]
struct OfField {
    #[disposition(terminal)]
    code: u8,
}

#[derive(ErrorDisposition)]
#[disposition(terminal)]
struct NoError;

#[derive(Debug)]
struct Plain;

macro_rules! errors {
    ($($name:ident)*) => {$(
        impl std::error::Error for $name {}

        impl std::fmt::Display for $name {
            fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                Ok(())
            }
        }
    )*};
}

errors!(PayError OfAll OfField Plain);

fn main() {
    let _ = sqs_once::Handler::defaults().errors::<Plain>();
    let _ = sqs_once::Handler::defaults().errors::<PayError>().errors::<OfAll>();
}
