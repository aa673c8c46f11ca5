//! IAM database authentication for RDS: signs a token as the password of each connection.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use aws_credential_types::Credentials;
use aws_sigv4::http_request::{
    SignableBody, SignableRequest, SignatureLocation, SigningSettings, sign,
};
use aws_sigv4::sign::v4::SigningParams;
use deadpool_postgres::{ConfigConnectImpl, Connect};
use futures_util::future::BoxFuture;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use sqs_once::ConfigError;
use tokio::task::JoinHandle;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::{Client, Config, Error};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::config::Env;

/// RDS accepts a token for this long. Connections that are open then stay open.
const LIFETIME: Duration = Duration::from_secs(15 * 60);
const DEFAULT_PORT: u16 = 5432;
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

const EXPECTED: &str = "with `auth=iam`: one host by the name that RDS assigned, a user, no password, and only \
     the `sslmode` `require`, `verify-ca` or `verify-full`";

/// Signs tokens for one user of one database.
#[derive(Clone)]
pub(crate) struct Tokens {
    credentials: Credentials,
    region: String,
    host: String,
    port: u16,
    user: String,
    now: Arc<dyn Fn() -> SystemTime + Send + Sync>,
}

impl Tokens {
    /// Reads the user and the host from the connection string in `setting`, and the credentials from the environment
    /// that Lambda sets.
    pub(crate) fn new(
        setting: &'static str,
        config: &Config,
        env: &Env<'_>,
    ) -> Result<Self, ConfigError> {
        let refused = |problem: &str| ConfigError::invalid(setting, problem, EXPECTED);
        if config.get_password().is_some() {
            return Err(refused("has a password"));
        }
        if config.get_ssl_mode() != SslMode::Require {
            return Err(refused("would send a token without TLS"));
        }
        let [Host::Tcp(host)] = config.get_hosts() else {
            return Err(refused("names no host, or several"));
        };
        let expected =
            "the value that Lambda sets, because the connection string contains `auth=iam`";
        let unset = |name| ConfigError::missing(name, "is not set", expected);
        let variable = |name: &'static str| env(name).ok_or_else(|| unset(name));
        let credentials = Credentials::new(
            variable("AWS_ACCESS_KEY_ID")?,
            variable("AWS_SECRET_ACCESS_KEY")?,
            env("AWS_SESSION_TOKEN"),
            None,
            "environment",
        );
        let tokens = Self {
            credentials,
            region: variable("AWS_REGION")?,
            host: host.clone(),
            port: config.get_ports().first().copied().unwrap_or(DEFAULT_PORT),
            user: config.get_user().unwrap_or_default().to_owned(),
            now: Arc::new(SystemTime::now),
        };
        // If signing fails now, it would fail for every connection.
        let signed = tokens.token().map(|_| tokens);
        signed.ok_or_else(|| refused("names no host that can be signed for"))
    }

    /// Creates a token for a connection opened now: a signed URL without its scheme.
    fn token(&self) -> Option<String> {
        let Self { host, port, .. } = self;
        let user = encoded(&self.user);
        let mut token = format!("{host}:{port}/?Action=connect&DBUser={user}");
        let identity = self.credentials.clone().into();
        let mut settings = SigningSettings::default();
        settings.expires_in = Some(LIFETIME);
        settings.signature_location = SignatureLocation::QueryParams;
        let params = SigningParams::builder()
            .identity(&identity)
            .region(&self.region)
            .name("rds-db")
            .time((self.now)())
            .settings(settings)
            .build()
            .ok()?;
        let url = format!("https://{token}");
        let body = SignableBody::Bytes(&[]);
        let request = SignableRequest::new("GET", &url, std::iter::empty(), body).ok()?;
        let (signed, _) = sign(request, &params.into()).ok()?.into_parts();
        for (name, value) in signed.params() {
            token.push_str(&format!("&{name}={}", encoded(value)));
        }
        Some(token)
    }
}

fn encoded(text: &str) -> impl std::fmt::Display {
    utf8_percent_encode(text, UNRESERVED)
}

/// Opens each connection with a new token as its password.
pub(crate) struct ByToken {
    pub(crate) tokens: Tokens,
    pub(crate) connect: ConfigConnectImpl<MakeRustlsConnect>,
}

impl Connect for ByToken {
    fn connect(&self, config: &Config) -> BoxFuture<'_, Result<(Client, JoinHandle<()>), Error>> {
        let mut config = config.clone();
        // Signing worked at the start. If it fails now, the server rejects the empty password.
        config.password(self.tokens.token().unwrap_or_default());
        self.connect.connect(&config)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;
    use std::sync::atomic::Ordering::SeqCst;

    use postgres_for_tests::Server;
    use sqs_once::store::StoreErrorKind;
    use tokio_postgres::NoTls;

    use super::*;
    use crate::config::Settings;
    use crate::pool::Connections;

    fn settings(url: &str, variables: &[(&str, &str)]) -> Result<Settings, ConfigError> {
        let env = |name: &str| {
            let found = variables.iter().find(|(variable, _)| *variable == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        Settings::from_string("DATABASE_URL", url, None, &env)
    }

    const KEYS: [(&str, &str); 3] = [
        ("AWS_ACCESS_KEY_ID", "akid"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
        ("AWS_REGION", "us-east-1"),
    ];

    /// Tokens of a time that the test sets, in seconds since 1970.
    fn tokens(url: &str, variables: &[(&str, &str)]) -> (Tokens, Arc<AtomicU64>) {
        let clock = Arc::new(AtomicU64::default());
        let reading = Arc::clone(&clock);
        let now = move || SystemTime::UNIX_EPOCH + Duration::from_secs(reading.load(SeqCst));
        let mut tokens = settings(url, variables).unwrap().tokens.unwrap();
        tokens.now = Arc::new(now);
        (tokens, clock)
    }

    /// The same case as the test `signing_works` of the AWS SDK for Rust (aws-sdk-rds, `auth_token.rs`).
    #[test]
    fn a_token_is_that_of_the_sdk_for_rust() {
        let url = "postgresql://peccy@prod-instance.us-east-1.rds.amazonaws.com:3306/x?auth=iam";
        let (tokens, clock) = tokens(url, &KEYS);
        clock.store(1_724_709_600, SeqCst);
        let expected = "prod-instance.us-east-1.rds.amazonaws.com:3306/?Action=connect&DBUser=peccy\
             &X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=akid%2F20240826%2Fus-east-1%2Frds-db%2Faws4_request\
             &X-Amz-Date=20240826T220000Z&X-Amz-Expires=900&X-Amz-SignedHeaders=host\
             &X-Amz-Signature=dd0cba843009474347af724090233265628ace491ea17ce3eb3da098b983ad89";
        assert_eq!(tokens.token().unwrap(), expected);
    }

    /// The same case as botocore's test `test_generate_db_auth_token`, with botocore's parameter order.
    #[test]
    fn a_token_has_the_signature_of_the_sdk_for_python() {
        let url =
            "postgresql://someusername@prod-instance.us-east-1.rds.amazonaws.com:3306/x?auth=iam";
        let keys = [KEYS[0], ("AWS_SECRET_ACCESS_KEY", "skid"), KEYS[2]];
        let (tokens, clock) = tokens(url, &keys);
        clock.store(1_478_540_373, SeqCst);
        let token = tokens.token().unwrap();
        assert!(token.contains("&X-Amz-Date=20161107T173933Z&"), "{token}");
        let signature =
            "&X-Amz-Signature=d1138cdbc0ca63eec012ec0fc6c2267e03642168f5884a7795320d4c18374c61";
        assert!(token.ends_with(signature), "{token}");
    }

    /// The output of botocore 1.43.106 for the same input and time.
    #[test]
    fn a_token_has_the_session_of_lambda_and_what_is_in_names_is_escaped() {
        let url = "postgresql://a%20b%26c@db.example/x?auth=iam";
        let secrets = [
            ("AWS_SECRET_ACCESS_KEY", "skid"),
            ("AWS_SESSION_TOKEN", "a/b+c=="),
        ];
        let (tokens, clock) = tokens(url, &[&secrets[..], &KEYS].concat());
        clock.store(1_795_409_534, SeqCst);
        let token = tokens.token().unwrap();
        for part in [
            "db.example:5432/?Action=connect&DBUser=a%20b%26c&",
            "&X-Amz-Date=20261123T045214Z&",
            "&X-Amz-Security-Token=a%2Fb%2Bc%3D%3D",
            "&X-Amz-Signature=5f462e2d9972ec72fe009683302d499f6e7fed58fed7b83023b07085f5687c42",
        ] {
            assert!(token.contains(part), "{token}");
        }
    }

    #[test]
    fn a_token_goes_to_one_host_by_its_name_and_never_without_tls() {
        for url in [
            "postgresql://u:secret@db/x?auth=iam",
            "postgresql://u@db/x?auth=iam&sslmode=disable",
            "postgresql://u@db/x?auth=iam&sslmode=prefer",
            "postgresql://u@localhost/x?auth=iam",
            "postgresql://u@db,other/x?auth=iam",
            "postgresql://u@/x?auth=iam&hostaddr=10.0.0.7",
        ] {
            let error = settings(url, &KEYS).err().unwrap();
            assert_eq!(error.setting(), "DATABASE_URL", "{url}");
            assert!(error.to_string().contains("auth=iam"), "{error}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }

    #[test]
    fn without_credentials_or_region_a_function_does_not_start() {
        for missing in 0..KEYS.len() {
            let mut keys = KEYS.to_vec();
            let (name, _) = keys.remove(missing);
            let error = settings("postgresql://u@db/x?auth=iam", &keys).err();
            assert_eq!(error.unwrap().setting(), name);
        }
    }

    #[tokio::test]
    async fn each_new_connection_has_a_new_token() {
        if postgres_for_tests::is_missing() {
            return;
        }
        let server = Server::start_with_tls();
        let database = server.create_database();
        // The only database of the test server that accepts connections without TLS.
        let admin = database.rsplit_once('/').unwrap().0.to_owned() + "/template1";
        let (admin, connection) = tokio_postgres::connect(&admin, NoTls).await.unwrap();
        tokio::spawn(connection);
        let role = "CREATE ROLE orders LOGIN";
        admin.batch_execute(role).await.unwrap();

        let (_, place) = database.split_once('@').unwrap();
        let authority = server.authority().unwrap().display();
        let url = format!("postgresql://orders@{place}?auth=iam&sslrootcert={authority}");
        let (tokens, clock) = tokens(&url, &KEYS);
        let connections = Connections::open(Settings {
            tokens: Some(tokens.clone()),
            ..settings(&url, &KEYS).unwrap()
        });
        let connections = connections.unwrap();
        // The server accepts only the token of this time, as RDS rejects tokens older than 15 minutes.
        let accept = async |at| {
            clock.store(at, SeqCst);
            let token = tokens.token().unwrap();
            let accept = format!("ALTER ROLE orders PASSWORD '{token}'");
            admin.batch_execute(&accept).await.unwrap();
        };
        let first = 1_724_709_600;
        let later = first + 16 * 60;
        for at in [first, later] {
            accept(at).await;
            drop(connections.get().await.unwrap());
        }
        clock.store(first, SeqCst);
        let error = connections.get().await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::AccessDenied, "{error}");
        assert!(error.to_string().contains("rds-db:connect"), "{error}");
    }
}
