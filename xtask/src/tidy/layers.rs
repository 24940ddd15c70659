//! Who may depend on whom. The table is the map of the house (`ARCHITECTURE.md`) in the form that can be checked: an
//! arrow that is not in it does not exist.

use anyhow::{Context, Result};
use serde_json::Value;

use super::Problem;

/// A room and the rooms that it may depend on.
const ROOMS: [(&str, &[&str]); 32] = [
    ("model", &[]),
    ("proto", &[]),
    ("records", &["model"]),
    ("coord", &["model"]),
    ("meta", &["model"]),
    ("consensus", &["model"]),
    ("shard", &["model", "records", "coord", "meta", "consensus"]),
    ("host", &["model", "shard"]),
    ("transport", &["model"]),
    ("store", &["model"]),
    ("writeback", &["model"]),
    ("router", &["model"]),
    ("accept", &[]),
    ("service", &["model", "router"]),
    ("resp", &["model", "router"]),
    // What commands mean is the door's; what they come to is the records'.
    ("script", &["model", "records", "router", "resp"]),
    ("grpc", &["model", "router", "proto", "service", "accept"]),
    ("ydb", &["coord", "proto"]),
    ("client", &["model", "proto"]),
    // Its services need no more of the house than coordination.
    ("kit", &["client"]),
    ("kit-examples", &["kit", "client", "testkit"]),
    // As anybody might write it, but for the accept loop and the gate, which need not be written twice.
    ("dialogs", &["client", "accept", "service"]),
    ("http", &["model", "router", "service", "accept"]),
    ("server", EVERYTHING_SERVED),
    // `map plan` looks at a schema from where it is typed, whether or not a node runs.
    ("cli", &["server", "client", "dialogs", "model", "proto", "service", "writeback"]),
    ("sim", &["model", "records", "coord", "meta", "consensus", "shard", "host", "router", "transport", "store"]),
    ("story", &["model", "records"]),
    ("fake", &["model", "records", "router", "script"]),
    ("testkit", &[]),
    ("bench", &["client", "kit", "kit-examples", "model", "records", "store", "testkit"]),
    (
        "fuzz-targets",
        &["model", "records", "meta", "consensus", "transport", "store", "resp", "router", "script", "fake"],
    ),
    ("xtask", &["testkit"]),
];

/// The server puts the rooms together; nobody below it knows it.
const EVERYTHING_SERVED: &[&str] = &[
    "model",
    "records",
    "coord",
    "meta",
    "consensus",
    "shard",
    "host",
    "transport",
    "store",
    "writeback",
    "router",
    "resp",
    "script",
    "grpc",
    "ydb",
    "http",
    "proto",
    "service",
    "accept",
];

/// Rooms without clocks, chance, threads, files or sockets: the simulator runs them (`ARCHITECTURE.md`, decision 1).
pub const PURE: [&str; 9] = ["model", "records", "coord", "meta", "consensus", "shard", "host", "transport", "router"];

/// What the stories of pure rooms are told with. It reads their scripts from files, and nothing else.
const STORY: &str = "story";

/// Parts of other rooms that are as pure: time and chance are arguments there too.
pub const PURE_PARTS: [&str; 1] = ["crates/kit/src/core"];

/// A crate from outside and the only rooms that may name it: protocols end at the door, engines behind their wall. Other
/// rooms may not name it even in tests, or their types would creep in from there.
const GUARDED: [(&str, &[&str]); 11] = [
    ("mlua", &["script"]),
    ("raft", &["consensus", "store"]),
    ("raft-engine", &["store", "bench"]), // bench: the measurements that the choice of the engine was made on.
    // The measurements compare with the same rows written by hand.
    ("rusqlite", &["writeback", "kit", "kit-examples", "testkit", "bench"]),
    ("tokio-postgres", &["writeback", "kit", "bench"]),
    ("mysql_async", &["writeback", "kit", "bench"]),
    ("mio", &["server"]),
    ("tonic", &["grpc", "ydb", "proto", "client", "kit", "kit-examples", "server", "cli", "bench"]),
    ("axum", &["accept", "http", "grpc", "ydb", "server", "dialogs"]),
    ("mimalloc", &["cli", "server", "bench"]), // The allocator is the choice of a program: server has one among its examples.
    ("libfuzzer-sys", &[]),                    // Needs a C++ compiler; lives outside of the workspace.
];

/// Rooms that are synchronous: tokio may not be named in them.
const SYNCHRONOUS: [&str; 10] =
    ["model", "records", "coord", "meta", "consensus", "shard", "host", "transport", "resp", "router"];

/// Checks the manifests of all members.
pub fn check(packages: &[Value]) -> Result<Vec<Problem>> {
    let mut problems = Vec::new();
    for package in packages {
        let name = package["name"].as_str().context("name of a package")?;
        let Some((room, may_use)) = ROOMS.iter().find(|(room, _)| *room == room_of(name)) else {
            problems.push(Problem::new(name, "is not in the table of rooms (xtask/src/tidy/layers.rs)"));
            continue;
        };
        for dependency in package["dependencies"].as_array().context("dependencies of a package")? {
            let is_dev = dependency["kind"] == "dev";
            let dependency = dependency["name"].as_str().context("name of a dependency")?;
            problems.extend(check_dependency(room, may_use, dependency, is_dev));
        }
    }
    Ok(problems)
}

fn check_dependency(room: &str, may_use: &[&str], dependency: &str, is_dev: bool) -> Option<Problem> {
    let place = format!("{room}/Cargo.toml");
    if is_ours(dependency) {
        let other = room_of(dependency);
        // Tests may look into other rooms, but the tests of a pure room stay pure.
        let is_pure_test = other == STORY || PURE.contains(&other);
        let is_allowed = may_use.contains(&other) || is_dev && (!PURE.contains(&room) || is_pure_test);
        return (!is_allowed).then(|| Problem::new(place, format!("{room} may not depend on {other}")));
    }
    let is_tokio = dependency == "tokio" || dependency.starts_with("tokio-");
    if is_tokio && SYNCHRONOUS.contains(&room) {
        return Some(Problem::new(place, format!("{room} is synchronous and may not name {dependency}")));
    }
    let (_, users) = GUARDED.iter().find(|(guarded, _)| is_family(guarded, dependency))?;
    (!users.contains(&room))
        .then(|| Problem::new(place, format!("{dependency} may be named only in: {}", users.join(", "))))
}

/// A family is a crate and its satellites: `tonic` and `tonic-health`; but `raft-engine` is a neighbour of `raft`, not its child.
fn is_family(guarded: &str, dependency: &str) -> bool {
    dependency == guarded
        || guarded != "raft" && dependency.strip_prefix(guarded).is_some_and(|rest| rest.starts_with('-'))
}

fn is_ours(package: &str) -> bool {
    package == "shardine" || package.starts_with("shardine-")
}

/// The folder of a package: `shardine-model` lives in `model`, and the package of the binary in `cli`.
fn room_of(package: &str) -> &str {
    match package {
        "shardine" => "cli",
        _ => package.strip_prefix("shardine-").unwrap_or(package),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn problems(package: &str, dependency: &str, kind: Option<&str>) -> Vec<Problem> {
        let package = json!({ "name": package, "dependencies": [{ "name": dependency, "kind": kind }] });
        check(&[package]).unwrap()
    }

    #[test]
    fn an_arrow_outside_the_table_is_a_problem() {
        assert!(problems("shardine-records", "shardine-model", None).is_empty());
        assert_eq!(problems("shardine-model", "shardine-records", None).len(), 1);
        assert_eq!(problems("shardine-resp", "shardine-server", None).len(), 1);
    }

    #[test]
    fn tests_of_a_pure_room_stay_pure() {
        assert!(problems("shardine-resp", "shardine-testkit", Some("dev")).is_empty());
        assert!(problems("shardine-shard", "shardine-records", Some("dev")).is_empty());
        assert_eq!(problems("shardine-shard", "shardine-testkit", Some("dev")).len(), 1);
    }

    #[test]
    fn a_guarded_crate_is_named_only_by_its_guards() {
        assert!(problems("shardine-consensus", "raft", None).is_empty());
        assert_eq!(problems("shardine-shard", "raft", None).len(), 1);
        assert_eq!(problems("shardine-http", "tonic-health", None).len(), 1);
        assert_eq!(problems("shardine-consensus", "raft-engine", None).len(), 1);
    }

    #[test]
    fn tokio_stays_out_of_the_synchronous_rooms() {
        assert!(problems("shardine-server", "tokio", None).is_empty());
        assert_eq!(problems("shardine-router", "tokio-util", None).len(), 1);
        assert_eq!(problems("shardine-model", "tokio", Some("dev")).len(), 1);
    }

    #[test]
    fn a_new_member_has_to_enter_the_table() {
        let package = json!({ "name": "shardine-attic", "dependencies": [] });

        assert_eq!(check(&[package]).unwrap().len(), 1);
    }
}
