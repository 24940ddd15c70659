//! Checks the locked dependencies against the bans of `deny.toml`: crates that are retired, and versions with a known hole.
//! Works without a network and without cargo-deny; where cargo-deny is installed it reads the same file and checks more.

use std::fs;

use anyhow::{Context, Result, bail};
use semver::{Version, VersionReq};
use shardine_testkit::workspace_root;
use toml::{Table, Value};

use crate::cargo;

/// A crate that may not be used, or the versions of it that may not.
struct Ban {
    name: String,
    versions: VersionReq,
    reason: String,
}

pub fn run() -> Result<()> {
    let bans = bans(&read("deny.toml")?)?;
    let found = check(&bans, &read("Cargo.lock")?)?;
    for line in &found {
        println!("{line}");
    }
    if !found.is_empty() {
        bail!("{} banned dependencies", found.len());
    }
    if cargo::is_installed("cargo-deny") {
        return cargo::run(&mut cargo::cargo(&["deny", "--locked", "check"]));
    }
    Ok(())
}

fn read(name: &str) -> Result<Table> {
    let text = fs::read_to_string(workspace_root().join(name)).with_context(|| format!("read {name}"))?;
    text.parse().with_context(|| format!("read {name} as TOML"))
}

/// The list `bans.deny` of cargo-deny: `{ crate = "name@requirement", reason = "…" }`.
fn bans(deny: &Table) -> Result<Vec<Ban>> {
    let list = deny.get("bans").and_then(|bans| bans.get("deny")).and_then(Value::as_array);
    list.context("bans.deny in deny.toml")?.iter().map(ban).collect()
}

fn ban(entry: &Value) -> Result<Ban> {
    let text =
        |name: &str| entry.get(name).and_then(Value::as_str).with_context(|| format!("{name} of a ban: {entry}"));
    let (name, versions) = text("crate")?.split_once('@').unwrap_or((text("crate")?, "*"));
    let versions = VersionReq::parse(versions).with_context(|| format!("versions of a ban: {entry}"))?;
    Ok(Ban { name: name.to_owned(), versions, reason: text("reason")?.to_owned() })
}

fn check(bans: &[Ban], lock: &Table) -> Result<Vec<String>> {
    let packages = lock.get("package").and_then(Value::as_array).context("packages of a lock file")?;
    let mut found = Vec::new();
    for package in packages {
        let name = package.get("name").and_then(Value::as_str).context("name of a locked package")?;
        let version = package.get("version").and_then(Value::as_str).context("version of a locked package")?;
        let parsed = Version::parse(version)?;
        for ban in bans.iter().filter(|ban| ban.name == name && ban.versions.matches(&parsed)) {
            found.push(format!("{name} {version}: {}", ban.reason));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_banned_version_is_found_and_its_repair_is_not() {
        let deny = r#"
            [bans]
            deny = [
                { crate = "h2@<0.4.16", reason = "floods" },
                { crate = "bincode", reason = "retired" },
            ]"#;
        let lock = |h2: &str| format!("[[package]]\nname = \"h2\"\nversion = \"{h2}\"\n").parse::<Table>().unwrap();
        let bans = bans(&deny.parse().unwrap()).unwrap();

        assert_eq!(check(&bans, &lock("0.4.15")).unwrap(), ["h2 0.4.15: floods"]);
        assert_eq!(check(&bans, &lock("0.4.16")).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn the_bans_of_this_repository_can_be_read() {
        let bans = bans(&read("deny.toml").unwrap()).unwrap();

        assert!(bans.iter().any(|ban| ban.name == "bincode"));
    }
}
