//! Starts a server, prints its URL, and runs until standard input ends or the process is killed.

use postgres_for_tests::Server;
use std::io::{self, Write};

fn main() -> io::Result<()> {
    let server = Server::start();
    writeln!(io::stdout(), "{}", server.connection_string())?;
    io::copy(&mut io::stdin(), &mut io::sink()).map(drop)
}
