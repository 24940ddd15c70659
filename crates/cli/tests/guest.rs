//! Three applications' tables as many have them, mapped, written under load beside another program that writes too, and given
//! back: what differs in the database is data, and both programs' changes are there.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::process::Output;
use std::thread;

use shardine_testkit::apps::{self, Words};
use shardine_testkit::sql_server::{Database, Kind, Shared};
use shardine_testkit::{Client, Options, PATIENCE, Reply, Shardine, Sql, wait_for};

/// How many rows both change, and how often.
const ROWS: usize = 10;
const ROUNDS: usize = 5;

/// What a story needs to know of an application.
struct App {
    name: &'static str,
    /// Rows for everybody.
    seed: &'static str,
    /// The table that both write to, a column of ours with its type of value, and one of theirs.
    table: &'static str,
    ours: &'static str,
    theirs: &'static str,
    /// What a new row of ours says, and the statement that makes one of theirs with the key 200.
    new: &'static str,
    their_new: &'static str,
    mapped: &'static [&'static str],
}

const SHOP: App = App {
    name: "shop",
    seed: "INSERT INTO customers (id, email) VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd'), (5, 'e'), (6, 'f'), (7, 'g'), (8, 'h'), \
           (9, 'i'), (10, 'j'), (11, 'k'), (12, 'l')",
    table: "customers",
    ours: "full_name",
    theirs: "credit",
    new: "email new full_name Lili",
    their_new: "INSERT INTO customers (id, email) VALUES (200, 'theirs')",
    mapped: &["addresses", "categories", "customers", "order_lines", "orders", "products"],
};

const TRACKER: App = App {
    name: "tracker",
    seed: "INSERT INTO users (id, login) VALUES (1, 'lili')|INSERT INTO projects (id, identifier, title) VALUES (1, 'p', 'P')|INSERT INTO \
           issues (id, project_id, author_id, subject) VALUES (1, 1, 1, 's'), (2, 1, 1, 's'), (3, 1, 1, 's'), (4, 1, 1, 's'), \
           (5, 1, 1, 's'), (6, 1, 1, 's'), (7, 1, 1, 's'), (8, 1, 1, 's'), (9, 1, 1, 's'), (10, 1, 1, 's'), (11, 1, 1, 's'), (12, 1, 1, 's')",
    table: "issues",
    ours: "body",
    theirs: "done",
    new: "project_id 1 author_id 1 subject new",
    their_new: "INSERT INTO issues (id, project_id, author_id, subject) VALUES (200, 1, 1, 'theirs')",
    mapped: &["issues", "journals", "projects", "settings", "users"],
};

const CMS: App = App {
    name: "cms",
    seed: "INSERT INTO authors (id, slug) VALUES (1, 'lili')|INSERT INTO posts (id, author_id, title, content) VALUES (1, 1, 't', '0'), \
           (2, 1, 't', '0'), (3, 1, 't', '0'), (4, 1, 't', '0'), (5, 1, 't', '0'), (6, 1, 't', '0'), (7, 1, 't', '0'), (8, 1, 't', '0'), \
           (9, 1, 't', '0'), (10, 1, 't', '0'), (11, 1, 't', '0'), (12, 1, 't', '0')",
    table: "posts",
    ours: "title",
    theirs: "content",
    new: "author_id 1 title new content 0",
    their_new: "INSERT INTO posts (id, author_id, title, content) VALUES (200, 1, 'theirs', '0')",
    mapped: &["authors", "comments", "options", "post_meta", "posts", "public_posts", "tags"],
};

#[test]
fn a_shop_is_served_beside_its_own_program_and_given_back() {
    serve(&SHOP);
}

#[test]
fn an_issue_tracker_is_served_beside_its_own_program_and_given_back() {
    serve(&TRACKER);
}

#[test]
fn a_content_management_system_is_served_beside_its_own_program_and_given_back() {
    serve(&CMS);
}

fn serve(app: &App) {
    for kind in [Kind::Postgres, Kind::MariaDb] {
        let shared = Shared::database(kind).unwrap();
        let database = &shared.database;
        let words = if kind == Kind::Postgres { Words::Postgres } else { Words::MariaDb };
        for statement in apps::schema(app.name, words).iter().map(String::as_str).chain(app.seed.split('|')) {
            database.sql(statement).unwrap();
        }
        let before = schema(database);
        let server = start(database);
        let url = database.url();
        let made = run(&server, &["map", "apply", &url]);
        assert!(made.status.success(), "{}{}", text(&made.stdout), text(&made.stderr));
        let mapped: Vec<String> =
            text(&made.stdout).lines().filter_map(|line| line.strip_suffix(": mapped").map(str::to_owned)).collect();
        assert_eq!(sorted(mapped), app.mapped);

        write_together(app, database, &server);

        // Children go before their parents.
        let mut left = app.mapped.to_vec();
        while !left.is_empty() {
            let count = left.len();
            left.retain(|table| !run(&server, &["table", "drop", table, "--yes"]).status.success());
            assert!(left.len() < count, "{left:?} cannot be dropped");
        }
        assert_eq!(schema(database), before, "what differs is data");
    }
}

/// Both programs change the same rows, each a column of its own; each makes a row and deletes one.
fn write_together(app: &App, database: &Database, server: &Shardine) {
    let App { table, ours, theirs, .. } = app;
    thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..=ROUNDS {
                for row in 1..=ROWS {
                    // Deadlocks and the like are theirs to repeat.
                    let change = format!("UPDATE {table} SET {theirs} = '{round}' WHERE id = {row}");
                    wait_for("their change", PATIENCE, || Ok(database.sql(&change).ok())).unwrap();
                }
            }
            database.sql(app.their_new).unwrap();
            database.sql(&format!("DELETE FROM {table} WHERE id = 12")).unwrap();
        });
        let mut client = server.client().unwrap();
        for round in 1..=ROUNDS {
            for row in 1..=ROWS {
                let changed = call(&mut client, &format!("HSET {table}:{row} {ours} round{round}"));
                assert!(matches!(changed, Reply::Int(_)), "{changed:?}");
            }
        }
        assert!(matches!(call(&mut client, &format!("HSET {table}:100 {}", app.new)), Reply::Int(1..)));
        assert_eq!(call(&mut client, &format!("DEL {table}:11")), Reply::Int(1));
    });
    let is_gone = || Ok((database.sql(&format!("SELECT count(*) FROM {table} WHERE id = 11"))? == "0\n").then_some(()));
    wait_for("our deleted row to go", PATIENCE, is_gone).unwrap();
    let mut client = server.client().unwrap();
    assert_eq!(call(&mut client, &format!("REC.FLUSH {table}")), Reply::ok());
    let both = format!(
        "SELECT count(*) FROM {table} WHERE id <= {ROWS} AND {ours} = 'round{ROUNDS}' AND {theirs} = '{ROUNDS}' AND rev > 1"
    );
    assert_eq!(database.sql(&both).unwrap(), format!("{ROWS}\n"));
    let keys = format!("SELECT id FROM {table} WHERE id > {ROWS} ORDER BY id");
    assert_eq!(database.sql(&keys).unwrap(), "100\n200\n");
}

fn start(database: &Database) -> Shardine {
    let binary = Some(env!("CARGO_BIN_EXE_shardine").into());
    Shardine::start_with(Options { sql: Sql::Url(database.url()), binary, ..Options::default() }).unwrap()
}

fn run(server: &Shardine, words: &[&str]) -> Output {
    server.command(words).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn sorted(mut names: Vec<String>) -> Vec<String> {
    names.sort();
    names
}

fn call(client: &mut Client, line: &str) -> Reply {
    let words: Vec<&str> = line.split(' ').collect();
    client.call(&words).unwrap()
}

/// Columns, constraints, indexes and triggers of all tables but Shardine's own, in the database's words.
fn schema(database: &Database) -> String {
    let columns = "SELECT table_name, column_name, data_type, column_default, is_nullable FROM information_schema.columns \
                   WHERE table_schema = {} AND table_name <> '__shardine__' ORDER BY table_name, ordinal_position";
    let rest: &[&str] = match database.kind {
        Kind::Postgres => &[
            "SELECT conrelid::regclass, conname, pg_get_constraintdef(oid) FROM pg_constraint \
             WHERE connamespace = 'public'::regnamespace AND conrelid <> coalesce(to_regclass('__shardine__'), 0) ORDER BY 1, 2",
            "SELECT tablename, indexdef FROM pg_indexes WHERE schemaname = 'public' AND tablename <> '__shardine__' ORDER BY 1, 2",
            "SELECT tgrelid::regclass, tgname FROM pg_trigger WHERE NOT tgisinternal ORDER BY 1, 2",
        ],
        Kind::MariaDb => &[
            "SELECT table_name, index_name, column_name, seq_in_index, non_unique FROM information_schema.statistics \
             WHERE table_schema = DATABASE() AND table_name <> '__shardine__' ORDER BY 1, 2, 4",
            "SELECT table_name, constraint_name, delete_rule, update_rule FROM information_schema.referential_constraints \
             WHERE constraint_schema = DATABASE() ORDER BY 1, 2",
            "SELECT event_object_table, trigger_name FROM information_schema.triggers WHERE trigger_schema = DATABASE() ORDER BY 1, 2",
        ],
    };
    let place = if database.kind == Kind::Postgres { "'public'" } else { "DATABASE()" };
    let columns = columns.replace("{}", place);
    std::iter::once(&*columns).chain(rest.iter().copied()).map(|query| database.sql(query).unwrap()).collect()
}
