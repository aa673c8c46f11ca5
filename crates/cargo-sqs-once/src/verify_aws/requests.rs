//! Signed requests to the services whose SDKs are not in this workspace: Lambda, IAM, CloudWatch and its logs.

use super::error::VerifyError;
use super::wait::Waits;
use aws_credential_types::Credentials;
use aws_credential_types::provider::ProvideCredentials;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4::SigningParams;
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::http::header::{CONTENT_TYPE, HOST};
use hyper::{Method, Request, StatusCode};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use sqs_once_operate::SdkConfig;
use std::error::Error;
use std::time::{Duration, SystemTime};
use tokio::time::timeout;

const ATTEMPTS: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// Uploading the function takes longest.
const ATTEMPT_LIMIT: Duration = Duration::from_secs(120);

const JSON: &str = "application/x-amz-json-1.1";
const FORM: &str = "application/x-www-form-urlencoded";

/// One request, and the permission that it needs.
struct Call<'a> {
    /// Such as `lambda:CreateFunction`.
    action: &'a str,
    method: Method,
    /// The path with its query.
    path: &'a str,
    headers: [(&'static str, String); 2],
    body: Vec<u8>,
}

/// AWS's answer to a request that it carried out.
pub(super) struct Answer {
    pub(super) text: String,
    /// The end of the invocation's log, in Base64.
    pub(super) log: Option<String>,
}

impl Answer {
    /// The body, or null if it is not JSON.
    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_default()
    }

    /// The contents of all XML elements with this name, in order. No element that this command reads has attributes.
    pub(super) fn elements(&self, name: &str) -> Vec<&str> {
        let (open, close) = (format!("<{name}>"), format!("</{name}>"));
        let after = self.text.split(&open).skip(1);
        let contents = after.filter_map(|text| Some(text.split_once(&close)?.0.trim()));
        contents.collect()
    }
}

pub(super) struct Requests {
    config: SdkConfig,
    region: String,
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
}

impl Requests {
    pub(super) fn new(config: &SdkConfig) -> Result<Self, VerifyError> {
        let region = config.region().map(ToString::to_string);
        let region = region.unwrap_or_default();
        let others = ["cn-", "us-gov-", "us-iso", "eu-isoe-", "eusc-"];
        if others.iter().any(|other| region.starts_with(other)) {
            return Err(VerifyError::OtherPartition { region });
        }
        let provider = rustls::crypto::ring::default_provider();
        let https = hyper_rustls::HttpsConnectorBuilder::new()
            .with_provider_and_native_roots(provider)
            .map_err(|error| unanswered("with TLS", error))?
            .https_or_http()
            .enable_http1()
            .build();
        Ok(Self {
            config: config.clone(),
            region,
            client: Client::builder(TokioExecutor::new()).build(https),
        })
    }

    /// A request to Lambda.
    pub(super) async fn lambda(
        &self,
        waits: &Waits<'_>,
        action: &str,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Answer, VerifyError> {
        let body = body.map(Value::to_string).unwrap_or_default();
        let log = ("x-amz-log-type", "Tail".to_owned());
        let call = Call {
            action,
            method,
            path,
            headers: [(CONTENT_TYPE.as_str(), "application/json".to_owned()), log],
            body: body.into_bytes(),
        };
        self.send(waits, &call).await
    }

    /// A request to CloudWatch Logs, for an action such as `logs:CreateLogGroup`.
    pub(super) async fn logs(
        &self,
        waits: &Waits<'_>,
        action: &str,
        body: &Value,
    ) -> Result<Answer, VerifyError> {
        let operation = action.rsplit(':').next().unwrap_or_default();
        let target = format!("Logs_20140328.{operation}");
        let call = Call {
            action,
            method: Method::POST,
            path: "/",
            headers: [
                (CONTENT_TYPE.as_str(), JSON.to_owned()),
                ("x-amz-target", target),
            ],
            body: body.to_string().into_bytes(),
        };
        self.send(waits, &call).await
    }

    /// A request with parameters in a form, for an action such as `iam:CreateRole`.
    pub(super) async fn query(
        &self,
        waits: &Waits<'_>,
        action: &str,
        parameters: &[(&str, &str)],
    ) -> Result<Answer, VerifyError> {
        let (service, operation) = action.split_once(':').unwrap_or_default();
        let version = match service {
            "iam" => "2010-05-08",
            _ => "2010-08-01",
        };
        let own = [("Action", operation), ("Version", version)];
        let pairs = own.iter().chain(parameters).map(|(name, value)| {
            let encoded = |text| utf8_percent_encode(text, NON_ALPHANUMERIC);
            format!("{}={}", encoded(name), encoded(value))
        });
        let call = Call {
            action,
            method: Method::POST,
            path: "/",
            headers: [
                (CONTENT_TYPE.as_str(), FORM.to_owned()),
                ("accept", "text/xml".to_owned()),
            ],
            body: pairs.collect::<Vec<_>>().join("&").into_bytes(),
        };
        self.send(waits, &call).await
    }

    /// Sends a request, and again if AWS throttles it or does not answer.
    async fn send(&self, waits: &Waits<'_>, call: &Call<'_>) -> Result<Answer, VerifyError> {
        let mut pause = FIRST_PAUSE;
        for _ in 1..ATTEMPTS {
            match self.send_once(call).await {
                Err(error) if is_transient(&error) => waits.pause(pause).await?,
                answer => return answer,
            }
            pause *= 2;
        }
        self.send_once(call).await
    }

    async fn send_once(&self, call: &Call<'_>) -> Result<Answer, VerifyError> {
        let credentials = self.credentials().await?;
        let request = self.signed(call, credentials)?;
        let unanswered = |source| VerifyError::Unanswered {
            action: call.action.to_owned(),
            source,
        };
        let exchange = async {
            let (head, body) = self.client.request(request).await?.into_parts();
            let body = body.collect().await?.to_bytes();
            Ok::<_, Box<dyn Error + Send + Sync>>((head, body))
        };
        let answered = timeout(ATTEMPT_LIMIT, exchange).await;
        let (head, body) = answered
            .map_err(|elapsed| unanswered(elapsed.into()))?
            .map_err(unanswered)?;
        let log = head.headers.get("x-amz-log-result");
        let answer = Answer {
            text: String::from_utf8_lossy(&body).into_owned(),
            log: log.and_then(|log| Some(log.to_str().ok()?.to_owned())),
        };
        match head.status.is_success() {
            true => Ok(answer),
            false => {
                let kind = head.headers.get("x-amzn-errortype");
                let kind = kind.and_then(|kind| kind.to_str().ok());
                Err(refusal(call.action, head.status, kind, &answer))
            }
        }
    }

    async fn credentials(&self) -> Result<Credentials, VerifyError> {
        let provider = self.config.credentials_provider();
        let provider = provider.ok_or(VerifyError::NoCredentials(None))?;
        let credentials = provider.provide_credentials().await;
        credentials.map_err(|error| VerifyError::NoCredentials(Some(error.into())))
    }

    fn signed(
        &self,
        call: &Call<'_>,
        credentials: Credentials,
    ) -> Result<Request<Full<Bytes>>, VerifyError> {
        let failed = |source: Box<dyn Error + Send + Sync>| unanswered(call.action, source);
        let (signing_name, region) = match call.action.split(':').next() {
            Some("cloudwatch") => ("monitoring", &*self.region),
            // IAM has one endpoint for all regions.
            Some("iam") => ("iam", "us-east-1"),
            service => (service.unwrap_or_default(), &*self.region),
        };
        let endpoint = self.endpoint(signing_name);
        let url = format!("{}{}", endpoint.trim_end_matches('/'), call.path);
        let mut request = Request::builder().method(call.method.clone()).uri(&url);
        for (name, value) in &call.headers {
            request = request.header(*name, value);
        }
        let mut request = request
            .body(Full::new(Bytes::from(call.body.clone())))
            .map_err(|error| failed(error.into()))?;
        let headers = call.headers.iter().map(|(name, value)| (*name, &**value));
        let identity = credentials.into();
        let params = SigningParams::builder()
            .identity(&identity)
            .region(region)
            .name(signing_name)
            .time(SystemTime::now())
            .settings(SigningSettings::default())
            .build()
            .map_err(|error| failed(error.into()))?;
        let body = SignableBody::Bytes(&call.body);
        let signable = SignableRequest::new(call.method.as_str(), &url, headers, body)
            .map_err(|error| failed(error.into()))?;
        let signed = sign(signable, &params.into()).map_err(|error| failed(error.into()))?;
        signed.into_parts().0.apply_to_request_http1x(&mut request);
        // The client sets it, from the address.
        request.headers_mut().remove(HOST);
        Ok(request)
    }

    /// The service's endpoint. Variables override it as in every AWS SDK.
    fn endpoint(&self, service: &str) -> String {
        let variable = match service {
            "logs" => "AWS_ENDPOINT_URL_CLOUDWATCH_LOGS",
            "monitoring" => "AWS_ENDPOINT_URL_CLOUDWATCH",
            "iam" => "AWS_ENDPOINT_URL_IAM",
            _ => "AWS_ENDPOINT_URL_LAMBDA",
        };
        let set = std::env::var(variable).ok().filter(|url| !url.is_empty());
        let set = set.or_else(|| self.config.endpoint_url().map(str::to_owned));
        set.unwrap_or_else(|| match service {
            "iam" => "https://iam.amazonaws.com".to_owned(),
            _ => format!("https://{service}.{}.amazonaws.com", self.region),
        })
    }
}

fn unanswered(action: &str, source: impl Into<Box<dyn Error + Send + Sync>>) -> VerifyError {
    VerifyError::Unanswered {
        action: action.to_owned(),
        source: source.into(),
    }
}

/// Reads an error in any of AWS's formats: a header or a field for the code in JSON, elements in XML.
fn refusal(action: &str, status: StatusCode, kind: Option<&str>, answer: &Answer) -> VerifyError {
    let json = answer.json();
    let text = |name: &str| json[name].as_str();
    let element = |name| answer.elements(name).first().copied();
    let code = kind.or(text("__type")).or(element("Code"));
    let code = code.unwrap_or(status.as_str());
    // `com.amazonaws.logs#ResourceNotFoundException`, or `ResourceNotFoundException:http://…`
    let code = code.rsplit('#').next().unwrap_or(code);
    let code = code.split(':').next().unwrap_or(code);
    let message = text("message").or(text("Message")).or(element("Message"));
    VerifyError::said(action, code, message.unwrap_or(status.as_str()))
}

fn is_transient(error: &VerifyError) -> bool {
    match error {
        VerifyError::Unanswered { .. } => true,
        VerifyError::Refused { said, .. } => {
            let code = &*said.code;
            code.contains("Throttl")
                || ["TooManyRequestsException", "RequestLimitExceeded"].contains(&code)
                || ["InternalFailure", "ServiceException", "ServiceUnavailable"].contains(&code)
                || code.starts_with('5')
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(text: &str) -> Answer {
        Answer {
            text: text.to_owned(),
            log: None,
        }
    }

    /// What an error in this format reads as.
    fn read(kind: Option<&str>, text: &str) -> String {
        let error = refusal("iam:GetRole", StatusCode::BAD_REQUEST, kind, &answer(text));
        error.source().map(ToString::to_string).unwrap_or_default()
    }

    #[test]
    fn errors_are_read_in_every_format_of_aws() {
        let lambda = read(
            Some("ResourceConflictException:http://x"),
            r#"{"Message":"exists"}"#,
        );
        assert_eq!(lambda, "ResourceConflictException: exists");
        let logs = read(
            None,
            r#"{"__type":"com.amazonaws.logs#ResourceInUse","message":"busy"}"#,
        );
        assert_eq!(logs, "ResourceInUse: busy");
        let iam = "<ErrorResponse><Error>\n <Code>NoSuchEntity</Code>\n <Message>none</Message></Error></ErrorResponse>";
        assert_eq!(read(None, iam), "NoSuchEntity: none");
        assert_eq!(read(None, "a proxy's page"), "400: 400");
    }

    #[test]
    fn elements_are_found_in_their_order_and_without_the_space_around_them() {
        let answer = answer("<a><Name> one </Name><b><Name>two</Name></b><Names>3</Names></a>");
        assert_eq!(answer.elements("Name"), ["one", "two"]);
    }

    #[test]
    fn throttled_requests_are_sent_again_and_denied_ones_are_not() {
        let said = |code| VerifyError::said("lambda:GetFunction", code, "");
        for code in [
            "ThrottlingException",
            "Throttling",
            "TooManyRequestsException",
            "503",
        ] {
            assert!(is_transient(&said(code)), "{code}");
        }
        for code in [
            "AccessDeniedException",
            "InvalidParameterValueException",
            "400",
        ] {
            assert!(!is_transient(&said(code)), "{code}");
        }
    }
}
