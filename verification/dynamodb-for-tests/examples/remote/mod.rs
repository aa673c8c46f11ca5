//! Any DynamoDB behind an endpoint.

mod unasked;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use serde_json::{Value as Json, json};

use crate::deviations::REMOTE;
use crate::engines::{Engine, TABLES, description};

pub(crate) use unasked::{UNASKED, asked};

/// A DynamoDB behind an endpoint such as `http://127.0.0.1:4566`.
pub(crate) struct Remote {
    address: String,
    connection: Option<BufReader<TcpStream>>,
}

impl Remote {
    pub(crate) fn new(endpoint: &str) -> Self {
        let address = endpoint
            .strip_prefix("http://")
            .expect("an endpoint begins with http://");
        let mut remote = Self {
            address: address.trim_end_matches('/').to_owned(),
            connection: None,
        };
        for (name, key) in TABLES {
            remote.carry_out("DeleteTable", &json!({"TableName": name}).to_string());
            let made = remote.carry_out("CreateTable", &description(name, key).to_string());
            assert_eq!(made.0, 200, "{}", made.1);
        }
        remote
    }

    fn exchange(&mut self, operation: &str, body: &str) -> std::io::Result<(u16, Json)> {
        if self.connection.is_none() {
            let stream = TcpStream::connect(&self.address)?;
            stream.set_nodelay(true)?;
            self.connection = Some(BufReader::new(stream));
        }
        let connection = self.connection.as_mut().unwrap();
        let request = format!(
            "POST / HTTP/1.1\r\nhost: {}\r\nx-amz-target: DynamoDB_20120810.{operation}\r\n\
             content-type: application/x-amz-json-1.0\r\n\
             authorization: AWS4-HMAC-SHA256 Credential=local/20260101/us-east-1/dynamodb/aws4_request, \
             SignedHeaders=host, Signature=none\r\ncontent-length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        );
        connection.get_mut().write_all(request.as_bytes())?;
        let mut status = None;
        let mut length = 0;
        let mut is_last = false;
        loop {
            let mut line = String::new();
            if connection.read_line(&mut line)? == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            let line = line.trim_end();
            if line.is_empty() {
                break;
            }
            match line.split_once(':') {
                _ if status.is_none() => {
                    status = line.split(' ').nth(1).map(|text| text.parse().unwrap())
                }
                Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                    length = value.trim().parse().unwrap();
                }
                Some((name, value)) if name.eq_ignore_ascii_case("connection") => {
                    is_last = value.trim().eq_ignore_ascii_case("close");
                }
                _ => {}
            }
        }
        let mut body = vec![0; length];
        connection.read_exact(&mut body)?;
        if is_last {
            self.connection = None;
        }
        Ok((
            status.unwrap(),
            serde_json::from_slice(&body).unwrap_or(Json::Null),
        ))
    }
}

impl Engine for Remote {
    fn name(&self) -> &'static str {
        REMOTE
    }

    fn carry_out(&mut self, operation: &str, body: &str) -> (u16, Json) {
        self.exchange(operation, body).unwrap_or_else(|error| {
            self.connection = None;
            (0, json!({"no answer": error.to_string()}))
        })
    }

    fn contents(&mut self, table: &str) -> Vec<Json> {
        let request = json!({"TableName": table, "ConsistentRead": true}).to_string();
        let (_, answer) = self.carry_out("Scan", &request);
        answer["Items"].as_array().cloned().unwrap_or_default()
    }
}
