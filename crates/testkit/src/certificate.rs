//! Certificates for servers that are to be spoken to by TLS, made with the openssl command, which the SQL servers bring.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// A key and its certificate for 127.0.0.1 and no other name, by an authority that nobody knows, whose own certificate is
/// `authority.pem` beside them.
pub struct Certificate {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

impl Certificate {
    /// Makes the files inside of `dir`.
    pub fn make(dir: &Path) -> Result<Certificate> {
        std::fs::write(dir.join("names"), "subjectAltName=IP:127.0.0.1\n")?;
        let new = "req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
        openssl(dir, &format!("{new} -x509 -days 36500 -subj /CN=authority -keyout authority.key -out authority.pem"))?;
        openssl(dir, &format!("{new} -subj /CN=server -keyout server.key -out server.csr"))?;
        openssl(
            dir,
            "x509 -req -in server.csr -CA authority.pem -CAkey authority.key -CAcreateserial -days 36500 \
             -extfile names -out server.pem",
        )?;
        let path = |name: &str| dir.join(name);
        Ok(Certificate { certificate: path("server.pem"), key: path("server.key") })
    }
}

fn openssl(dir: &Path, arguments: &str) -> Result<()> {
    let output = Command::new("openssl").args(arguments.split_whitespace()).current_dir(dir).output();
    let output = output.context("openssl is not installed: cargo xtask setup")?;
    if !output.status.success() {
        bail!("openssl {arguments}: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}
