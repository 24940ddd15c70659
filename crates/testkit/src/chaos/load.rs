//! The clients: at every node one that sets registers, one that counts and one that reads. Each stays with its node, so that
//! every door is used all the time; what one writes, those at the other nodes read.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::Result;

use super::ledger::{Cell, Form, Ledger};
use super::random::Random;
use crate::{Client, Cluster, Reply};

/// Counters that all clients share.
pub const COUNTERS: usize = 8;
/// Registers of one client at a time.
const REGISTERS: usize = 8;
/// Longer than a node takes to notice that another one is gone.
const PATIENCE: Duration = Duration::from_secs(4);
/// Between two requests, so that two cores are enough for everybody, and after one that failed.
const PACE: Duration = Duration::from_millis(1);
const PAUSE: Duration = Duration::from_millis(20);

pub struct Load {
    stop: Arc<AtomicBool>,
    clients: Vec<JoinHandle<()>>,
}

/// One client's part of everything.
struct Door {
    place: usize,
    address: SocketAddr,
    ledger: Arc<Ledger>,
    stop: Arc<AtomicBool>,
    random: Random,
    client: Option<Client>,
}

impl Load {
    pub fn start(cluster: &Cluster, ledger: &Arc<Ledger>, random: &mut Random) -> Load {
        let stop: Arc<AtomicBool> = Arc::default();
        let counters: Vec<Arc<Cell>> =
            (0..COUNTERS).map(|number| ledger.cell(&format!("counter{number}"), form(number))).collect();
        let mut clients = Vec::new();
        for place in 0..cluster.nodes.len() {
            let mut door = || Door {
                place,
                address: cluster.redis(place),
                ledger: Arc::clone(ledger),
                stop: Arc::clone(&stop),
                random: Random::new(random.next()),
                client: None,
            };
            let (mut sets, mut counts, mut reads) = (door(), door(), door());
            let counters = counters.clone();
            clients.push(thread::spawn(move || sets.set()));
            clients.push(thread::spawn(move || counts.count(&counters)));
            clients.push(thread::spawn(move || reads.read()));
        }
        Load { stop, clients }
    }

    pub fn finish(self) {
        self.stop.store(true, SeqCst);
        for client in self.clients {
            client.join().expect("clients do not panic");
        }
    }
}

fn form(number: usize) -> Form {
    if number.is_multiple_of(2) { Form::Text } else { Form::Row }
}

impl Door {
    fn is_over(&self) -> bool {
        thread::sleep(PACE);
        self.stop.load(SeqCst)
    }

    /// Sends all of them at once and gives each reply, or nothing from where there were no more.
    fn ask(&mut self, commands: &[Vec<String>]) -> Vec<Option<Reply>> {
        let replies = self.try_ask(commands);
        if replies.len() < commands.len() {
            self.client = None;
        }
        let missing = (replies.len()..commands.len()).map(|_| None);
        let replies: Vec<Option<Reply>> = replies.into_iter().map(Some).chain(missing).collect();
        for reply in &replies {
            if !matches!(reply, Some(reply) if !matches!(reply, Reply::Error(_))) {
                self.ledger.failed();
                thread::sleep(PAUSE);
            }
        }
        replies
    }

    fn try_ask(&mut self, commands: &[Vec<String>]) -> Vec<Reply> {
        let mut replies = Vec::new();
        let mut go = || -> Result<()> {
            let client = match &mut self.client {
                Some(client) => client,
                none => none.insert(Client::connect_for(self.address, PATIENCE)?),
            };
            for command in commands {
                client.send(command)?;
            }
            for _ in commands {
                replies.push(client.receive()?);
            }
            Ok(())
        };
        // What is missing says it.
        let _ = go();
        replies
    }

    /// Registers belong to one client. One that was not answered may be written at any later time, so its register is left and
    /// a new one begun.
    fn set(&mut self) {
        let mut made = 0;
        let mut new = |door: &Door| {
            made += 1;
            door.ledger.cell(&format!("register{}-{made}", door.place + 1), form(made))
        };
        let mut registers: Vec<Arc<Cell>> = (0..REGISTERS).map(|_| new(self)).collect();
        while !self.is_over() {
            let slot = self.random.place(REGISTERS);
            let register = Arc::clone(&registers[slot]);
            let depth = 1 + self.random.below(4);
            let (numbers, commands): (Vec<u64>, Vec<_>) = (0..depth).map(|_| register.next()).unzip();
            let replies = self.ask(&commands);
            let answered = replies.iter().take_while(|reply| is_set(reply.as_ref())).count();
            for number in &numbers[..answered] {
                self.ledger.was_set(&register, *number, self.place);
            }
            if answered < replies.len() {
                if answered + 1 < replies.len() {
                    register.tear();
                }
                registers[slot] = new(self);
            }
        }
    }

    fn count(&mut self, counters: &[Arc<Cell>]) {
        while !self.is_over() {
            let counter = &counters[self.random.place(counters.len())];
            let floor = counter.floor();
            let replies = self.ask(&[counter.add_one()]);
            if let Some(Reply::Int(number)) = replies[0] {
                self.ledger.was_counted(counter, floor, number.unsigned_abs(), self.place);
            }
        }
    }

    fn read(&mut self) {
        while !self.is_over() {
            let Some(cell) = self.ledger.any(self.random.next()) else { continue };
            let floor = cell.floor();
            let replies = self.ask(&[cell.read()]);
            if let Some(found) = replies[0].as_ref().and_then(number)
                && !self.ledger.was_read(&cell, floor, found, self.place)
            {
                // Lost, or only late?
                let again = self.ask(&[cell.read()]);
                self.ledger.tell(format!("{cell}, asked again: {:?}", again[0]));
            }
        }
    }
}

fn is_set(reply: Option<&Reply>) -> bool {
    matches!(reply, Some(Reply::Int(_) | Reply::Simple(_)))
}

/// What a read found; what is not there yet counts as none.
pub fn number(reply: &Reply) -> Option<u64> {
    match reply {
        Reply::Nil => Some(0),
        other => other.text()?.parse().ok(),
    }
}
