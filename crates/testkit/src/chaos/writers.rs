//! The second kind of clients: by every door of every node they write and read the same few registers, whose histories are
//! checked.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::door::Door;
use super::history::{Outcome, Register};
use super::random::Random;
use crate::Cluster;

/// That everybody uses at a time. Few, so that they meet.
const SHARED: usize = 4;
/// Numbers of one register, before a new one takes its place.
const NUMBERS_MAX: usize = 400;
/// Between two requests, so that two cores are enough for everybody; a process for each takes longer.
const PACE: Duration = Duration::from_millis(4);
const PACE_BY_PROCESS: Duration = Duration::from_millis(250);

pub struct Writers {
    registers: Arc<Registers>,
    stop: Arc<AtomicBool>,
    clients: Vec<JoinHandle<()>>,
}

pub struct Registers {
    /// The last ones are in use.
    all: Mutex<Vec<Arc<Register>>>,
    faults: Mutex<Vec<String>>,
    /// Answers by each door of each node.
    answered: Vec<AtomicU64>,
}

impl Writers {
    pub fn start(cluster: &Cluster, random: &mut Random) -> Writers {
        let count = cluster.nodes.len();
        let registers = Arc::new(Registers::new(3 * count));
        let stop: Arc<AtomicBool> = Arc::default();
        let mut clients = Vec::new();
        for place in 0..count {
            let doors = [
                (Door::Redis { address: cluster.redis(place), client: None }, PACE),
                (Door::Http { address: cluster.http(place), stream: None }, PACE),
                (Door::Grpc { address: cluster.grpc(place), binary: cluster.binary().to_path_buf() }, PACE_BY_PROCESS),
            ];
            for (number, (door, pace)) in doors.into_iter().enumerate() {
                let (registers, stop) = (Arc::clone(&registers), Arc::clone(&stop));
                let random = Random::new(random.next());
                let number = 3 * place + number;
                clients.push(thread::spawn(move || registers.use_by(door, number, random, pace, &stop)));
            }
        }
        Writers { registers, stop, clients }
    }

    pub fn registers(&self) -> &Registers {
        &self.registers
    }

    pub fn finish(self) -> Arc<Registers> {
        self.stop.store(true, SeqCst);
        for client in self.clients {
            client.join().expect("clients do not panic");
        }
        self.registers
    }
}

impl Registers {
    fn new(doors: usize) -> Registers {
        let all = (0..SHARED).map(|number| Arc::new(Register::new(format!("shared{number}")))).collect();
        Registers {
            all: Mutex::new(all),
            faults: Mutex::default(),
            answered: (0..doors).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Answers so far, by each door.
    pub fn answered(&self) -> Vec<u64> {
        self.answered.iter().map(|count| count.load(SeqCst)).collect()
    }

    pub fn faults(&self) -> Vec<String> {
        hold(&self.faults).clone()
    }

    pub fn all(&self) -> Vec<Arc<Register>> {
        hold(&self.all).clone()
    }

    /// What was read of one register at last, by a node that nobody disturbs.
    pub fn was_read(&self, register: &Register, number: u64, called: u64) {
        if let Err(fault) = register.was_read(number, called) {
            hold(&self.faults).push(fault);
        }
    }

    /// Numbers written, and registers.
    pub fn sum(&self) -> (usize, usize) {
        let all = self.all();
        (all.iter().map(|register| register.len()).sum(), all.len())
    }

    /// With all reads there are.
    pub fn check(&self) -> Vec<String> {
        let late = self.all().iter().filter_map(|register| register.check().err()).collect::<Vec<_>>();
        self.faults().into_iter().chain(late).collect()
    }

    fn use_by(&self, mut door: Door, number: usize, mut random: Random, pace: Duration, stop: &AtomicBool) {
        while !stop.load(SeqCst) {
            thread::sleep(pace);
            let register = self.any(&mut random);
            let is_answered = if random.below(2) == 0 {
                let written = register.write();
                let outcome = door.write(&register.name, written);
                register.wrote(written, outcome);
                outcome == Outcome::Done
            } else {
                let called = register.now();
                let found = door.read(&register.name);
                if let Some(found) = found {
                    self.was_read(&register, found, called);
                }
                found.is_some()
            };
            self.answered[number].fetch_add(u64::from(is_answered), SeqCst);
        }
    }

    /// One of those in use, and now and then an older one.
    fn any(&self, random: &mut Random) -> Arc<Register> {
        let mut all = hold(&self.all);
        if random.below(16) == 0 {
            return Arc::clone(&all[random.place(all.len())]);
        }
        let place = all.len() - SHARED + random.place(SHARED);
        let register = Arc::clone(&all[place]);
        if register.len() < NUMBERS_MAX {
            return register;
        }
        let next = Arc::new(Register::new(format!("shared{}", all.len())));
        // The old one leaves those in use.
        let first = all.len() - SHARED;
        all.swap(first, place);
        all.push(Arc::clone(&next));
        drop(all);
        hold(&self.faults).extend(register.check().err());
        next
    }
}

fn hold<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
