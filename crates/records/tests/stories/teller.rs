//! A shard that acts the lines of a story. A second replica with another hash seed follows every entry, and after every
//! line both must be equal (records 69).

use std::collections::VecDeque;

use shardine_model::entry::{LoadedRow, RaisedRow, RefusedRow, SettledRow, open_commands};
use shardine_model::key::Interval;
use shardine_model::{
    Answer, Catalogue, Entry, Position, ReplicaId, Request, RequestEpoch, RowImage, RowKey, RowKeyBuf, Timestamp,
    Version,
};
use shardine_records::{Nobody, Records, Scan, ScanFrom, Sink};
use shardine_story::script::Teller;
use shardine_story::{epochs, show, words};

use crate::snapshots;

pub struct Shard {
    records: Records,
    follower: Records,
    /// The stamp of the leader's next entry, and what its requests were routed and read by.
    now: Timestamp,
    epoch: RequestEpoch,
}

impl Default for Shard {
    fn default() -> Self {
        let (records, follower) = (Records::new(1), Records::new(2));
        Self { records, follower, now: Timestamp(1_000), epoch: RequestEpoch::FIRST }
    }
}

/// Writes down what an entry led to.
struct Told<'a> {
    catalogue: Catalogue,
    requests: VecDeque<Request<'a>>,
    lines: Vec<String>,
    dirty: Vec<RowKeyBuf>,
}

impl Told<'_> {
    fn next_rows(&mut self) -> Vec<RowKeyBuf> {
        let request = self.requests.pop_front().expect("one outcome per request");
        request.rows().map(RowKey::to_owned).collect()
    }

    fn take_dirty(&mut self) -> Option<String> {
        if self.dirty.is_empty() {
            return None;
        }
        let rows: Vec<String> = self.dirty.drain(..).map(|row| show::address(&self.catalogue, row.as_ref())).collect();
        Some(format!("dirty {}", rows.join(" ")))
    }
}

impl Sink for Told<'_> {
    fn answer(&mut self, answer: Answer) {
        let rows = self.next_rows();
        let rows: Vec<RowKey<'_>> = rows.iter().map(RowKeyBuf::as_ref).collect();
        let mut line = show::answer(&self.catalogue, &answer, &rows);
        if let Some(dirty) = self.take_dirty() {
            line = format!("{line}, {dirty}");
        }
        self.lines.push(line);
    }

    fn not_resident(&mut self, _: &[u8], missing: Vec<RowKeyBuf>) {
        self.next_rows();
        let rows: Vec<String> = missing.iter().map(|row| show::address(&self.catalogue, row.as_ref())).collect();
        self.lines.push(format!("not resident: {}", rows.join(" ")));
    }

    fn dirty(&mut self, row: RowKey<'_>) {
        self.dirty.push(row.to_owned());
    }
}

impl Teller for Shard {
    fn act(&mut self, line: &str) -> Vec<String> {
        let outcomes = self.act_line(line);
        assert_eq!(self.records.state_hash(), self.follower.state_hash(), "replicas part after: {line}");
        outcomes
    }
}

impl Shard {
    fn act_line(&mut self, line: &str) -> Vec<String> {
        if let Some(requests) = line.strip_prefix("together: ") {
            return self.commands(&requests.split(" | ").collect::<Vec<_>>());
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[0] {
            "at" => {
                self.now = Timestamp(words[1].parse().expect("a time in milliseconds"));
                Vec::new()
            }
            "epoch" => {
                self.epoch = epochs::epoch(words[1]);
                Vec::new()
            }
            "shard" => self.open_again(words[1]),
            "owns" => self.own(words[1], words[2]),
            "get" => vec![self.get(words[1])],
            "raw" => self.apply(&bytes(&words[1..]), &[]),
            "cut" => self.cut(),
            "restore" => self.restore(),
            "count" => vec![self.count(words.get(1).copied())],
            "dirty" => vec![self.dirty()],
            "letters" => self.letters(),
            "lease" if words.len() == 1 => vec![self.lease()],
            "due" => vec![self.due()],
            "scan" => self.scan(words[1]),
            _ => match self.own_entry(&words) {
                Some(outcomes) => outcomes,
                None => self.commands(&[line]),
            },
        }
    }

    /// A story about epochs begins by saying in which one the shard is.
    fn open_again(&mut self, epoch: &str) -> Vec<String> {
        let epoch = epochs::epoch(epoch);
        let open = |seed| Records::new(seed).at_epoch(epoch.generation, epoch.range);
        *self = Self { records: open(1), follower: open(2), epoch, ..Self::default() };
        Vec::new()
    }

    /// `owns LO HI`: from now on the shard has this interval, as if it had been parted. `-` is the end of all positions.
    fn own(&mut self, lo: &str, hi: &str) -> Vec<String> {
        let position = |hex| u64::from_str_radix(hex, 16).ok().map(Position);
        let interval = Interval { lo: position(lo).expect("a position"), hi: position(hi) };
        for records in [&mut self.records, &mut self.follower] {
            *records = std::mem::replace(records, Records::new(1)).owning(interval);
        }
        Vec::new()
    }

    fn letters(&self) -> Vec<String> {
        let catalogue = self.records.catalogue();
        let shown = self.records.dead_letters().map(|(row, letter)| {
            let address = show::address(catalogue, row);
            let (first, last) = (letter.first_at.0, letter.last_at.0);
            format!("{address}@v{} {:?} tries {} from {first} to {last}", letter.version, letter.error, letter.tries)
        });
        shown.collect()
    }

    /// Entries that a leader makes by itself.
    fn own_entry(&mut self, words: &[&str]) -> Option<Vec<String>> {
        let catalogue = self.records.catalogue().clone();
        let row = |text: &str| words::address(&catalogue, text);
        let versioned = || -> Vec<(RowKey<'static>, Version)> {
            words[1..].chunks(2).map(|pair| (row(pair[0]), words::version(pair[1]))).collect()
        };
        let entry = match words[0] {
            "table" => {
                self.apply(&epochs::definition(&catalogue, &words[1..]).to_bytes(), &[]);
                return Some(vec![self.definition(words[1])]);
            }
            "load" => {
                let table = catalogue.get(row(words[1]).table).map(|table| &**table);
                let fields: Vec<_> = words[3..].iter().map(|word| words::field_value(table, word)).collect();
                let image = RowImage::of(&fields);
                let loaded = LoadedRow { row: row(words[1]), version: words::version(words[2]), fields: &image.packed };
                Entry::Load(vec![loaded]).to_bytes()
            }
            "kick" => Entry::Kick(versioned()).to_bytes(),
            "written" => Entry::Written(versioned()).to_bytes(),
            "refused" => {
                let error = words[3..].join(" ");
                let refused = RefusedRow { row: row(words[1]), version: words::version(words[2]), error: &error };
                Entry::Refused { at: self.now, rows: vec![refused] }.to_bytes()
            }
            "settle" => {
                let table = catalogue.get(row(words[1]).table).map(|table| &**table);
                let fields: Vec<_> = words[5..].iter().map(|word| words::field_value(table, word)).collect();
                let image = RowImage::of(&fields);
                let [expected, version, sql_version] = [2, 3, 4].map(|place| words::version(words[place]));
                let fields = &image.packed;
                Entry::Settle(SettledRow { row: row(words[1]), expected, version, sql_version, fields }).to_bytes()
            }
            "raise" => {
                let [expected, held] = [2, 3].map(|place| words::version(words[place]));
                Entry::Raise(vec![RaisedRow { row: row(words[1]), expected, held }]).to_bytes()
            }
            "purge" => Entry::Purge(versioned()).to_bytes(),
            "expire" => {
                let rows = words[1..].iter().map(|text| row(text)).collect();
                Entry::Expire { at: self.now, rows }.to_bytes()
            }
            "clear" => Entry::Clear { table: catalogue.named(words[1]).expect("a known table").id }.to_bytes(),
            "lease" => {
                let number = |place: usize| words[place].parse::<u64>().expect("lease NODE TERM LENGTH");
                let (holder, term, length_ms) = (ReplicaId(number(1)), number(2), number(3));
                let outcomes = self.apply(&Entry::Lease { holder, term, length_ms }.to_bytes(), &[]);
                assert!(outcomes.is_empty(), "a lease answers nobody");
                return Some(vec![self.lease()]);
            }
            _ => return None,
        };
        Some(self.apply(&entry, &[]))
    }

    /// One entry with these requests, stamped now.
    fn commands(&mut self, lines: &[&str]) -> Vec<String> {
        let catalogue = self.records.catalogue().clone();
        let parse = |line: &&str| words::request(&catalogue, line).unwrap_or_else(|| panic!("{line:?} says nothing"));
        let requests: Vec<Request<'static>> = lines.iter().map(parse).collect();
        let mut entry = Vec::new();
        open_commands(&mut entry, self.now, self.epoch);
        requests.iter().for_each(|request| request.encode(&mut entry));
        self.apply(&entry, &requests)
    }

    fn apply(&mut self, entry: &[u8], requests: &[Request<'static>]) -> Vec<String> {
        let mut told = Told {
            catalogue: self.records.catalogue().clone(),
            requests: requests.iter().cloned().collect(),
            lines: Vec::new(),
            dirty: Vec::new(),
        };
        let applied = self.records.apply(entry, &mut told);
        let followed = self.follower.apply(entry, &mut Nobody);
        assert_eq!(applied, followed, "an entry is the same on every replica");
        let dirty = told.take_dirty();
        told.lines.extend(dirty);
        told.lines.extend(applied.err().map(|fatal| format!("stops: {fatal}")));
        told.lines
    }

    fn get(&self, text: &str) -> String {
        let row = words::address(self.records.catalogue(), text);
        let table = self.records.catalogue().get(row.table).map(|table| &**table);
        show::lookup(table, &self.records.get(row.position(), row))
    }

    fn definition(&self, name: &str) -> String {
        match self.records.catalogue().named(name) {
            None => format!("no table {name}"),
            Some(table) => {
                let fields: Vec<&str> = table.fields.iter().map(|field| field.name.as_str()).collect();
                format!("{name} version {} has {}", table.version, fields.join(" "))
            }
        }
    }

    fn count(&self, table: Option<&str>) -> String {
        let id = table.map(|name| self.records.catalogue().named(name).expect("a known table").id);
        self.records.live_count(id).to_string()
    }

    fn dirty(&self) -> String {
        let rows: Vec<_> = self.records.dirty_versions(None).into_iter().map(|dirty| dirty.row).collect();
        assert_eq!(rows.len() as u64, self.records.dirty_count(), "the count is kept as records change");
        format!("[{}]", self.addresses(&rows))
    }

    fn lease(&self) -> String {
        match self.records.lease() {
            Some(lease) => format!("node {} in term {} for {} ms", lease.holder, lease.term, lease.length_ms),
            None => "nobody".to_owned(),
        }
    }

    /// What upkeep would find now: records to expire, and tombstones made before now.
    fn due(&self) -> String {
        let expiries: Vec<RowKeyBuf> = self.records.due_expiries(self.now).map(RowKey::to_owned).collect();
        let purges = self.records.due_purges(self.now);
        let purges: Vec<String> = purges.map(|(row, version)| format!("{}@v{version}", self.address(row))).collect();
        format!("expire [{}] purge [{}]", self.addresses(&expiries), purges.join(" "))
    }

    fn scan(&self, table: &str) -> Vec<String> {
        let table = self.records.catalogue().named(table).expect("a known table");
        let scan =
            Scan { table: Some(table.id), from: ScanFrom::Position(Position(0)), limit: 100, whole_positions: false };
        let mut lines = Vec::new();
        self.records.scan(&scan, |_, row, view| {
            lines.push(format!("{} {}", self.address(row), show::row(Some(table), &view)));
        });
        lines
    }

    /// Fixes the state; what happens until `restore` must not be in the snapshot.
    fn cut(&mut self) -> Vec<String> {
        self.records.begin_cut();
        Vec::new()
    }

    /// Replaces the state by the snapshot, cut now if none is running. The follower gets it too, over what it had.
    fn restore(&mut self) -> Vec<String> {
        if !self.records.is_cutting() {
            self.records.begin_cut();
        }
        let chunks = snapshots::rest_of_cut(&mut self.records);
        (self.records, self.follower) = (snapshots::restore(3, &chunks), snapshots::restore(4, &chunks));
        vec![format!("{} live", self.records.live_count(None))]
    }

    fn address(&self, row: RowKey<'_>) -> String {
        show::address(self.records.catalogue(), row)
    }

    fn addresses(&self, rows: &[RowKeyBuf]) -> String {
        let shown: Vec<String> = rows.iter().map(|row| self.address(row.as_ref())).collect();
        shown.join(" ")
    }
}

fn bytes(words: &[&str]) -> Vec<u8> {
    words.iter().map(|word| u8::from_str_radix(word, 16).expect("bytes in hex")).collect()
}
