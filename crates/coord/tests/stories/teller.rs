//! Acts the lines of a story: streams ask, the log is written at once or when the story says so, time passes.

use std::collections::{BTreeMap, VecDeque};

use shardine_coord::{
    Ask, ClaimLine, Config, Consistency, Coord, CountersMode, CutStep, Description, Gathered, Leader, Message,
    NodeCall, NodeReply, Opening, Out, Pace, Patience, Refusal, ResourceCall, SessionId, Status, StreamId, Ticket,
    Units,
};
use shardine_story::script::Teller;

use crate::words::{Line, number};

pub struct Stage {
    coord: Coord,
    /// Applies the same entries and never leads.
    follower: Coord,
    leader: Leader,
    out: Out,
    now_ms: u64,
    /// Entries that are not committed yet, while the story holds the log.
    log: VecDeque<Gathered>,
    holds: bool,
    streams: BTreeMap<String, StreamId>,
    names: BTreeMap<StreamId, String>,
    reqs: BTreeMap<String, u64>,
    /// Calls that the story has a name for.
    callers: BTreeMap<Ticket, String>,
    next: u64,
}

impl Stage {
    pub fn open() -> Self {
        let mut stage = Self {
            coord: Coord::new(),
            follower: Coord::new(),
            leader: Leader::new(),
            out: Out::default(),
            now_ms: 1_000_000,
            log: VecDeque::new(),
            holds: false,
            streams: BTreeMap::new(),
            names: BTreeMap::new(),
            reqs: BTreeMap::new(),
            callers: BTreeMap::new(),
            next: 0,
        };
        stage.lead();
        stage
    }

    /// A story ends with replicas that agree.
    pub fn close(mut self) {
        assert_eq!(self.coord.digest(), self.follower.digest(), "replicas have parted");
        let restored = restored(&mut self.coord);
        assert_eq!(self.coord.digest(), restored.digest(), "a snapshot tells something else");
        assert_eq!(self.coord.totals(), restored.totals());
    }

    fn lead(&mut self) {
        self.leader.set_time(&self.coord, self.now_ms, &mut self.out);
        self.leader.take_over(&self.coord, self.now_ms);
    }

    fn stream(&mut self, who: &str, line: &Line<'_>) {
        match line.verb {
            "start" => self.start(who, line),
            "lost" => {
                let stream = self.streams[who];
                self.leader.close(&self.coord, stream);
            }
            _ => self.ask(who, line),
        }
    }

    fn start(&mut self, who: &str, line: &Line<'_>) {
        let stream = match self.streams.get(who) {
            Some(&stream) if line.has("again") => stream,
            _ => self.open_stream(who),
        };
        let opening = Opening {
            path: line.name(0),
            session: SessionId(line.number("session").unwrap_or(0)),
            timeout_ms: line.number("timeout").unwrap_or(5_000),
            description: line.pair("desc").unwrap_or_default(),
            seq_no: line.number("seq").unwrap_or(0),
            protection_key: line.pair("key").unwrap_or_default().into_bytes(),
        };
        self.leader.start(&self.coord, stream, &opening, &mut self.out);
    }

    fn open_stream(&mut self, who: &str) -> StreamId {
        self.next += 1;
        let stream = StreamId(self.next);
        self.streams.insert(who.to_owned(), stream);
        self.names.insert(stream, who.to_owned());
        self.reqs.insert(who.to_owned(), 0);
        stream
    }

    fn ask(&mut self, who: &str, line: &Line<'_>) {
        let count = self.reqs.get_mut(who).expect("the stream was started");
        *count += 1;
        let req = line.number("req").unwrap_or(*count);
        let name = if line.verb == "stop" { String::new() } else { line.name(0) };
        let data = line.pair("data").unwrap_or_default().into_bytes();
        let watch = line.pair("watch").unwrap_or_default();
        let ask = match line.verb {
            "stop" => Ask::Stop,
            "create" => Ask::Create { req, name, limit: line.number("limit").unwrap_or(1), data },
            "update" => Ask::Update { req, name, data },
            "delete" => Ask::Delete { req, name, force: line.has("force") },
            "acquire" => Ask::Acquire {
                req,
                name,
                timeout_ms: line.number("timeout").unwrap_or(u64::MAX),
                count: line.number("count").unwrap_or(1),
                data,
                ephemeral: line.has("ephemeral"),
            },
            "release" => Ask::Release { req, name },
            "describe" => Ask::Describe {
                req,
                name,
                owners: line.has("owners"),
                waiters: line.has("waiters"),
                watch_data: watch == "data" || watch == "both",
                watch_owners: watch == "owners" || watch == "both",
            },
            verb => panic!("what is {verb}?"),
        };
        self.leader.ask(&self.coord, self.streams[who], &ask, &mut self.out);
    }

    fn node(&mut self, line: &Line<'_>) {
        self.next += 1;
        let ticket = Ticket(self.next);
        let config = config_of(line);
        let path = if matches!(line.verb, "list" | "give-up") { String::new() } else { line.name(0) };
        let call = match line.verb {
            "create" => NodeCall::Create { path, config },
            "alter" => NodeCall::Alter { path, config },
            "drop" => NodeCall::Drop { path },
            "describe" => NodeCall::Describe { path },
            "list" => NodeCall::List,
            "give-up" => return self.leader.give_up(line.number("placed").expect("a number"), &mut self.out),
            verb => panic!("what is {verb}?"),
        };
        let placed = line.number("placed").unwrap_or(0);
        self.leader.call_placed(&self.coord, ticket, &call, placed, &mut self.out);
    }

    /// A call about a resource: of the node first, then the resource.
    fn resource(&mut self, line: &Line<'_>) {
        self.next += 1;
        let ticket = Ticket(self.next);
        if let Some(name) = line.pair("as") {
            self.callers.insert(ticket, name);
        }
        let call = match line.verb {
            "create" => ResourceCall::Create(pace_of(line)),
            "alter" => ResourceCall::Alter(pace_of(line)),
            "drop" => ResourceCall::Drop,
            "list" => ResourceCall::List { recursive: line.has("recursive") },
            "describe" => ResourceCall::Describe,
            "acquire" => ResourceCall::Acquire { units: units_of(line), patience: patience_of(line) },
            // Whoever called has left.
            "leave" => {
                let left = self.callers.iter().find(|(_, name)| **name == line.name(0)).map(|(&ticket, _)| ticket);
                return self.leader.withdraw(&self.coord, left.expect("it called"), &mut self.out);
            }
            verb => panic!("what is {verb}?"),
        };
        let call = NodeCall::Resource { node: line.name(0), path: line.name(1), call };
        self.leader.call(&self.coord, ticket, &call, &mut self.out);
    }

    fn world(&mut self, line: &Line<'_>) {
        match line.verb {
            "wait" => {
                let until = self.now_ms + number(line.rest[0]);
                while self.now_ms < until {
                    self.pass((until - self.now_ms).min(100));
                    self.settle();
                }
            }
            // The process stands still, and is woken by a request so much later, before its timers.
            "oversleep" => {
                self.now_ms += number(line.rest[0]);
                self.leader.set_time(&self.coord, self.now_ms, &mut self.out);
            }
            // The process stands still, and wakes up so much later.
            "pause" => self.pass(number(line.rest[0])),
            "hold" => self.holds = true,
            "commit" => self.holds = false,
            "new-leader" => {
                self.leader.step_down(&mut self.out);
                self.lead();
            }
            // One that hears only so much later that it was elected.
            "late-leader" => {
                let elected_ms = self.now_ms;
                self.leader.step_down(&mut self.out);
                self.now_ms += number(line.rest[0]);
                self.leader.set_time(&self.coord, self.now_ms, &mut self.out);
                self.leader.take_over(&self.coord, elected_ms);
            }
            "restart" => {
                self.coord = restored(&mut self.coord);
                self.leader = Leader::new();
                self.lead();
            }
            verb => panic!("what is {verb}?"),
        }
    }

    fn pass(&mut self, ms: u64) {
        self.now_ms += ms;
        self.leader.set_time(&self.coord, self.now_ms, &mut self.out);
        self.leader.tick(&self.coord, &mut self.out);
    }

    /// Everything proposed is committed and applied, unless the story holds the log.
    fn settle(&mut self) {
        loop {
            while let Some(entry) = self.out.take_entry() {
                self.log.push_back(entry);
            }
            if self.holds {
                return;
            }
            let Some(entry) = self.log.pop_front() else { return };
            let (leader, out) = (&mut self.leader, &mut self.out);
            let mut origins = entry.origins.into_iter();
            let each = |coord: &Coord, notices: &mut Vec<_>, outcome| {
                leader.applied(coord, notices, origins.next(), outcome, out);
            };
            self.coord.apply(&entry.bytes, each).expect("our own entries can be read");
            self.follower.apply(&entry.bytes, |_, _, _| {}).expect("our own entries can be read");
            assert_eq!(self.coord.digest(), self.follower.digest(), "replicas have parted");
        }
    }

    fn tell(&mut self) -> Vec<String> {
        let mut told = Vec::new();
        for (ticket, reply) in self.out.replies.drain(..) {
            let caller = self.callers.get(&ticket).map_or_else(String::new, |name| format!("{name}: "));
            told.extend(show_reply(reply).into_iter().map(|line| format!("{caller}{line}")));
        }
        for (stream, message) in self.out.messages.drain(..) {
            told.push(format!("{}: {}", self.names[&stream], show(&message)));
        }
        told
    }
}

impl Teller for Stage {
    fn act(&mut self, line: &str) -> Vec<String> {
        let line = Line::read(line);
        match line.who {
            Some("node") => self.node(&line),
            Some("units") => self.resource(&line),
            Some(who) => self.stream(who, &line),
            None => self.world(&line),
        }
        self.settle();
        self.tell()
    }
}

fn restored(coord: &mut Coord) -> Coord {
    coord.begin_cut();
    let mut chunks = Vec::new();
    while let CutStep::Chunk(chunk) = coord.cut_step() {
        chunks.push(chunk);
    }
    Coord::new().restored(chunks).expect("our own snapshots can be read")
}

fn config_of(line: &Line<'_>) -> Config {
    let consistency = |key| match line.pair(key).as_deref() {
        None => Consistency::Unset,
        Some("strict") => Consistency::Strict,
        Some("relaxed") => Consistency::Relaxed,
        Some(mode) => panic!("what is {mode}?"),
    };
    Config {
        self_check_period_ms: line.number("check").unwrap_or(0) as u32,
        session_grace_period_ms: line.number("grace").unwrap_or(0) as u32,
        read_consistency: consistency("read"),
        attach_consistency: consistency("attach"),
        rate_limiter_counters: match line.pair("counters").as_deref() {
            None => CountersMode::Unset,
            Some("aggregated") => CountersMode::Aggregated,
            Some("detailed") => CountersMode::Detailed,
            Some(mode) => panic!("what is {mode}?"),
        },
    }
}

fn pace_of(line: &Line<'_>) -> Pace {
    let number = |key| line.pair(key).map_or(0.0, |value| value.parse().expect("a number"));
    Pace {
        max_units_per_second: number("rate"),
        max_burst_size_coefficient: number("burst"),
        prefetch_coefficient: number("prefetch"),
        prefetch_watermark: number("watermark"),
    }
}

fn units_of(line: &Line<'_>) -> Units {
    line.number("used").map_or_else(|| Units::Required(line.number("required").unwrap_or(1)), Units::Used)
}

fn patience_of(line: &Line<'_>) -> Option<Patience> {
    let patience = |key, status| line.number(key).map(|ms| Patience { ms, status });
    patience("timeout", Status::Timeout).or(patience("cancel", Status::Cancelled))
}

fn show_pace(pace: &Pace) -> String {
    let Pace { max_units_per_second, max_burst_size_coefficient, prefetch_coefficient, prefetch_watermark } = pace;
    format!(
        "rate={max_units_per_second} burst={max_burst_size_coefficient} prefetch={prefetch_coefficient} watermark={prefetch_watermark}"
    )
}

fn show_reply(reply: NodeReply) -> Vec<String> {
    match reply {
        NodeReply::Done => vec!["done".to_owned()],
        NodeReply::Described { name, config } => vec![format!("{name} {}", show_config(&config))],
        NodeReply::List(lines) => lines
            .iter()
            .map(|line| format!("{} with {} sessions, {} semaphores", line.path, line.sessions, line.semaphores))
            .collect(),
        NodeReply::Resources(paths) => vec![if paths.is_empty() { "nothing".to_owned() } else { paths.join(" ") }],
        NodeReply::Resource { path, pace } => vec![format!("{path} {}", show_pace(&pace))],
        NodeReply::Refused(refusal) => vec![refusal.status.name().to_owned()],
    }
}

fn show_config(config: &Config) -> String {
    format!(
        "check={} grace={} read={:?} attach={:?} counters={:?}",
        config.self_check_period_ms,
        config.session_grace_period_ms,
        config.read_consistency,
        config.attach_consistency,
        config.rate_limiter_counters
    )
    .to_lowercase()
}

fn show(message: &Message) -> String {
    let done = |what: &str, req: &u64, result: &Result<(), Refusal>| match result {
        Ok(()) => format!("{what} #{req}"),
        Err(refusal) => format!("#{req} {}", why(refusal)),
    };
    match message {
        Message::Started { session, .. } => format!("started session {session}"),
        Message::Stopped { session } => format!("stopped session {session}"),
        Message::Failure(refusal) => format!("failure {}", why(refusal)),
        Message::Created { req, result } => done("created", req, result),
        Message::Updated { req, result } => done("updated", req, result),
        Message::Deleted { req, result } => done("deleted", req, result),
        Message::Pending { req } => format!("pending #{req}"),
        Message::Acquired { req, result } => flag("acquired", *req, result),
        Message::Released { req, result } => flag("released", *req, result),
        Message::Described { req, result, watch_added } => {
            let watch = if *watch_added { ", watched" } else { "" };
            match result {
                Ok(found) => format!("#{req} {}{watch}", show_semaphore(found)),
                Err(refusal) => format!("#{req} {}{watch}", why(refusal)),
            }
        }
        Message::Changed { req, data, owners } => match (data, owners) {
            (true, true) => format!("changed #{req}: data and owners"),
            (true, false) => format!("changed #{req}: data"),
            (false, true) => format!("changed #{req}: owners"),
            (false, false) => format!("changed #{req}: spurious"),
        },
    }
}

/// An error always brings its reason along (coordination 82).
fn why(refusal: &Refusal) -> &'static str {
    assert!(!refusal.message.is_empty(), "{:?} without a word", refusal.status);
    refusal.status.name()
}

fn flag(what: &str, req: u64, result: &Result<bool, Refusal>) -> String {
    match result {
        Ok(true) => format!("{what} #{req}"),
        Ok(false) => format!("not {what} #{req}"),
        Err(refusal) => format!("#{req} {}", why(refusal)),
    }
}

fn show_semaphore(found: &Description) -> String {
    let data = shorten(&found.data);
    let kind = if found.ephemeral { " ephemeral" } else { "" };
    let mut text =
        format!("{} {}/{} data={data}{kind}", shorten(found.name.as_bytes()), max(found.count), max(found.limit));
    for (what, lines) in [("owners", &found.owners), ("waiters", &found.waiters)] {
        if !lines.is_empty() {
            let lines: Vec<String> = lines.iter().map(show_claim).collect();
            text += &format!(" {what}[{}]", lines.join(" "));
        }
    }
    text
}

fn show_claim(line: &ClaimLine) -> String {
    let mut text = format!("{}:s{}x{}", line.order, line.session, max(line.count));
    if line.timeout_ms != 0 {
        text += &format!("/{}", max(line.timeout_ms));
    }
    if !line.data.is_empty() {
        text += &format!("={}", shorten(&line.data));
    }
    text
}

fn max(number: u64) -> String {
    if number == u64::MAX { "max".to_owned() } else { number.to_string() }
}

fn shorten(data: &[u8]) -> String {
    if data.len() > 40 {
        return format!("({} bytes)", data.len());
    }
    if data.is_empty() { "''".to_owned() } else { String::from_utf8_lossy(data).into_owned() }
}
