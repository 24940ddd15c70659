//! A cluster of three under measurement. All keys that it is loaded with have one tag, so that one group has them all, and one node
//! is asked at the place of its leader and others are not.

use anyhow::{Context, Result, ensure};
use serde_json::Value as Json;
use shardine_testkit::{Cluster, PATIENCE, find_binary, wait_for};

use super::MEMBERS;
use crate::speed::{args::Options, procfs, records, workplace::Workplace};

/// What the keys of a load begin with.
pub const PREFIX: &str = "user:{tag}";

pub struct Site {
    pub cluster: Cluster,
}

impl Site {
    pub fn start(place: &Workplace, options: &Options, init: &[&str]) -> Result<Site> {
        let binary = options.subject_bin.clone().map_or_else(find_binary, Ok)?;
        Ok(Site { cluster: Cluster::form_in(place.dir()?, binary, MEMBERS, init, &[])? })
    }

    /// Writes the records of a load.
    pub fn load(&self, count: u64) -> Result<()> {
        records::load_under(PREFIX, &mut self.cluster.client(self.leader()?)?, count)
    }

    /// The place of the node that leads the group of the keys.
    pub fn leader(&self) -> Result<usize> {
        wait_for("the group to have a leader", PATIENCE, || {
            let Ok(told) = self.ask(&["explain", &format!("kv:{PREFIX}")]) else { return Ok(None) };
            Ok(told["shards"][0]["leader_name"].as_str().and_then(|name| self.place(name)))
        })
    }

    /// The place of a node that does not lead it.
    pub fn follower(&self) -> Result<usize> {
        Ok((self.leader()? + 1) % MEMBERS)
    }

    /// The place of the node that leads the coordination group.
    pub fn coordinator(&self) -> Result<usize> {
        wait_for("coordination to have a leader", PATIENCE, || {
            let Ok(told) = self.ask(&["status"]) else { return Ok(None) };
            let leader = told["coordination"][0]["leader"].as_u64();
            let nodes = told["nodes"].as_array().into_iter().flatten();
            let mut led = nodes.filter(|node| leader.is_some() && node["id"].as_u64() == leader);
            Ok(led.next().and_then(|node| node["name"].as_str()).and_then(|name| self.place(name)))
        })
    }

    fn place(&self, name: &str) -> Option<usize> {
        self.cluster.nodes.iter().position(|node| node.name == name)
    }

    /// Asks any node that runs.
    fn ask(&self, args: &[&str]) -> Result<Json> {
        let running = (0..MEMBERS).find(|place| self.cluster.pid(*place).is_some());
        let mut command = self.cluster.command(running.context("a node runs")?, args);
        let output = command.arg("--json").output()?;
        ensure!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(serde_json::from_slice(&output.stdout)?)
    }

    /// CPU time that all nodes together have taken, in seconds.
    pub fn cpu_seconds(&self) -> Result<f64> {
        let pids = (0..MEMBERS).filter_map(|place| self.cluster.pid(place));
        pids.map(|pid| Ok(procfs::cpu_time(pid)?.as_secs_f64())).sum()
    }
}
