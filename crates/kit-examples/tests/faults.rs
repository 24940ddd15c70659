//! Nine real servers, treated badly while clients ask: killed, stopped, robbed of their shards and of their database.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::path::PathBuf;
use std::time::Duration;

use shardine_kit::claim::{Holder, Semaphores, Store};
use shardine_kit::{Client, Interval, Mode, Options};
use shardine_kit_examples::goals::fleet::{DCS, Fleet, Plan};
use shardine_kit_examples::goals::load::{Load, Work};
use shardine_kit_examples::goals::request::GoalsRequest;
use shardine_testkit::sql_server::{Kind, Shared, Sync};
use shardine_testkit::{PATIENCE, Shardine, SqlServer, wait_for};

fn plan(claims: Option<String>) -> Plan {
    // Claims time out after six pings.
    let (program, bounds) = (PathBuf::from(env!("CARGO_BIN_EXE_goals")), vec![1_000, 2_000]);
    Plan { program, claims, bounds, ping_ms: 200 }
}

/// Where no claim is to run out: on a busy machine a proof may take a while.
fn calm(claims: Option<String>) -> Plan {
    Plan { ping_ms: 1_000, ..plan(claims) }
}

fn client(fleet: &Fleet) -> Client<GoalsRequest> {
    let ping_period = Duration::from_millis(200);
    // A machine with other things to do may let a healthy host wait.
    let (host_timeout, deadline) = (Duration::from_secs(5), Duration::from_secs(30));
    let options = Options { ping_period, search_period: ping_period / 2, host_timeout, deadline, ..Options::default() };
    Client::start(GoalsRequest, fleet.hosts(), options)
}

fn work(mode: Mode) -> Work {
    Work { mode, callers: 2, hits: 30, pause: Duration::from_millis(2) }
}

/// What the hosts of a data centre say that they serve, with generation.
fn served(client: &Client<GoalsRequest>, dc: &str) -> Vec<(Interval, u64)> {
    let hosts = client.hosts().into_iter().filter(|(_, shard)| shard.dc == dc && !shard.interval().is_empty());
    hosts.map(|(_, shard)| (shard.interval(), shard.generation)).collect()
}

async fn restarted_with_other_bounds(claims: Option<String>) {
    let mut fleet = Fleet::start(calm(claims)).unwrap();
    let client = client(&fleet);
    client.wait_for_hosts(|known| known.len() == 9).await;
    let loads = [Mode::All, Mode::Hedge, Mode::One].map(|mode| Load::start(&client, work(mode)));
    loads[1].wait_for_calls(50).await;

    for (dc, bounds) in [("sas", [500, 2_500]), ("vla", [900, 1_100])] {
        fleet = tokio::task::spawn_blocking(move || fleet.restart(dc, &bounds).map(|()| fleet)).await.unwrap().unwrap();
        // The next one only when this one is known again, as a release would wait for its health.
        let first = Interval::new(0, bounds[0]);
        client.wait_for_hosts(|_| served(&client, dc).iter().any(|(interval, _)| *interval == first)).await;
        loads[0].wait_for_calls(20).await;
    }

    for load in loads {
        let tally = load.stop().await.unwrap();
        assert_eq!(tally.errors, Vec::<String>::new(), "{}", tally.line());
        assert!(tally.calls > 0);
    }
    for dc in DCS {
        let served = served(&client, dc);
        for (number, (one, generation)) in served.iter().enumerate() {
            let others = &served[number + 1..];
            let twice = others.iter().any(|(other, same)| other.overlaps(one) && same == generation);
            assert!(!twice, "{dc}: {served:?}");
        }
    }
}

/// kit: two data centres, one after the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kit_a_17_restarts_with_other_bounds_cost_no_error() {
    restarted_with_other_bounds(None).await;
}

/// kit: the same with claims on Shardine's semaphores.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kit_a_17_restarts_with_claims_on_semaphores_cost_no_error() {
    let server = Shardine::start().unwrap();
    restarted_with_other_bounds(Some(format!("shardine://{}", server.grpc().address()))).await;
}

/// kit: a host that stands still, and a data centre that is dead.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kit_a_24_25_a_host_that_stands_still_and_a_dead_data_centre_cost_no_error() {
    let mut fleet = Fleet::start(calm(None)).unwrap();
    let client = client(&fleet);
    client.wait_for_hosts(|known| known.len() == 9).await;
    let loads = [Mode::All, Mode::Hedge, Mode::One].map(|mode| Load::start(&client, work(mode)));
    loads[1].wait_for_calls(50).await;

    let stopped = fleet.servers.iter().position(|server| server.dc == "iva").unwrap();
    fleet.servers[stopped].process.pause().unwrap();
    loads[1].wait_for_calls(50).await;
    for server in fleet.servers.iter_mut().filter(|server| server.dc == "sas") {
        server.process.kill9().unwrap();
    }
    loads[0].wait_for_calls(50).await;
    fleet.servers[stopped].process.resume().unwrap();
    loads[1].wait_for_calls(50).await;

    for load in loads {
        let tally = load.stop().await.unwrap();
        assert_eq!(tally.errors, Vec::<String>::new(), "{}", tally.line());
    }
    let metrics = client.metrics();
    assert!(metrics.hedges * 20 <= metrics.requests, "{metrics:?}");
}

/// kit: one too many waits, takes over from a dead one, and the dead one comes back to another's place.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kit_a_44_45_a_spare_server_takes_over_from_a_dead_one_and_a_quick_restart_keeps_its_shard() {
    let claims = Shared::database(Kind::MariaDb).unwrap();
    let mut fleet = Fleet::start(Plan { bounds: vec![], ..plan(Some(claims.database.url())) }).unwrap();
    let before = fleet.servers[0].serving().unwrap();

    fleet.servers[0].process.kill9().unwrap();
    fleet.start_again(0).unwrap();
    let after = fleet.servers[0].serving().unwrap();
    assert_eq!(before.replace("generation 1", "generation 2"), after);
    fleet.add("iva").unwrap();
    let spare = fleet.servers.len() - 1;
    fleet.servers[spare].process.wait_for_line("waiting for a shard", PATIENCE).unwrap();
    fleet.servers[0].process.kill9().unwrap();

    let taken = fleet.servers[spare].serving().unwrap();
    assert!(taken.contains("shard 0 generation 3"), "{taken}");
}

/// kit: a row that is somebody else's now, by generation and not by name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kit_a_47_48_a_server_that_lost_its_row_aborts() {
    let claims = Shared::database(Kind::Postgres).unwrap();
    let mut fleet = Fleet::start(Plan { bounds: vec![], ..plan(Some(claims.database.url())) }).unwrap();

    claims.database.sql("UPDATE goals_locks SET generation = generation + 1, last_ping = now() + interval '1 hour' WHERE dc = 'iva'").unwrap();

    let robbed = &mut fleet.servers[0].process;
    let status = robbed.wait(PATIENCE).unwrap();
    assert!(!status.success());
    assert!(robbed.output().contains("the shard is lost"));
    assert!(fleet.servers[1].process.is_running());
}

/// kit: a process that stood still for longer than its claim lives answers nothing when it goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kit_a_47_a_server_that_stood_still_while_another_took_its_shard_aborts() {
    let claims = Shared::database(Kind::Postgres).unwrap();
    let mut fleet = Fleet::start(Plan { bounds: vec![], ..plan(Some(claims.database.url())) }).unwrap();
    fleet.servers[0].process.pause().unwrap();
    fleet.add("iva").unwrap();
    let taken = fleet.servers.last_mut().unwrap().serving().unwrap();
    assert!(taken.contains("shard 0 generation 2"), "{taken}");

    fleet.servers[0].process.resume().unwrap();

    assert!(!fleet.servers[0].process.wait(PATIENCE).unwrap().success());
}

/// kit A-49: the database is stopped, and comes back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kit_a_49_servers_without_their_database_stop_answering_and_begin_again() {
    let mut database = SqlServer::start(Kind::Postgres, Sync::Off, &[]).unwrap();
    let url = database.database().unwrap().url();
    let mut fleet = Fleet::start_with(Plan { bounds: vec![], ..plan(Some(url)) }, &["--stop-while-silent"]).unwrap();
    let client = client(&fleet);
    client.wait_for_hosts(|_| served(&client, "iva").len() == 1).await;

    database.stop().unwrap();
    client.wait_for_hosts(|_| DCS.iter().all(|dc| served(&client, dc).is_empty())).await;
    database.start_again().unwrap();
    client.wait_for_hosts(|_| DCS.iter().all(|dc| served(&client, dc).len() == 1)).await;

    let running = fleet.servers.iter_mut().all(|server| server.process.is_running());
    assert!(running, "silence of the database is no loss");
    wait_for("an answer", PATIENCE, || Ok((!client.hosts().is_empty()).then_some(()))).unwrap();
}

/// kit A-49: Shardine stands still for longer than any claim lives, and then goes on. Nobody aborts, nobody stops answering.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kit_a_49_an_outage_of_shardine_ends_no_server_and_costs_no_answer() {
    let mut server = Shardine::start().unwrap();
    let claims = format!("shardine://{}", server.grpc().address());
    let mut fleet = Fleet::start(Plan { bounds: vec![], ..plan(Some(claims)) }).unwrap();
    let client = client(&fleet);
    client.wait_for_hosts(|known| known.len() == 3).await;
    let load = Load::start(&client, work(Mode::All));
    load.wait_for_calls(20).await;

    server.process().pause().unwrap();
    // Six proofs make a timeout; the holders say each time that they hear nothing.
    let unheard = |fleet: &Fleet| {
        fleet.servers.iter().map(|server| server.process.output().matches("no word about the claim").count()).min()
    };
    wait_for("proofs without an answer", PATIENCE, || Ok((unheard(&fleet) >= Some(12)).then_some(()))).unwrap();
    server.process().resume().unwrap();
    // Claims live on under the names and generations that they had.
    let shardine = shardine_client::Client::new(&server.grpc().address().to_string()).unwrap();
    let store = Semaphores::new(shardine, "/local/goals", DCS, 1);
    let is_held = |holders: Vec<Holder>| holders.len() == 3 && holders.iter().all(|holder| holder.generation == 1);
    while !store.holders().await.is_ok_and(is_held) {}
    load.wait_for_calls(20).await;

    assert!(fleet.servers.iter_mut().all(|server| server.process.is_running()), "silence of Shardine is no loss");
    let tally = load.stop().await.unwrap();
    assert_eq!(tally.errors, Vec::<String>::new(), "{}", tally.line());
}
