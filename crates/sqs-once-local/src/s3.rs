//! A folder, served as S3.

use crate::guard::{Port, Server};
use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path as UrlPath, State};
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The largest object that can be put. S3 accepts 5 GiB in a request. A larger file can be in the folder.
const LARGEST_OBJECT: usize = 16 * 1024 * 1024;

/// S3 on 127.0.0.1: the file `BUCKET/KEY` of a folder is an object. Answers `GetObject`, `HeadObject` and `PutObject` with
/// the bucket in the path, as SDKs send them to an endpoint that is an IP address.
///
/// Requests from web pages in a browser are refused. The server stops when it is dropped.
pub struct LocalS3 {
    server: Server,
}

impl LocalS3 {
    /// Serves a folder on a port. 0 means any free port. The first `PutObject` creates the folder.
    ///
    /// # Errors
    /// If the port is not available.
    pub async fn start(folder: &Path, port: u16) -> io::Result<Self> {
        let port = Port::take(port).await?;
        let object = get(get_object).put(put_object);
        let routes = Router::new().route("/{bucket}/{*key}", object);
        let routes = routes.fallback(async || NOT_HERE);
        let server = port.serve(routes.with_state(Arc::from(folder)), LARGEST_OBJECT);
        Ok(Self { server })
    }

    /// The endpoint for an AWS SDK, such as `http://127.0.0.1:40001`.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.server.address())
    }
}

/// The status, the code and the message of an error.
struct Refused(u16, &'static str, &'static str);

const NO_KEY: Refused = Refused(404, "NoSuchKey", "the folder has no such file");
const NO_PATH: Refused = Refused(400, "InvalidURI", "the key is not the path of a file");
const NO_FILE: Refused = Refused(500, "InternalError", "the file can't be written");
const NOT_HERE: Refused = Refused(
    501,
    "NotImplemented",
    "the local S3 answers GetObject, HeadObject and PutObject, without conditions, copies and parts",
);

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let Self(status, code, message) = self;
        let status = StatusCode::from_u16(status).unwrap_or_default();
        let body = format!("<Error><Code>{code}</Code><Message>{message}</Message></Error>");
        (status, [(header::CONTENT_TYPE, "application/xml")], body).into_response()
    }
}

type Object = UrlPath<(String, String)>;

async fn get_object(
    State(folder): State<Arc<Path>>,
    UrlPath(object): Object,
    uri: Uri,
) -> Result<Response, Refused> {
    let path = file(&folder, &object, &uri)?;
    let body = std::fs::read(path).map_err(|_| NO_KEY)?;
    Ok(([(header::ETAG, etag(&body))], body).into_response())
}

async fn put_object(
    State(folder): State<Arc<Path>>,
    UrlPath(object): Object,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Refused> {
    // Ignoring one of these would change what the request means.
    let changing = ["if-match", "if-none-match", "x-amz-copy-source"];
    let signed = headers.get("x-amz-content-sha256");
    let is_chunked = signed.is_some_and(|it| it.as_bytes().starts_with(b"STREAMING-"));
    if is_chunked || changing.iter().any(|name| headers.contains_key(*name)) {
        return Err(NOT_HERE);
    }
    let path = file(&folder, &object, &uri)?;
    let created = path.parent().map_or(Ok(()), std::fs::create_dir_all);
    let written = created.and_then(|()| std::fs::write(&path, &body));
    written.map_err(|_| NO_FILE)?;
    Ok([(header::ETAG, etag(&body))].into_response())
}

/// The file of an object, always inside of the folder.
fn file(folder: &Path, (bucket, key): &(String, String), uri: &Uri) -> Result<PathBuf, Refused> {
    // Other parameters ask for parts, versions, tags and access rights.
    if uri.query().is_some_and(|query| !query.starts_with("x-id=")) {
        return Err(NOT_HERE);
    }
    let mut path = folder.to_owned();
    for part in [&**bucket].into_iter().chain(key.split('/')) {
        if matches!(part, "" | "." | "..") || part.contains(['\\', ':', '\0']) {
            return Err(NO_PATH);
        }
        path.push(part);
    }
    Ok(path)
}

fn etag(body: &[u8]) -> String {
    format!("\"{:x}\"", md5::compute(body))
}
