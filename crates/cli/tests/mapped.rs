//! An SQL table that was there before Shardine, seen through it.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::process::Output;

use shardine_testkit::sql_server::{Database, Kind, Shared};
use shardine_testkit::{Client, Options, PATIENCE, Reply, Shardine, Sql, wait_for};

fn start(database: &Database) -> Shardine {
    let binary = Some(env!("CARGO_BIN_EXE_shardine").into());
    Shardine::start_with(Options { sql: Sql::Url(database.url()), binary, ..Options::default() }).unwrap()
}

fn run(server: &Shardine, line: &str) -> Output {
    let words: Vec<&str> = line.split(' ').collect();
    server.command(&words).output().unwrap()
}

fn call(client: &mut Client, line: &str) -> Reply {
    let words: Vec<&str> = line.split(' ').collect();
    client.call(&words).unwrap()
}

fn customers(kind: Kind) -> Shared {
    let shared = Shared::database(kind).unwrap();
    shared
        .database
        .sql(
            "CREATE TABLE customers (id BIGINT NOT NULL PRIMARY KEY, rev BIGINT NOT NULL DEFAULT 1, full_name TEXT, \
             years INT NOT NULL DEFAULT 0)",
        )
        .unwrap();
    shared.database.sql("INSERT INTO customers (id, full_name, years) VALUES (42, 'Lili', 10)").unwrap();
    shared
}

const MAP: &str = "table create clients --field name:string --field age:int64 --map customers --map-key id:int64 \
                   --map-field name=full_name --map-field age=years";

#[test]
fn a_mapped_table_is_read_written_and_left_when_it_is_dropped() {
    for kind in [Kind::Postgres, Kind::MariaDb] {
        let shared = customers(kind);
        let server = start(&shared.database);
        let made = run(&server, &format!("{MAP} --map-version rev"));
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let mut client = server.client().unwrap();

        assert_eq!(call(&mut client, "HGET clients:42 name"), Reply::bulk("Lili"));
        assert_eq!(call(&mut client, "HINCRBY clients:42 age 1"), Reply::Int(11));
        assert_eq!(call(&mut client, "HSET clients:7 name Bob age 3"), Reply::Int(2));
        assert_eq!(call(&mut client, "REC.FLUSH clients"), Reply::ok());
        let look = "SELECT id, rev, full_name, years FROM customers ORDER BY id";
        assert_eq!(shared.database.sql(look).unwrap(), "7\t1\tBob\t3\n42\t2\tLili\t11\n");

        // A page ends where a shard ends.
        let mut cursor = "0".to_owned();
        loop {
            let page = call(&mut client, &format!("SCAN {cursor} COUNT 100"));
            let Reply::Array(page) = page else { panic!("a mapped table spoils a scan of all tables: {page:?}") };
            let Reply::Bulk(next) = &page[0] else { panic!("{page:?}") };
            cursor = String::from_utf8_lossy(next).into_owned();
            if cursor == "0" {
                break;
            }
        }

        let dropped = run(&server, "table drop clients --yes");
        assert!(dropped.status.success(), "{}", String::from_utf8_lossy(&dropped.stderr));
        assert_eq!(shared.database.sql("SELECT count(*) FROM customers").unwrap(), "2\n");
    }
}

/// Another program writes to the same rows, and knows nothing of Shardine; a deleted row is gone.
#[test]
fn beside_another_program_only_what_changed_is_written_and_a_delete_deletes() {
    for kind in [Kind::Postgres, Kind::MariaDb] {
        let shared = customers(kind);
        let server = start(&shared.database);
        shared.database.sql("INSERT INTO customers (id, full_name) VALUES (1, NULL), (2, 'Bob')").unwrap();
        let made = run(&server, &format!("{MAP} --map-version rev"));
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let mut client = server.client().unwrap();
        assert_eq!(call(&mut client, "HGET clients:2 name"), Reply::bulk("Bob"));
        shared.database.sql("UPDATE customers SET full_name = 'Robert' WHERE id = 2").unwrap();

        assert_eq!(call(&mut client, "HSET clients:1 age 5"), Reply::Int(0));
        assert_eq!(call(&mut client, "HSET clients:2 age 6"), Reply::Int(0));
        assert_eq!(call(&mut client, "REC.FLUSH clients"), Reply::ok());
        let look = "SELECT id, rev, full_name, years FROM customers WHERE id < 10 ORDER BY id";
        assert_eq!(shared.database.sql(look).unwrap().replace("NULL", ""), "1\t2\t\t5\n2\t2\tRobert\t6\n");

        assert_eq!(call(&mut client, "DEL clients:42"), Reply::Int(1));
        wait_for("the row to go", PATIENCE, || {
            let gone = shared.database.sql("SELECT count(*) FROM customers WHERE id = 42")? == "0\n";
            Ok(gone.then_some(()))
        })
        .unwrap();
        assert_eq!(call(&mut client, "HSET clients:42 name Lily"), Reply::Int(1));
        assert_eq!(call(&mut client, "REC.FLUSH clients"), Reply::ok());
        assert_eq!(shared.database.sql("SELECT rev, full_name FROM customers WHERE id = 42").unwrap(), "3\tLily\n");
    }
}

#[test]
fn a_table_without_a_version_column_is_only_read_and_says_so() {
    let shared = customers(Kind::Postgres);
    let server = start(&shared.database);
    let made = run(&server, MAP);
    let told = String::from_utf8_lossy(&made.stdout);
    assert!(told.contains("read only"), "{told}");
    let mut client = server.client().unwrap();

    assert_eq!(call(&mut client, "HGETALL clients:42"), Reply::bulks(&["name", "Lili", "age", "10"]));
    let refused = call(&mut client, "HSET clients:42 age 11");

    assert!(matches!(&refused, Reply::Error(text) if text.contains("unsupported")), "{refused:?}");
    assert_eq!(call(&mut client, "HGET clients:42 age"), Reply::bulk("10"));
}

#[test]
fn a_table_that_does_not_fit_is_refused_with_the_reasons() {
    let shared = customers(Kind::MariaDb);
    let server = start(&shared.database);

    let made =
        run(&server, "table create clients --field name:int64 --map customers --map-key full_name --map-version rev");

    let told = String::from_utf8_lossy(&made.stderr);
    assert_eq!(made.status.code(), Some(1), "{told}");
    for reason in ["primary key", "no column name", "full_name"] {
        assert!(told.contains(reason), "no {reason} in {told}");
    }
    assert!(!String::from_utf8_lossy(&run(&server, "table list").stdout).contains("clients"));
}

/// A table whose rows refer to customers.
const ORDERS: &str = "CREATE TABLE orders (id BIGINT NOT NULL PRIMARY KEY, rev BIGINT NOT NULL DEFAULT 1, \
                      customer BIGINT NOT NULL, CONSTRAINT of_customer FOREIGN KEY (customer) REFERENCES customers (id))";

const MAP_ORDERS: &str = "table create orders --field customer:int64 --map orders --map-key id:int64 --map-version rev";

/// write-back 107: without a word about the order, rows are written in none that a foreign key could rely on.
#[test]
fn write_back_107_a_table_with_foreign_keys_is_refused_and_named() {
    for kind in [Kind::Postgres, Kind::MariaDb] {
        let shared = customers(kind);
        shared.database.sql(ORDERS).unwrap();
        let server = start(&shared.database);
        assert!(run(&server, &format!("{MAP} --map-version rev")).status.success());

        for (line, reason) in [
            (MAP_ORDERS.to_owned(), "orders has the foreign key of_customer to customers"),
            (format!("{MAP_ORDERS} --after nobody"), "there is no table nobody"),
        ] {
            let made = run(&server, &line);

            let told = String::from_utf8_lossy(&made.stderr);
            assert_eq!(made.status.code(), Some(1), "{told}");
            assert!(told.contains(reason), "{told}");
        }
        assert!(!String::from_utf8_lossy(&run(&server, "table list").stdout).contains("orders"));
    }
}

/// write-back 107: parents and children live in different shards, and each child is written before its parent here.
#[test]
fn write_back_107_children_wait_for_their_parents_and_none_is_refused() {
    const ROWS: usize = 40;
    for kind in [Kind::Postgres, Kind::MariaDb] {
        let shared = customers(kind);
        shared.database.sql(ORDERS).unwrap();
        let server = start(&shared.database);
        for line in [format!("{MAP} --map-version rev --write-delay 300"), format!("{MAP_ORDERS} --after clients")] {
            let made = run(&server, &line);
            assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        }
        let mut client = server.client().unwrap();

        for row in 0..ROWS {
            call(&mut client, &format!("HSET orders:{row} customer {}", 1_000 + row));
        }
        let waits = || {
            let status = String::from_utf8(run(&server, "writeback status").stdout)?;
            Ok(status.contains("waits for the row of another table").then_some(()))
        };
        wait_for("orders without their customers", PATIENCE, waits).unwrap();
        for row in 0..ROWS {
            call(&mut client, &format!("HSET clients:{} name Bob", 1_000 + row));
        }
        assert_eq!(call(&mut client, "REC.FLUSH orders"), Reply::ok());

        let look = "SELECT count(*) FROM orders o JOIN customers c ON c.id = o.customer WHERE o.rev > 0";
        assert_eq!(shared.database.sql(look).unwrap(), format!("{ROWS}\n"));
        let letters = String::from_utf8(run(&server, "writeback dead-letters --json").stdout).unwrap();
        assert!(letters.contains("\"dead_letters\":[]"), "{letters}");
        let dropped = run(&server, "table drop clients --yes");
        assert!(String::from_utf8_lossy(&dropped.stderr).contains("orders comes after clients"));
    }
}

/// The rows that `verify` names, with what is wrong with each, and its sums.
fn verify(server: &Shardine) -> (Vec<(String, String)>, serde_json::Value) {
    let output = run(server, "verify clients --page 2 --json");
    let lines = String::from_utf8(output.stdout).unwrap();
    let mut lines: Vec<serde_json::Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let sums = lines.pop().unwrap_or_else(|| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    let text = |line: &serde_json::Value, name: &str| line[name].as_str().unwrap().to_owned();
    let mut found: Vec<_> = lines.iter().map(|line| (text(line, "row"), text(line, "kind"))).collect();
    found.sort();
    assert_eq!(output.status.code(), Some(i32::from(!found.is_empty())));
    (found, sums["tables"][0].clone())
}

/// SQL cannot be walked in the order of positions, but it can be asked for every row that memory holds.
#[test]
fn a_mapped_table_is_compared_row_by_row_with_what_memory_holds() {
    for kind in [Kind::Postgres, Kind::MariaDb] {
        let shared = customers(kind);
        shared
            .database
            .sql("INSERT INTO customers (id, full_name, years) VALUES (43, 'Bob', 3), (44, 'Zoe', 4)")
            .unwrap();
        let server = start(&shared.database);
        assert!(run(&server, &format!("{MAP} --map-version rev")).status.success());
        let mut client = server.client().unwrap();
        for id in [42, 43] {
            call(&mut client, &format!("HGET clients:{id} name"));
        }
        call(&mut client, "HSET clients:7 name Ann age 1");
        assert_eq!(call(&mut client, "EXISTS clients:99"), Reply::Int(0));
        assert_eq!(call(&mut client, "REC.FLUSH clients"), Reply::ok());

        let (found, sums) = verify(&server);
        assert_eq!((found, &sums["equal"]), (Vec::new(), &4.into()), "{sums}");

        shared.database.sql("UPDATE customers SET years = 11 WHERE id = 42").unwrap();
        shared.database.sql("UPDATE customers SET rev = 9 WHERE id = 43").unwrap();
        shared.database.sql("DELETE FROM customers WHERE id = 7").unwrap();
        shared.database.sql("INSERT INTO customers (id) VALUES (99)").unwrap();
        let (found, sums) = verify(&server);

        let expected =
            [("clients:42", "content"), ("clients:43", "newer"), ("clients:7", "missing"), ("clients:99", "newer")];
        assert_eq!(found, expected.map(|(row, kind)| (row.to_owned(), kind.to_owned())), "{sums}");
    }
}

/// SQL is well and asking again will not help, so the scan is not called unavailable.
#[test]
fn a_mapped_table_is_not_scanned_as_a_whole_and_says_why() {
    let shared = customers(Kind::Postgres);
    let server = start(&shared.database);
    assert!(run(&server, MAP).status.success());

    for line in ["scan clients", "table warm clients"] {
        let refused = run(&server, line);

        let told = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(1), "{line}: {told}");
        assert!(told.contains("error[unsupported]") && told.contains("keeps no positions"), "{line}: {told}");
    }
}
