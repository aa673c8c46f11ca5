//! A side-by-side benchmark: `sqs-once`, its peers, and the minimal cost of the same requests.
//!
//! `cargo run --release -p sqs-once-bench` measures; `-- --instructions` counts instructions; `-- --help` lists the other
//! options. `.ci/long benchmark` records a measurement, and shows it in `verification/performance.md`.
//!
//! | module | contents |
//! |---|---|
//! | [`contract`] | the behaviour that all contenders share: the payload, the work, the environment |
//! | [`machine`] | CPU and memory of threads and processes |
//! | `http` | the server side of HTTP/1.1 |
//! | [`table`] | the stand-in for DynamoDB |
//! | `runtime_api` | the Lambda Runtime API that drives a contender |
//! | [`contender`] | the contenders, and how each is built or installed |
//! | [`process`] | the process of a contender |
//! | [`shape`] | the measured batches |
//! | [`measure`] | the measurement |
//! | [`units`] | the request units of each kind of message |
//! | [`report`] | the results: Markdown, JSON |
//! | [`instructions`] | the instructions of a record and of a cold start |

pub mod contender;
pub mod contract;
mod http;
pub mod instructions;
pub mod machine;
pub mod measure;
pub mod process;
pub mod report;
mod runtime_api;
pub mod shape;
pub mod table;
mod tables;
pub mod units;
