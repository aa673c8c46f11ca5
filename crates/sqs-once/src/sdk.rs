//! AWS's SDKs, in the versions whose types this library takes.

/// DynamoDB's, for [`Writes`](crate::Writes) and [`DynamoDbStore`](crate::DynamoDbStore).
#[cfg(feature = "dynamodb")]
#[doc(no_inline)]
pub use aws_sdk_dynamodb as dynamodb;

/// S3's, for [`LargeMessages`](crate::body::LargeMessages).
#[cfg(feature = "s3")]
#[doc(no_inline)]
pub use aws_sdk_s3 as s3;

/// SQS's, for [`Queue`](crate::consumer::Queue) and the producer.
#[cfg(feature = "sqs")]
#[doc(no_inline)]
pub use aws_sdk_sqs as sqs;

/// Lambda's, for [`DurableFunction`](crate::executions::DurableFunction).
#[cfg(feature = "durable-functions")]
#[doc(no_inline)]
pub use aws_sdk_lambda as lambda;

/// Step Functions', for [`StateMachine`](crate::executions::StateMachine).
#[cfg(feature = "step-functions")]
#[doc(no_inline)]
pub use aws_sdk_sfn as sfn;
