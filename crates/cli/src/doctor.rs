//! `doctor`: looks for what makes a node slow or unsafe, and says what to do about each finding.

mod joining;

use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use clap::Args;
use rustix::process::{Resource, getrlimit};
use serde_json::json;
use shardine_proto::v1;

use self::joining::Candidate;
use crate::args::ServerArgs;
use crate::cluster::{is_well, size};
use crate::complaint::{Code, Complaint};
use crate::connection::Connection;
use crate::show::{self, Output};

/// Files that one node may want: 10,000 Redis connections, 16,000 of gRPC, 2,048 of HTTP, log and snapshots.
const FILES_WANTED: u64 = 32_768;
const SPACE_WANTED: u64 = 1 << 30;
const SYNC_GOOD: Duration = Duration::from_millis(10);
const SYNC_ROUNDS: usize = 32;
const DIRTY_WORRYING: u64 = 100_000;
/// Rows of a table that are compared with SQL where it is ahead, and how many are named.
const AHEAD_ROWS_MAX: u64 = 100_000;
const AHEAD_EXAMPLES: usize = 3;
/// 2026: a clock before the day this was written is not set.
const EARLIEST_SECONDS: u64 = 1_767_225_600;

#[derive(Args)]
pub struct DoctorArgs {
    /// The data directory to look at
    #[arg(long, env = "SHARDINE_DATA", default_value = "shardine-data", value_name = "DIR")]
    data: PathBuf,
    /// The Redis door
    #[arg(long, env = "SHARDINE_REDIS", default_value = "127.0.0.1:7379", value_name = "ADDR")]
    redis: SocketAddr,
    /// The HTTP door
    #[arg(long, env = "SHARDINE_HTTP", default_value = "127.0.0.1:7480", value_name = "ADDR")]
    http: SocketAddr,
    /// Before `start`: what the node is to be called
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Before `start`: gRPC doors of nodes of the cluster that it is to join, or to come back to
    #[arg(long, value_name = "ADDR", value_delimiter = ',')]
    join: Vec<String>,
    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Grade {
    Good,
    Warning,
    Bad,
}

struct Finding {
    check: &'static str,
    grade: Grade,
    found: String,
    remedy: String,
}

impl Finding {
    fn good(check: &'static str, found: impl Into<String>) -> Self {
        Self { check, grade: Grade::Good, found: found.into(), remedy: String::new() }
    }

    fn warning(check: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { check, grade: Grade::Warning, found: found.into(), remedy: remedy.into() }
    }

    fn bad(check: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { check, grade: Grade::Bad, found: found.into(), remedy: remedy.into() }
    }
}

pub async fn run(args: DoctorArgs, output: Output) -> Result<(), Complaint> {
    let mut findings = vec![data_dir(&args.data), free_space(&args.data), sync_latency(&args.data)];
    findings.extend([file_limit(), huge_pages(), clock()]);
    let candidate = Candidate { data: &args.data, name: args.name.as_deref(), join: &args.join };
    findings.extend(joining::look(&candidate, &args.server).await);
    let status = ask(&args.server).await;
    let serving = status.is_ok();
    findings.push(door("redis port", args.redis, serving));
    findings.push(door("http port", args.http, serving));
    match status {
        Ok(status) => {
            findings.extend([reachable(&args.server), version(&status), shards(&status), sql(&status)]);
            for table in status.writeback.iter().flat_map(|sql| &sql.tables_ahead) {
                findings.push(ahead(&args.server, table).await);
            }
            findings.extend(tables_in_trouble(&args.server).await);
        }
        Err(complaint) => findings.push(unreachable(&args.server, &complaint)),
    }
    let bad = findings.iter().filter(|finding| finding.grade == Grade::Bad).count();
    report(&findings, output);
    if bad == 0 {
        return Ok(());
    }
    let what = format!("{bad} of {} checks failed", findings.len());
    Err(Complaint::failed(what, "see the findings", "the remedies beside them").coded(Code::Unfit))
}

async fn ask(server: &ServerArgs) -> Result<v1::StatusReply, Complaint> {
    let mut connection = Connection::open(server).await?;
    let reply = connection.cluster.status(v1::StatusRequest {}).await;
    Ok(reply.map_err(|status| Complaint::from_status(&status))?.into_inner())
}

fn report(findings: &[Finding], output: Output) {
    let word = |grade: Grade| match grade {
        Grade::Good => "ok",
        Grade::Warning => "warning",
        Grade::Bad => "FAILED",
    };
    output.print(
        || {
            let rows = findings.iter().map(|finding| {
                [word(finding.grade).to_owned(), finding.check.to_owned(), finding.found.clone(), finding.remedy.clone()]
            });
            show::table(["", "CHECK", "FOUND", "TRY"], rows.collect())
        },
        || {
            let findings = findings.iter().map(|finding| {
                json!({ "check": finding.check, "grade": word(finding.grade).to_ascii_lowercase(), "found": finding.found, "try": finding.remedy })
            });
            json!({ "findings": findings.collect::<Vec<_>>() })
        },
    );
}

fn data_dir(path: &Path) -> Finding {
    const CHECK: &str = "data directory";
    let shown = path.display();
    match std::fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Finding::good(CHECK, format!("{shown} does not exist yet; up makes it"))
        }
        Err(error) => Finding::bad(CHECK, format!("{shown}: {error}"), "run as the user who owns it"),
        Ok(found) if !found.is_dir() => Finding::bad(CHECK, format!("{shown} is not a directory"), "--data DIR"),
        Ok(found) if found.permissions().mode() & 0o077 != 0 => {
            let mode = found.permissions().mode() & 0o777;
            Finding::warning(CHECK, format!("{shown} is open to others (mode {mode:o})"), format!("chmod 700 {shown}"))
        }
        Ok(found) if found.uid() != rustix::process::geteuid().as_raw() => {
            Finding::bad(CHECK, format!("{shown} belongs to user {}", found.uid()), "run as that user")
        }
        Ok(_) => Finding::good(CHECK, format!("{shown} is ours alone")),
    }
}

/// The directory itself, or the nearest one above it that exists.
fn nearest(path: &Path) -> &Path {
    let existing = path.ancestors().find(|ancestor| ancestor.is_dir());
    existing.filter(|ancestor| !ancestor.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."))
}

fn free_space(path: &Path) -> Finding {
    const CHECK: &str = "free space";
    match rustix::fs::statvfs(nearest(path)) {
        Err(error) => Finding::warning(CHECK, error.to_string(), "df"),
        Ok(found) => {
            let free = found.f_bavail * found.f_frsize;
            if free >= SPACE_WANTED {
                Finding::good(CHECK, size(free))
            } else {
                Finding::bad(CHECK, format!("only {}", size(free)), "free at least 1 GiB; a full disk stops the node")
            }
        }
    }
}

/// Every answered write waits for one of these.
fn sync_latency(path: &Path) -> Finding {
    const CHECK: &str = "disk sync";
    match measure_sync(nearest(path)) {
        Err(error) => Finding::warning(CHECK, error.to_string(), "run where the data directory may be written"),
        Ok(mut times) => {
            times.sort_unstable();
            let (median, worst) = (times[times.len() / 2], times[times.len() - 1]);
            let found = format!("median {:.2} ms, worst {:.2} ms", ms(median), ms(worst));
            if median <= SYNC_GOOD {
                Finding::good(CHECK, found)
            } else {
                Finding::warning(CHECK, found, "a local SSD; every write waits for its sync")
            }
        }
    }
}

fn measure_sync(dir: &Path) -> io::Result<Vec<Duration>> {
    let path = dir.join(format!(".shardine-doctor-{}", std::process::id()));
    let measured = std::fs::File::create_new(&path).and_then(|mut file| {
        let mut times = Vec::with_capacity(SYNC_ROUNDS);
        for _ in 0..SYNC_ROUNDS {
            let begun = Instant::now();
            file.write_all(&[0; 4_096])?;
            file.sync_data()?;
            times.push(begun.elapsed());
        }
        Ok(times)
    });
    // It may never have been made.
    let _ = std::fs::remove_file(&path);
    measured
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}

fn file_limit() -> Finding {
    const CHECK: &str = "open files";
    // The softer limit is raised by `up` itself.
    match getrlimit(Resource::Nofile).maximum {
        Some(limit) if limit < FILES_WANTED => Finding::warning(
            CHECK,
            format!("limit {limit}"),
            format!("ulimit -n {FILES_WANTED}, or LimitNOFILE in systemd"),
        ),
        Some(limit) => Finding::good(CHECK, format!("limit {limit}")),
        None => Finding::good(CHECK, "no limit"),
    }
}

fn huge_pages() -> Finding {
    const CHECK: &str = "huge pages";
    match std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled") {
        Ok(text) if text.contains("[always]") => Finding::warning(
            CHECK,
            "transparent huge pages are always on; they cost memory and latency",
            "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
        ),
        Ok(_) => Finding::good(CHECK, "not forced"),
        Err(_) => Finding::good(CHECK, "not known to this system"),
    }
}

fn clock() -> Finding {
    const CHECK: &str = "clock";
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    if now < EARLIEST_SECONDS {
        return Finding::bad(CHECK, "it shows a time that is long past", "set it; times to live follow it");
    }
    let begun = Instant::now();
    std::thread::sleep(Duration::from_millis(20));
    if begun.elapsed() < Duration::from_millis(20) {
        return Finding::bad(CHECK, "the steady clock does not move as it should", "another clock source");
    }
    Finding::good(CHECK, "set and moving")
}

fn door(check: &'static str, address: SocketAddr, serving: bool) -> Finding {
    let open = TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_ok();
    match (open, serving) {
        (true, true) => Finding::good(check, format!("{address} is served")),
        (true, false) => Finding::bad(check, format!("{address} is taken by another program"), "another address"),
        (false, true) => {
            Finding::warning(check, format!("nothing listens at {address}"), "the address the server was given")
        }
        (false, false) => match TcpListener::bind(address) {
            Ok(_) => Finding::good(check, format!("{address} is free")),
            Err(error) => Finding::bad(check, format!("{address}: {error}"), "another address"),
        },
    }
}

fn reachable(server: &ServerArgs) -> Finding {
    Finding::good("server", format!("{} answers", server.server))
}

fn unreachable(server: &ServerArgs, complaint: &Complaint) -> Finding {
    // A node that is not started yet is no fault; a door that is taken by somebody else shows above.
    Finding::warning("server", format!("{}: {}", server.server, complaint.what), complaint.remedy.clone())
}

fn version(status: &v1::StatusReply) -> Finding {
    let ours = env!("CARGO_PKG_VERSION");
    if status.version == ours {
        return Finding::good("version", ours);
    }
    let found = format!("server {}, this command {ours}", status.version);
    Finding::warning("version", found, "the same version on both sides")
}

fn shards(status: &v1::StatusReply) -> Finding {
    let lame: Vec<String> =
        status.shards.iter().filter(|shard| !is_well(shard)).map(|shard| shard.id.to_string()).collect();
    if lame.is_empty() {
        return Finding::good("shards", format!("{} serve", status.shards.len()));
    }
    let mut found = format!("not serving: {}", lame.join(", "));
    for shard in status.shards.iter().filter(|shard| !shard.stopped.is_empty()) {
        found.push_str(&format!("; {}", shard.stopped));
    }
    Finding::bad("shards", found, "docs/damage.md; the server's log")
}

fn sql(status: &v1::StatusReply) -> Finding {
    const CHECK: &str = "SQL";
    match &status.writeback {
        None => Finding::good(CHECK, "none behind this node"),
        Some(sql) if !sql.connected => {
            let found = format!("{} cannot be reached: {}", sql.url, sql.last_error);
            Finding::bad(CHECK, found, "bring it back; resident records are served meanwhile")
        }
        Some(sql) if sql.dirty > DIRTY_WORRYING => Finding::warning(
            CHECK,
            format!("{} rows wait to be written", sql.dirty),
            "a faster database, or fewer changes",
        ),
        Some(sql) => Finding::good(CHECK, format!("{} connected, {} rows to write", sql.url, sql.dirty)),
    }
}

/// A table of which nothing is written, because the data directory is older than what SQL holds.
async fn ahead(server: &ServerArgs, table: &str) -> Finding {
    let found = match compare(server, table).await {
        Ok(found) => found,
        Err(complaint) => format!("; the rows could not be compared: {}", complaint.what),
    };
    Finding::bad(
        "SQL ahead",
        format!(
            "table {table}: SQL was written from a longer log than this directory has; nothing of it is written{found}"
        ),
        "put the newest copy of the data directory back: docs/damage.md, \"An old copy\"",
    )
}

/// In how many rows SQL is ahead, and some of them.
async fn compare(server: &ServerArgs, table: &str) -> Result<String, Complaint> {
    let mut connection = Connection::open(server).await?;
    let (mut compared, mut newer, mut examples, mut cursor) = (0, 0, Vec::new(), Vec::new());
    loop {
        let request = v1::VerifyRequest { table: table.to_owned(), limit: 1_000, cursor };
        let reply = connection.cluster.verify(request).await;
        let page = reply.map_err(|status| Complaint::from_status(&status))?.into_inner();
        compared += page.equal + page.differences.len() as u64;
        for row in page.differences.iter().filter(|row| row.kind() == v1::DifferenceKind::Newer) {
            newer += 1;
            if examples.len() < AHEAD_EXAMPLES {
                let name = row.row.as_ref().map(show::row).unwrap_or_default();
                examples.push(format!("{name} (SQL {}, memory {})", row.sql_version, row.memory_version));
            }
        }
        if page.next.is_empty() || compared >= AHEAD_ROWS_MAX {
            let named = if examples.is_empty() { String::new() } else { format!(": {}", examples.join(", ")) };
            return Ok(format!("; SQL holds a newer version of {newer} of {compared} rows compared{named}"));
        }
        cursor = page.next;
    }
}

/// Tables that SQL can be reached for and that are left alone for a while all the same: they are not what they should be.
async fn tables_in_trouble(server: &ServerArgs) -> Vec<Finding> {
    let Ok(mut connection) = Connection::open(server).await else { return Vec::new() };
    let Ok(reply) = connection.cluster.writeback_status(v1::WritebackStatusRequest {}).await else { return Vec::new() };
    let reply = reply.into_inner();
    let is_connected = reply.database.is_some_and(|database| database.connected);
    let is_stuck = |table: &v1::TableWriteback| {
        is_connected && table.paused_ms > 0 && !table.last_error.is_empty() && table.ahead.is_empty()
    };
    let finding = |table: v1::TableWriteback| {
        let said = show::ago(&table.last_error, table.last_error_ago_ms);
        let found = format!("table {}: {} rows wait; {said}", table.table, table.dirty_rows);
        Finding::bad("SQL table", found, "what it says; docs/sql.md, \"Errors\"")
    };
    reply.tables.into_iter().filter(is_stuck).map(finding).collect()
}
