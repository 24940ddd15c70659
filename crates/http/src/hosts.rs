//! Which names this door answers to.
//!
//! A page of a stranger may let its own name point to this machine (DNS rebinding). The browser then takes the door for a part
//! of that page, and only the `Host` that it sends shows whose page it is. So a name is answered to if it is that of the
//! address listened on, or one that the configuration gives.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use http::header::HOST;
use http::request;
use http::uri::Authority;
use shardine_model::{ErrorCode, Refusal};

#[derive(Clone, Debug, Default)]
pub struct Hosts {
    /// What is listened on; without it (in tests) every name will do.
    listened: Option<IpAddr>,
    /// Lower case.
    names: Arc<[String]>,
}

impl Hosts {
    #[must_use]
    pub fn new(listened: SocketAddr, names: &[String]) -> Self {
        let names = names.iter().map(|name| name.trim_end_matches('.').to_ascii_lowercase()).collect();
        Self { listened: Some(listened.ip()), names }
    }

    /// HTTP/2 says it in the address, HTTP/1 in a header. Browsers always say it, so what says nothing is no browser.
    pub(crate) fn check(&self, request: &request::Parts) -> Result<(), Refusal> {
        let header = || request.headers.get(HOST)?.to_str().ok()?.parse().ok();
        if request.headers.get_all(HOST).iter().nth(1).is_some() {
            // Who stands in between may have looked at the other one.
            return Err(Refusal::new(ErrorCode::BadRequest, "the header host stands there twice"));
        }
        let is_named = request.uri.authority().is_some() || request.headers.contains_key(HOST);
        match request.uri.authority().cloned().or_else(header) {
            None if !is_named => Ok(()),
            Some(authority) if self.answers_to(&authority) => Ok(()),
            Some(authority) => {
                let host = authority.host();
                let message = format!("this door does not answer to the name {host}: --http-host {host} lets it");
                Err(Refusal::new(ErrorCode::Forbidden, message))
            }
            None => Err(Refusal::new(ErrorCode::BadRequest, "the header host is not an address")),
        }
    }

    fn answers_to(&self, authority: &Authority) -> bool {
        let Some(listened) = self.listened else { return true };
        let host = authority.host().trim_end_matches('.').to_ascii_lowercase();
        if self.names.contains(&host) {
            return true;
        }
        let is_here = listened.is_loopback() || listened.is_unspecified();
        match host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
            // An address cannot be made to point elsewhere. Of several that we may have, the client knows which it reached.
            Ok(address) => address == listened || listened.is_unspecified() || (address.is_loopback() && is_here),
            Err(_) => host == "localhost" && is_here,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(listened: &str, names: &[&str], host: &str) -> bool {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let hosts = Hosts::new(listened.parse().unwrap(), &names);
        let (parts, ()) = http::Request::get("/").header(HOST, host).body(()).unwrap().into_parts();
        hosts.check(&parts).is_ok()
    }

    #[test]
    fn a_stranger_s_name_is_not_answered_to() {
        for listened in ["127.0.0.1:7480", "[::1]:7480", "0.0.0.0:7480", "10.0.0.7:7480"] {
            assert!(!answers(listened, &[], "evil.com"), "{listened}");
            assert!(!answers(listened, &["cache.internal"], "evil.com:7480"), "{listened}");
            assert!(!answers(listened, &[], "localhost.evil.com"), "{listened}");
            assert!(!answers(listened, &[], "127.0.0.1.evil.com"), "{listened}");
            assert!(!answers(listened, &[], ""), "{listened}");
        }
    }

    #[test]
    fn two_names_are_none() {
        let hosts = Hosts::new("127.0.0.1:7480".parse().unwrap(), &[]);
        let request = http::Request::get("/").header(HOST, "localhost:7480").header(HOST, "evil.com");

        let refused = hosts.check(&request.body(()).unwrap().into_parts().0).unwrap_err();

        assert_eq!(refused.code, ErrorCode::BadRequest);
    }

    #[test]
    fn what_is_listened_on_and_named_is_answered_to() {
        assert!(answers("127.0.0.1:7480", &[], "127.0.0.1:7480"));
        assert!(answers("127.0.0.1:7480", &[], "LocalHost:7480"));
        assert!(answers("127.0.0.1:7480", &[], "localhost."));
        assert!(answers("[::1]:7480", &[], "[::1]:7480"));
        assert!(answers("0.0.0.0:7480", &[], "10.0.0.7:7480"));
        assert!(answers("10.0.0.7:7480", &["Cache.Internal"], "cache.internal:7480"));
        assert!(!answers("10.0.0.7:7480", &[], "localhost:7480"), "nothing listens there");
        assert!(!answers("127.0.0.1:7480", &[], "10.0.0.7:7480"));
    }
}
