//! The part of HTTP/1.1 that the stand-ins need: requests with a length, on persistent connections.
//!
//! Each connection has a thread of its own, and blocks it. At most a few dozen connections exist, each with one request
//! at a time. A sleeping thread costs nothing and wakes up within microseconds.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::ops::Range;
use std::sync::Arc;
use std::thread;

/// A request. Its body is in the connection's buffer.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) path: String,
    /// The header `x-amz-target`; empty if missing.
    pub(crate) target: String,
    body: Range<usize>,
}

/// The server's end of a connection.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
    /// How many bytes of the buffer belong to requests that were already read.
    taken: usize,
}

impl Connection {
    fn new(stream: TcpStream) -> io::Result<Self> {
        // Responses are written whole, so buffering would only delay them.
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            buffer: Vec::new(),
            taken: 0,
        })
    }

    /// Waits for the next request and reads it. Returns `None` when the connection ends.
    pub(crate) fn next_request(&mut self) -> io::Result<Option<Request>> {
        self.buffer.drain(..self.taken);
        self.taken = 0;
        loop {
            if let Some(request) = parse(&self.buffer)?
                && request.body.end <= self.buffer.len()
            {
                self.taken = request.body.end;
                return Ok(Some(request));
            }
            let mut chunk = [0; 16 * 1024];
            let read = self.stream.read(&mut chunk)?;
            if read == 0 {
                return Ok(None);
            }
            self.buffer.extend_from_slice(&chunk[..read]);
        }
    }

    /// The body of the last request.
    pub(crate) fn body(&self, request: &Request) -> &[u8] {
        &self.buffer[request.body.clone()]
    }

    /// Sends a response made by [`response`].
    pub(crate) fn send(&mut self, response: &[u8]) -> io::Result<()> {
        self.stream.write_all(response)
    }
}

/// Formats a response.
pub(crate) fn response(status: u16, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut head = format!("HTTP/1.1 {status} \r\ncontent-length: {}\r\n", body.len());
    for (name, value) in headers {
        head.extend([name, ": ", value, "\r\n"]);
    }
    head.push_str("\r\n");
    let mut response = head.into_bytes();
    response.extend_from_slice(body);
    response
}

/// Listens on a loopback port, and calls `serve` for every connection, in a thread of its own.
pub(crate) fn listen<F>(name: &str, serve: F) -> io::Result<SocketAddr>
where
    F: Fn(&mut Connection) -> io::Result<()> + Send + Sync + 'static,
{
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    let serve = Arc::new(serve);
    let name = name.to_owned();
    thread::Builder::new().name(name.clone()).spawn(move || {
        for stream in listener.incoming().flatten() {
            let serve = Arc::clone(&serve);
            let connection = move || {
                // A killed contender breaks its connections.
                let _ = Connection::new(stream).and_then(|mut connection| serve(&mut connection));
            };
            let _ = thread::Builder::new().name(name.clone()).spawn(connection);
        }
    })?;
    Ok(address)
}

/// Parses a request's head; `None` if it is incomplete.
fn parse(bytes: &[u8]) -> io::Result<Option<Request>> {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut head = httparse::Request::new(&mut headers);
    let httparse::Status::Complete(length) = head.parse(bytes).map_err(invalid)? else {
        return Ok(None);
    };
    let header = |name: &str| {
        let found = head
            .headers
            .iter()
            .find(|header| header.name.eq_ignore_ascii_case(name));
        found.map(|header| String::from_utf8_lossy(header.value).into_owned())
    };
    if header("transfer-encoding").is_some() {
        return Err(invalid("a body without a length"));
    }
    let body = header("content-length").map_or(Ok(0), |text| text.parse::<usize>());
    let body = length..length + body.map_err(invalid)?;
    Ok(Some(Request {
        path: head.path.unwrap_or_default().to_owned(),
        target: header("x-amz-target").unwrap_or_default(),
        body,
    }))
}

fn invalid(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}
