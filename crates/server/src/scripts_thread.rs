//! The thread beside a lane on which scripts run that take longer than the lane's others can wait. It asks the lane for rows one by
//! one, and tells it what came of each script; whether that counts is decided there.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

use shardine_model::{Catalogue, Reply, RowKey, RowKeyBuf, TableId, Timestamp, Version};
use shardine_records::Lookup;
use shardine_router::Program;
use shardine_script::{Limits, Performance, Rows, Stage, Stopped};

use crate::lane::lookup;
use crate::lane_message::{Inbox, LaneMessage};

/// A program to be run.
pub(crate) struct Errand {
    /// What the lane knows it by.
    pub number: u64,
    pub program: Arc<Program>,
    pub catalogue: Arc<Catalogue>,
    pub now: Timestamp,
    /// Set when it is to end.
    pub kill: Arc<AtomicBool>,
    pub inbox: Inbox,
}

/// A row, and where new rows of its table begin.
pub(crate) struct Asked {
    pub reply: Reply,
    pub floor: Version,
}

pub(crate) enum ScriptNews {
    Wants(RowKeyBuf, SyncSender<Asked>),
    Ended(Result<Box<Performance>, Stopped>),
}

/// It ends when its lane is gone. Nobody waits for it: it owns nothing but what it was lent.
pub(crate) struct ScriptsThread {
    errands: Option<Sender<Errand>>,
}

impl ScriptsThread {
    pub fn start(name: String) -> Self {
        let (errands, waiting) = channel();
        let started = std::thread::Builder::new().name(name).spawn(move || work(&waiting));
        Self { errands: started.is_ok().then_some(errands) }
    }

    /// Whether somebody will run it.
    pub fn send(&self, errand: Errand) -> bool {
        self.errands.as_ref().is_some_and(|errands| errands.send(errand).is_ok())
    }
}

fn work(waiting: &Receiver<Errand>) {
    let Ok(mut stage) = Stage::new(Arc::default()) else { return };
    while let Ok(errand) = waiting.recv() {
        let mut rows = There { errand: &errand, known: BTreeMap::new(), floors: BTreeMap::new() };
        let ended = stage.perform(&errand.program, &mut rows, errand.now, Limits::BESIDE, Some(&errand.kill));
        let news = ScriptNews::Ended(ended.map(Box::new));
        errand.inbox.send(LaneMessage::Script { number: errand.number, news });
    }
}

/// Rows that the lane has told.
struct There<'e> {
    errand: &'e Errand,
    known: BTreeMap<RowKeyBuf, Reply>,
    floors: BTreeMap<TableId, Version>,
}

impl Rows for There<'_> {
    fn catalogue(&self) -> &Catalogue {
        &self.errand.catalogue
    }

    fn look(&mut self, row: RowKey<'_>) -> Option<Lookup<'_>> {
        let row = row.to_owned();
        if !self.known.contains_key(&row) {
            let (teller, told) = sync_channel(1);
            let news = ScriptNews::Wants(row.clone(), teller);
            self.errand.inbox.send(LaneMessage::Script { number: self.errand.number, news });
            // If nobody tells, the run is not waited for any longer.
            let Asked { reply, floor } = told.recv().ok()?;
            self.floors.insert(row.table, floor);
            self.known.insert(row.clone(), reply);
        }
        self.known.get(&row).and_then(lookup)
    }

    fn floor(&self, table: TableId) -> Version {
        self.floors.get(&table).copied().unwrap_or(Version::NEVER)
    }
}
