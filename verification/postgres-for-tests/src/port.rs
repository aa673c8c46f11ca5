//! A port of 127.0.0.1 that stays a server's while the server is dead.

use crate::error::{Error, file};
use std::fs::File;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use uuid::Uuid;

/// The first port that is tried.
pub(crate) const FIRST: u16 = 10_240;

/// Where Linux's ports for outgoing connections begin (those of macOS are higher still): any connection of this
/// machine could take such a port between a server's death and its restart.
pub(crate) const END: u16 = 32_768;

/// The port, and the lock that keeps other test processes of this project off it.
pub(crate) struct Port {
    pub(crate) number: u16,
    _lock: File,
}

impl Port {
    /// Takes a free port. `locks` is where the test processes meet.
    pub(crate) fn take(locks: &Path) -> Result<Self, Error> {
        std::fs::create_dir_all(locks).map_err(file(locks))?;
        let start = (Uuid::new_v4().as_u128() % u128::from(END - FIRST)) as u16;
        for offset in 0..END - FIRST {
            let number = FIRST + (start + offset) % (END - FIRST);
            let path = locks.join(number.to_string());
            let lock = File::create(&path).map_err(file(&path))?;
            let free = || TcpListener::bind((Ipv4Addr::LOCALHOST, number)).is_ok();
            if lock.try_lock().is_ok() && free() {
                return Ok(Self {
                    number,
                    _lock: lock,
                });
            }
        }
        Err(Error::NoPort)
    }
}
