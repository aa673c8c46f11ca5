//! A port of 127.0.0.1 that stays reserved while its server is dead.

use crate::error::file;
use anyhow::{Context, Result, bail};
use std::fs::File;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use uuid::Uuid;

const FIRST: u16 = 10_240;

/// The first of Linux's ports for outgoing connections (those of macOS are higher). Any connection of this machine
/// could take such a port between a server's death and its restart.
const END: u16 = 32_768;

/// A port, with a lock that keeps other test processes of this project from using it.
pub(crate) struct Port {
    pub(crate) number: u16,
    _lock: File,
}

impl Port {
    /// Takes a free port. All test processes lock files in `locks`.
    pub(crate) fn take(locks: &Path) -> Result<Self> {
        std::fs::create_dir_all(locks).with_context(file(locks))?;
        let start = (Uuid::new_v4().as_u128() % u128::from(END - FIRST)) as u16;
        for offset in 0..END - FIRST {
            let number = FIRST + (start + offset) % (END - FIRST);
            let path = locks.join(number.to_string());
            let lock = File::create(&path).with_context(file(&path))?;
            let free = || TcpListener::bind((Ipv4Addr::LOCALHOST, number)).is_ok();
            if lock.try_lock().is_ok() && free() {
                return Ok(Self {
                    number,
                    _lock: lock,
                });
            }
        }
        bail!("no free port between {FIRST} and {END} on 127.0.0.1")
    }
}
