//! Clients that count their keys up, whatever happens to the server, and remember what they were told.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use shardine_testkit::{Client, PATIENCE, Reply, wait_for};

pub const WRITERS: usize = 4;
pub const KEYS: usize = 40;

/// What one key must hold at the end: what was answered last, or, if the answer was lost, what was asked last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expected {
    pub acknowledged: i64,
    pub asked: i64,
}

impl Expected {
    /// Whether any write of the key was answered. If none was, the key need not be there: its first write may have ended with
    /// the server that it was sent to.
    pub fn was_answered(self) -> bool {
        self.acknowledged > 0
    }
}

/// Clients that each own their keys and count them up, whatever happens to the server.
pub struct Writers {
    stop: Arc<AtomicBool>,
    acknowledged: Arc<AtomicU64>,
    expected: Arc<Mutex<BTreeMap<String, Expected>>>,
    threads: Vec<JoinHandle<()>>,
}

impl Writers {
    pub fn start(port: u16) -> Writers {
        let (stop, acknowledged) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let expected = Arc::new(Mutex::new(BTreeMap::new()));
        let threads = (0..WRITERS).map(|writer| {
            let (stop, acknowledged, expected) = (Arc::clone(&stop), Arc::clone(&acknowledged), Arc::clone(&expected));
            std::thread::spawn(move || {
                let mut client = None;
                for turn in 0u64.. {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    let key = format!("u{writer}_{}", turn % KEYS as u64);
                    if let Some(answered) = write_once(&mut client, port, &key, turn, &expected) {
                        acknowledged.fetch_add(u64::from(answered), Ordering::Relaxed);
                    }
                }
            })
        });
        Writers { threads: threads.collect(), stop, acknowledged, expected }
    }

    /// Waits until this many more writes were answered.
    pub fn wait_for_more(&self, count: u64) {
        let goal = self.acknowledged.load(Ordering::Relaxed) + count;
        wait_for("answered writes", PATIENCE, || Ok((self.acknowledged.load(Ordering::Relaxed) >= goal).then_some(())))
            .unwrap();
    }

    pub fn stop(&mut self) -> BTreeMap<String, Expected> {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| thread.join().unwrap());
        self.expected.lock().unwrap().clone()
    }
}

/// One step of a key: up by one, every seventh time as a new record. Tells whether it was answered.
fn write_once(
    client: &mut Option<Client>,
    port: u16,
    key: &str,
    turn: u64,
    expected: &Mutex<BTreeMap<String, Expected>>,
) -> Option<bool> {
    if client.is_none() {
        *client = Client::connect(([127, 0, 0, 1], port).into()).ok();
    }
    let connected = client.as_mut()?;
    let name = format!("users:{key}");
    let before = expected.lock().unwrap().get(key).copied().unwrap_or_default();
    // After an answer that was lost nobody knows the value; it is read again first.
    if before.asked != before.acknowledged {
        let found: i64 = match connected.call(&["HGET", &name, "age"]) {
            Ok(Reply::Bulk(found)) => String::from_utf8_lossy(&found).parse().unwrap(),
            // There is no such record, and 0 is what no record holds.
            Ok(Reply::Nil) => 0,
            // The row is not in memory and SQL is away: to be asked again.
            Ok(Reply::Error(text)) if text.contains("backend_unavailable") => return None,
            Ok(other) => panic!("{key}: {other:?}"),
            Err(_) => {
                *client = None;
                return None;
            }
        };
        assert!([before.acknowledged, before.asked].contains(&found), "{key}: {found}, expected {before:?}");
        settle(expected, key, found);
        return None;
    }
    let next = before.acknowledged + 1;
    expected.lock().unwrap().insert(key.into(), Expected { asked: next, ..before });
    let (age, title) = (next.to_string(), format!("n{turn}"));
    let set = ["HSET", &name, "age", &age, "name", &title];
    let reply = if turn % 7 == 6 { replace(connected, &name, &set) } else { connected.call(&set) };
    match reply {
        Ok(Reply::Int(_)) => {
            settle(expected, key, next);
            Some(true)
        }
        // Refused and not executed: the row is not in memory and SQL is away.
        Ok(Reply::Error(text)) if text.contains("backend_unavailable") => {
            settle(expected, key, before.acknowledged);
            Some(false)
        }
        Ok(other) => panic!("{key}: {other:?}"),
        Err(_) => {
            *client = None;
            None
        }
    }
}

/// Notes what the key is now known to hold. One that was never written has no row in the end.
fn settle(expected: &Mutex<BTreeMap<String, Expected>>, key: &str, value: i64) {
    let mut expected = expected.lock().unwrap();
    match value {
        0 => expected.remove(key),
        value => expected.insert(key.into(), Expected { acknowledged: value, asked: value }),
    };
}

/// Deletes and makes anew in one batch: the row passes through a tombstone's version on its way.
fn replace(client: &mut Client, name: &str, set: &[&str]) -> anyhow::Result<Reply> {
    client.call(&["MULTI"])?;
    client.call(&["DEL", name])?;
    client.call(set)?;
    match client.call(&["EXEC"])? {
        Reply::Array(mut replies) if replies.len() == 2 => Ok(replies.remove(1)),
        other => Ok(other),
    }
}
