//! Loopback ports that nobody else in this test run uses.

use std::{
    fs::File,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    process,
    sync::atomic::{AtomicU16, Ordering},
};

use anyhow::{Context, Result, bail};

/// Below the range from which Linux takes ports for outgoing connections (32768 and up): a port found free there could be
/// taken by any client in the moment between the finding and the use.
const FIRST: u16 = 20_000;
const COUNT: u16 = 12_000;

/// Tests run as many processes at once; each begins its search at another place and goes on from where it stopped.
static NEXT: AtomicU16 = AtomicU16::new(0);

/// A port on 127.0.0.1, reserved among all test processes of this machine by a locked file for as long as this lives. The
/// port itself is not bound: the server under test binds it, also again after a crash.
pub struct Port {
    number: u16,
    _lock: File,
}

impl Port {
    /// Finds a port that is neither reserved nor bound.
    pub fn free() -> Result<Port> {
        let locks = std::env::temp_dir().join("shardine-ports");
        std::fs::create_dir_all(&locks).context("make the folder of port locks")?;
        // Process ids are handed out in a row; a stride keeps neighbours from walking through the same ports.
        let start = process::id().wrapping_mul(97) as u16 % COUNT;
        for _ in 0..COUNT {
            let offset = (u32::from(start) + u32::from(NEXT.fetch_add(1, Ordering::Relaxed))) % u32::from(COUNT);
            let number = FIRST + offset as u16;
            let lock = File::create(locks.join(number.to_string())).context("make a port lock")?;
            if lock.try_lock().is_ok() && TcpListener::bind((Ipv4Addr::LOCALHOST, number)).is_ok() {
                return Ok(Port { number, _lock: lock });
            }
        }
        bail!("all {COUNT} ports from {FIRST} are in use");
    }

    pub fn number(&self) -> u16 {
        self.number
    }

    pub fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.number))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn ports_differ_while_they_are_held() {
        let held: Vec<Port> = (0..50).map(|_| Port::free().unwrap()).collect();

        let numbers: BTreeSet<u16> = held.iter().map(Port::number).collect();

        assert_eq!(numbers.len(), held.len());
    }
}
