//! The way to a server, protected.

use shardine_model::sql::Class;
use shardine_testkit::SqlServer;
use shardine_testkit::sql_server::{Kind, Shared};
use shardine_writeback::{Backend, Error, Options};

fn connect(url: &str) -> Result<(), Error> {
    let handle = Backend::start(&Options::new(url.parse().unwrap()), |_| {})?;
    let status = handle.status();
    handle.stop();
    assert!(status.connected, "{:?}", status.last_error);
    Ok(())
}

/// A server that lets nobody in who does not encrypt.
fn strict(kind: Kind) -> SqlServer {
    let server = SqlServer::start_secure(kind).unwrap();
    let force = match kind {
        Kind::Postgres => {
            std::fs::write(server.data().join("pg_hba.conf"), "hostssl all all all trust\n").unwrap();
            "SELECT pg_reload_conf()"
        }
        Kind::MariaDb => "ALTER USER app@'127.0.0.1' REQUIRE SSL",
    };
    let database = server.database().unwrap();
    database.sql(force).unwrap();
    server
}

#[test]
fn a_server_of_a_trusted_authority_is_spoken_to() {
    for kind in [Kind::Postgres, Kind::MariaDb] {
        let server = strict(kind);
        let url = server.database().unwrap().url();

        connect(&format!("{url}?sslmode=verify-full&sslrootcert={}", server.authority().display())).unwrap();
        connect(&format!("{url}?sslmode=require")).unwrap();

        let refused = connect(&url).unwrap_err();
        assert_eq!(refused.class, Class::Fatal, "{refused}");
    }
}

#[test]
fn a_certificate_that_proves_nothing_is_told_and_what_to_do() {
    for kind in [Kind::Postgres, Kind::MariaDb] {
        let server = SqlServer::start_secure(kind).unwrap();
        let url = server.database().unwrap().url();
        let trusted = format!("sslmode=verify-full&sslrootcert={}", server.authority().display());

        for (url, words) in [
            (format!("{url}?sslmode=verify-full"), "sslrootcert=PATH"),
            (format!("{}?{trusted}", url.replace("127.0.0.1", "localhost")), "the name that stands in the certificate"),
            (format!("{url}?sslmode=verify-full&sslrootcert=/no/such/file"), "/no/such/file"),
        ] {
            let refused = connect(&url).unwrap_err();

            assert_eq!(refused.class, Class::Fatal, "{refused}");
            assert!(refused.message.contains(words), "{url}: {refused}");
        }
    }
}

#[test]
fn a_server_without_tls_is_not_spoken_to_in_plain_text_instead() {
    for kind in [Kind::Postgres, Kind::MariaDb] {
        let plain = Shared::database(kind).unwrap();

        let refused = connect(&format!("{}?sslmode=require", plain.database.url())).unwrap_err();

        assert_eq!(refused.class, Class::Fatal, "{refused}");
        assert!(refused.message.contains("TLS"), "{refused}");
    }
}
