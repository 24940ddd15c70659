//! A network between nodes on one machine: each lives in a namespace of its own, and every packet between two of them passes
//! this one, where it can be lost in either direction, or made to wait. Only inside of [`crate::namespace`].

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::process::Command;

use anyhow::Result;

use crate::namespace::run;

/// What a slow link holds back before it loses packets: more than a second at the slowest rate would be a cut.
const HELD_BACK: &str = "32kb";

#[derive(Default)]
pub struct Network {
    /// From, to.
    cuts: BTreeSet<(usize, usize)>,
    slow: BTreeSet<usize>,
    count: usize,
}

impl Network {
    /// A namespace for each of so many nodes.
    pub fn make(count: usize) -> Result<Network> {
        (0..count).try_for_each(make_node)?;
        Ok(Network { count, ..Network::default() })
    }

    /// Where a node is reached, by others and from here.
    pub fn host(place: usize) -> IpAddr {
        IpAddr::V4(Ipv4Addr::new(10, 77, number(place), 2))
    }

    /// What stands before a command that is to run at a node.
    pub fn enter(place: usize) -> Vec<String> {
        vec!["nsenter".to_owned(), format!("--net=/run/netns/{}", name(place))]
    }

    /// From now on nothing arrives at the one from the other, and nobody is told.
    pub fn cut(&mut self, from: usize, to: usize) -> Result<()> {
        if self.cuts.insert((from, to)) { rule("add", from, to) } else { Ok(()) }
    }

    /// Cuts a node off from all others, in one direction or in both.
    pub fn isolate(&mut self, place: usize, out: bool, back: bool) -> Result<()> {
        for other in (0..self.count).filter(|other| *other != place) {
            if out {
                self.cut(place, other)?;
            }
            if back {
                self.cut(other, place)?;
            }
        }
        Ok(())
    }

    /// No more than so many thousand bits pass to and from a node in a second; what is beyond waits, and then is lost.
    pub fn slow(&mut self, place: usize, kbit: u64) -> Result<()> {
        let rate = format!("{kbit}kbit");
        let shape = ["root", "tbf", "rate", &rate, "burst", "4kb", "limit", HELD_BACK];
        run(Command::new("tc").args(["qdisc", "replace", "dev", &name(place)]).args(shape))?;
        run(Command::new("tc").args(["-n", &name(place), "qdisc", "replace", "dev", "eth0"]).args(shape))?;
        self.slow.insert(place);
        Ok(())
    }

    /// As it was at first.
    pub fn heal(&mut self) -> Result<()> {
        for (from, to) in std::mem::take(&mut self.cuts) {
            rule("del", from, to)?;
        }
        for place in std::mem::take(&mut self.slow) {
            run(Command::new("tc").args(["qdisc", "del", "dev", &name(place), "root"]))?;
            run(Command::new("tc").args(["-n", &name(place), "qdisc", "del", "dev", "eth0", "root"]))?;
        }
        Ok(())
    }
}

/// Network, namespace and our end of its only link have the same name.
fn make_node(place: usize) -> Result<()> {
    let (name, number) = (name(place), number(place));
    let (here, there) = (format!("10.77.{number}.1"), format!("10.77.{number}.2/24"));
    let ip = |line: &str| run(Command::new("ip").args(line.split(' ')));
    ip(&format!("netns add {name}"))?;
    ip(&format!("link add {name} type veth peer name eth0 netns {name}"))?;
    ip(&format!("addr add {here}/24 dev {name}"))?;
    ip(&format!("link set {name} up"))?;
    ip(&format!("-n {name} addr add {there} dev eth0"))?;
    ip(&format!("-n {name} link set eth0 up"))?;
    ip(&format!("-n {name} link set lo up"))?;
    ip(&format!("-n {name} route add default via {here}"))
}

fn rule(deed: &str, from: usize, to: usize) -> Result<()> {
    let (from, to) = (Network::host(from).to_string(), Network::host(to).to_string());
    run(Command::new("ip").args(["rule", deed, "from", &from, "to", &to, "blackhole"]))
}

fn name(place: usize) -> String {
    format!("n{}", place + 1)
}

fn number(place: usize) -> u8 {
    u8::try_from(place + 1).expect("a cluster of a test is small")
}
