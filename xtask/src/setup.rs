//! Installs what the tests use on a Debian machine, as root or through sudo, asking nothing. What is there already is left
//! alone, so a second run costs nothing and a prepared machine needs neither root nor a network.

use std::fs;

use anyhow::{Context, Result, bail};
use shardine_testkit::python;

use crate::cargo;

/// A package of the system and the command that shows that it is there.
struct Package {
    name: &'static str,
    probe: &'static str,
}

const PACKAGES: [Package; 11] = [
    Package { name: "redis-server", probe: "command -v redis-server" },
    Package { name: "redis-tools", probe: "command -v redis-cli && command -v redis-benchmark" },
    Package { name: "sqlite3", probe: "command -v sqlite3" },
    // Debian keeps the server's programs away from the path.
    Package { name: "postgresql", probe: "command -v psql && ls /usr/lib/postgresql/*/bin/initdb" },
    Package { name: "mariadb-server", probe: "command -v mariadb-install-db && ls /usr/sbin/mariadbd" },
    // Makes certificates for SQL servers that are spoken to by TLS.
    Package { name: "openssl", probe: "command -v openssl" },
    // Tells a process another time than the machine has.
    Package { name: "libfaketime", probe: "ls /usr/lib/*/faketime/libfaketimeMT.so.1" },
    Package { name: "procps", probe: "command -v pkill" },
    Package { name: "curl", probe: "command -v curl" },
    Package { name: "python3", probe: "command -v python3" },
    // Debian cuts the part that fills an environment with pip out of its python3.
    Package { name: "python3-venv", probe: "python3 -c 'import ensurepip, venv'" },
];

/// For the measurements only: the tests do without the rival.
const RIVALS: [Package; 1] = [Package { name: "etcd-server", probe: "command -v etcd" }];

/// For the fuzz targets only, which are skipped where it cannot be had.
const COMPILER: Package = Package { name: "g++", probe: "command -v c++" };

/// Python packages of the test scripts.
const PYTHON_PACKAGES: [&str; 9] = [
    "redis>=5,<9",
    "ydb>=3.23,<4",
    "prometheus-client<1",
    "schemathesis>=4,<5",
    // What keeps its things in Redis, for `libraries.py`.
    "limits>=5,<6",
    "flask-caching>=2,<3",
    "aiocache<1",
    "django>=5,<6",
    "django-redis>=6,<8",
];

pub fn run() -> Result<()> {
    install(&PACKAGES)?;
    if !COMPILER.is_there() && apt_get(&["install", "--yes", "--no-install-recommends", COMPILER.name]).is_err() {
        eprintln!("no C++ compiler could be installed: the fuzz targets will be skipped");
    }
    make_python_environment()
}

/// What the measurements use beyond what the tests do.
pub fn for_measuring() -> Result<()> {
    run()?;
    install(&RIVALS)
}

/// Says whether the fuzz targets can be built here.
pub fn has_cpp_compiler() -> bool {
    COMPILER.is_there()
}

impl Package {
    fn is_there(&self) -> bool {
        let probe = cargo::command("sh").args(["-c", self.probe]).output();
        probe.is_ok_and(|output| output.status.success())
    }
}

fn install(packages: &[Package]) -> Result<()> {
    let missing: Vec<&str> =
        packages.iter().filter(|package| !package.is_there()).map(|package| package.name).collect();
    if !missing.is_empty() {
        apt_get(&["update"])?;
        let install = ["install", "--yes", "--no-install-recommends"];
        apt_get(&[&install[..], &missing].concat()).with_context(|| format!("install {}", missing.join(" ")))?;
    }
    Ok(())
}

fn apt_get(args: &[&str]) -> Result<()> {
    if !cargo::is_installed("apt-get") {
        bail!("this is not Debian: install the packages named in xtask/src/setup.rs by hand");
    }
    let is_root = cargo::output(cargo::command("id").arg("-u"))?.trim() == "0";
    let mut command = cargo::command(if is_root { "env" } else { "sudo" });
    if !is_root {
        // Fail instead of waiting for a password that nobody types.
        command.args(["-n", "env"]);
    }
    // In runlevel 1 a package does not start its service: the tests start their own servers.
    command.args(["DEBIAN_FRONTEND=noninteractive", "RUNLEVEL=1", "apt-get", "--quiet"]).args(args);
    cargo::run(&mut command)
}

fn make_python_environment() -> Result<()> {
    let dir = python::environment_dir();
    let stamp = dir.join("packages");
    let wanted = PYTHON_PACKAGES.join("\n");
    if fs::read_to_string(&stamp).is_ok_and(|found| found == wanted) {
        return Ok(());
    }
    let dir_name = dir.to_string_lossy();
    cargo::run(cargo::command("python3").args(["-m", "venv", "--clear", &dir_name]))?;
    let python = dir.join("bin").join("python");
    let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
    cargo::run(cargo::command(&python.to_string_lossy()).args(install).args(PYTHON_PACKAGES))?;
    // Written last: an interrupted setup is begun anew.
    fs::write(&stamp, wanted).with_context(|| format!("write {}", stamp.display()))
}
