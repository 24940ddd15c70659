//! What every program tells of itself, by the names that dashboards know. Read from the kernel when asked for.

use super::page::Page;

/// Of the kernel's accounts of time; the same on every Linux that this runs on.
const TICKS_PER_SECOND: f64 = 100.0;
const PAGE_BYTES: u64 = 4_096;

pub(super) fn write(page: &mut Page) {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The second field is a name that may hold spaces; behind its bracket the fields are numbers. The first here is the third.
    let fields: Vec<&str> = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().collect();
    let field = |number: usize| fields.get(number - 3).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
    let cpu = (field(14) + field(15)) as f64 / TICKS_PER_SECOND;
    page.one("process_cpu_seconds_total", "counter", "Time of processors used.", "", cpu);
    page.one("process_resident_memory_bytes", "gauge", "Memory in use.", "", field(24) * PAGE_BYTES);
    page.one("process_virtual_memory_bytes", "gauge", "Addresses in use.", "", field(23));
    page.one("process_threads", "gauge", "Threads.", "", field(20));
    let files = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    page.one("process_open_fds", "gauge", "Open files and sockets.", "", files);
    page.one("process_max_fds", "gauge", "Files that may be open.", "", files_max());
    page.one(
        "process_start_time_seconds",
        "gauge",
        "When it began, since 1970.",
        "",
        booted() + field(22) as f64 / TICKS_PER_SECOND,
    );
}

fn files_max() -> u64 {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

fn booted() -> f64 {
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    stat.lines().find_map(|line| line.strip_prefix("btime ")?.parse().ok()).unwrap_or(0.0)
}
