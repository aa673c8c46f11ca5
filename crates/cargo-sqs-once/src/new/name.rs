//! Checks a project's name, which becomes a cargo package and the prefix of AWS names.

/// A queue's name has the lowest limit of all AWS names: 80 with `.fifo`. 60 leaves room for a stage.
const LONGEST: usize = 60;

/// Names that cargo or Windows refuses as a package, a binary or a folder. Also the name that cargo-lambda gives to every
/// binary, and the names of the project's dependencies.
const TAKEN: &str = "
    alloc aux aws-lambda-events bootstrap build com1 com2 com3 com4 com5 com6 com7 com8 com9 con core deps examples
    incremental lambda-runtime lpt1 lpt2 lpt3 lpt4 lpt5 lpt6 lpt7 lpt8 lpt9 nul prn proc-macro serde serde-json sqs-once
    sqs-once-macros sqs-once-postgres std test thiserror tokio tokio-postgres tower-service tracing
";

/// Words that can't name a crate.
const KEYWORDS: &str = "
    abstract as async await become box break const continue crate do dyn else enum extern false final fn for gen if impl
    in let loop macro match mod move mut override priv pub ref return self static struct super trait true try type typeof
    unsafe unsized use virtual where while yield
";

pub(super) fn parse(name: &str) -> Result<String, String> {
    let is_among = |words: &str| words.split_whitespace().any(|word| word == name);
    let is_usual = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_part = |part: &str| !part.is_empty() && part.bytes().all(is_usual);
    let starts_with_letter = name.starts_with(|first: char| first.is_ascii_lowercase());
    if !starts_with_letter || !name.split('-').all(is_part) {
        return Err("expected lower-case letters and digits, with single hyphens between them and a letter first, such \
                    as `order-payments`: it names a package, a stack and queues"
            .to_owned());
    }
    if name.len() < 2 || name.len() > LONGEST {
        return Err(format!("expected 2 to {LONGEST} characters"));
    }
    if is_among(KEYWORDS) {
        return Err("it is a keyword of Rust; expected another name".to_owned());
    }
    if is_among(TAKEN) {
        let taken =
            "cargo or one of the project's dependencies uses this name; expected another one";
        return Err(taken.to_owned());
    }
    Ok(name.to_owned())
}
