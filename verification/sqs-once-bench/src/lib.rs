//! A side-by-side benchmark: `sqs-once`, its peers, and the least that the same requests cost.
//!
//! `cargo run --release -p sqs-once-bench` measures; `-- --docs` writes `docs/performance.md` as well;
//! `-- --instructions` counts instructions; `-- --help` has the rest.
//!
//! | module | what it is |
//! |---|---|
//! | [`contract`] | what every contender does: the payload, the work, the environment |
//! | [`machine`] | CPU and memory of threads and processes |
//! | [`http`] | the server side of HTTP/1.1 |
//! | [`table`] | the stand-in for DynamoDB |
//! | [`runtime_api`] | the Lambda Runtime API that drives a contender |
//! | [`contender`] | the contenders, and how each is built or installed |
//! | [`process`] | a contender's process |
//! | [`shape`] | the batches that are measured |
//! | [`measure`] | the measurement |
//! | [`units`] | what a record consumes, by what becomes of it |
//! | [`report`] | its results: table, JSON, plot, page |
//! | [`instructions`] | what a record and a cold start cost in instructions |

pub mod contender;
pub mod contract;
pub mod http;
pub mod instructions;
pub mod machine;
pub mod measure;
pub mod process;
pub mod report;
pub mod runtime_api;
pub mod shape;
pub mod table;
pub mod units;
