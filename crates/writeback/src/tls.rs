//! How the way to a server is protected: what a URL may say about it, and what a connection needs for it.
//!
//! `disable` is plain text. `require` is encrypted to whoever answers: it keeps listeners out, not impostors.
//! `verify-full` also wants a certificate for the host's name from an authority that is trusted. There is no `prefer`:
//! whoever can listen can also say that the server has no TLS.

use std::path::PathBuf;
use std::sync::Arc;

use mysql_async::SslOpts;
use percent_encoding::percent_decode_str;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use crate::error::Error;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tls {
    pub(crate) mode: Mode,
    /// Certificates, in PEM, of the authorities to trust instead of the public ones.
    pub(crate) roots: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mode {
    #[default]
    Disable,
    Require,
    VerifyFull,
}

impl Tls {
    /// Takes `sslmode` and `sslrootcert` out of a URL, which the drivers do not know or know otherwise, and gives the rest.
    pub(crate) fn split(url: &str) -> Result<(String, Tls), String> {
        let mut tls = Tls::default();
        let Some((place, query)) = url.split_once('?') else { return Ok((url.to_owned(), tls)) };
        let mut rest = Vec::new();
        for parameter in query.split('&') {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            match name {
                "sslmode" => tls.mode = Mode::parse(value)?,
                "sslrootcert" => {
                    let path = percent_decode_str(value).decode_utf8().map_err(|_| "sslrootcert is no path")?;
                    tls.roots = Some(PathBuf::from(&*path));
                }
                _ => rest.push(parameter),
            }
        }
        if tls.roots.is_some() && tls.mode != Mode::VerifyFull {
            return Err("sslrootcert needs sslmode=verify-full: nothing else looks at certificates".to_owned());
        }
        let query = if rest.is_empty() { String::new() } else { format!("?{}", rest.join("&")) };
        Ok((format!("{place}{query}"), tls))
    }

    /// What a TLS client of ours believes.
    pub(crate) fn client(&self) -> Result<ClientConfig, Error> {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions();
        let builder = builder.map_err(|error| Error::fatal(format!("TLS cannot be used: {error}")))?;
        Ok(match self.mode {
            Mode::VerifyFull => builder.with_root_certificates(self.trusted()?).with_no_client_auth(),
            Mode::Require | Mode::Disable => {
                let anybody = Arc::new(Anybody { provider });
                builder.dangerous().with_custom_certificate_verifier(anybody).with_no_client_auth()
            }
        })
    }

    /// The same in the words of the driver for MySQL, which makes its own client.
    pub(crate) fn mysql_options(&self) -> Option<SslOpts> {
        let options = SslOpts::default();
        match (self.mode, &self.roots) {
            (Mode::Disable, _) => None,
            (Mode::Require, _) => Some(options.with_danger_accept_invalid_certs(true)),
            (Mode::VerifyFull, None) => Some(options),
            (Mode::VerifyFull, Some(path)) => {
                Some(options.with_disable_built_in_roots(true).with_root_certs(vec![path.clone().into()]))
            }
        }
    }

    fn trusted(&self) -> Result<RootCertStore, Error> {
        let mut store = RootCertStore::empty();
        let Some(path) = &self.roots else {
            store.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
            return Ok(store);
        };
        let bad = |fault: String| Error::fatal(format!("sslrootcert={}: {fault}", path.display()));
        for certificate in CertificateDer::pem_file_iter(path).map_err(|error| bad(error.to_string()))? {
            let certificate = certificate.map_err(|error| bad(error.to_string()))?;
            store.add(certificate).map_err(|error| bad(error.to_string()))?;
        }
        if store.is_empty() { Err(bad("there is no certificate in it".to_owned())) } else { Ok(store) }
    }
}

impl Mode {
    fn parse(word: &str) -> Result<Mode, String> {
        match word {
            "disable" => Ok(Mode::Disable),
            "require" => Ok(Mode::Require),
            "verify-full" => Ok(Mode::VerifyFull),
            other => Err(format!("sslmode is disable, require or verify-full, not {other:?}")),
        }
    }
}

/// The failure of a handshake, with what can be done about it.
pub(crate) fn explain(server: &str, fault: &str) -> Error {
    let remedy = if fault.contains("UnknownIssuer")
        || fault.contains("self-signed")
        || fault.contains("CaUsedAsEndEntity")
    {
        "; name the certificate of its authority with sslrootcert=PATH, or encrypt without checking by sslmode=require"
    } else if fault.contains("not valid for name") || fault.contains("NotValidForName") {
        "; use the name that stands in the certificate as the host of --sql"
    } else {
        ""
    };
    Error::fatal(format!("no TLS with {server}: {fault}{remedy}"))
}

/// Takes any certificate, for `require`. Who signs with its key must still have that key.
#[derive(Debug)]
struct Anybody {
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_url_says_of_tls_is_taken_out_of_it() {
        let (rest, tls) =
            Tls::split("postgres://a@b/c?connect_timeout=3&sslmode=verify-full&sslrootcert=/my%20ca.pem").unwrap();

        assert_eq!(rest, "postgres://a@b/c?connect_timeout=3");
        assert_eq!(tls, Tls { mode: Mode::VerifyFull, roots: Some("/my ca.pem".into()) });
        assert_eq!(Tls::split("mysql://a@b/c?sslmode=require").unwrap().0, "mysql://a@b/c");
        assert_eq!(Tls::split("mysql://a@b/c").unwrap(), ("mysql://a@b/c".to_owned(), Tls::default()));
    }

    #[test]
    fn half_measures_are_refused() {
        for query in ["sslmode=prefer", "sslmode=", "sslmode=require&sslrootcert=/ca.pem", "sslrootcert=/ca.pem"] {
            assert!(Tls::split(&format!("postgres://a@b/c?{query}")).is_err(), "{query}");
        }
    }
}
