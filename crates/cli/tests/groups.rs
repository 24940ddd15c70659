//! Coordination of a cluster of three real processes with two groups, which different nodes lead: whichever node is asked, a path is
//! where it was made, and what sessions hold outlives the node that led them.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::time::Duration;

use serde_json::Value as Json;
use shardine_client::{Acquire, Change, Client, Error, NodeSettings, Session, SessionOptions, Watch};
use shardine_testkit::{Cluster, PATIENCE, wait_for};
use tokio::time::timeout;

/// The two groups, as they are called.
const GROUPS: [&str; 2] = ["coordination", "1073741825"];

fn form() -> Cluster {
    Cluster::form(3, &["--coord-groups", "2"], &[]).unwrap()
}

fn client(cluster: &Cluster, place: usize) -> Client {
    Client::new(&cluster.grpc(place).to_string()).unwrap()
}

fn run(cluster: &Cluster, place: usize, args: &[&str]) -> Json {
    let output = cluster.command(place, &[args, &["--json"]].concat()).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A node's own view of its groups: the number of each, and of the paths in it.
fn paths_in_groups(cluster: &Cluster, place: usize) -> Vec<(u64, u64)> {
    let status = run(cluster, place, &["status"]);
    let groups = status["coordination"].as_array().unwrap();
    groups.iter().map(|group| (group["group"].as_u64().unwrap(), group["nodes"].as_u64().unwrap())).collect()
}

fn listed(cluster: &Cluster, place: usize) -> Vec<String> {
    let nodes = run(cluster, place, &["coord", "node", "list"]);
    nodes["nodes"].as_array().unwrap().iter().map(|node| node["path"].as_str().unwrap().to_owned()).collect()
}

/// Has each group led by another node.
fn spread(cluster: &Cluster) {
    for (group, place) in GROUPS.iter().zip(0..) {
        let name = cluster.nodes[place].name.clone();
        lead(cluster, group, &name);
    }
}

fn lead(cluster: &Cluster, group: &str, name: &str) {
    let handed_over = || {
        let output = cluster.command(2, &["shard", "transfer-leader", group, "--to", name, "--json"]).output()?;
        Ok(output.status.success().then_some(()))
    };
    wait_for("the lead to be given away", PATIENCE, handed_over).unwrap();
}

async fn session(client: &Client, path: &str) -> Session {
    let options = SessionOptions { timeout: Duration::from_secs(60), ..SessionOptions::default() };
    client.start_session(path, options).await.unwrap()
}

/// What is made by one node is there at once for whoever asks another one; each group has its share.
#[tokio::test(flavor = "multi_thread")]
async fn a_path_is_where_it_was_made_whichever_node_is_asked() {
    let cluster = form();
    spread(&cluster);
    let clients: Vec<Client> = (0..3).map(|place| client(&cluster, place)).collect();
    let paths: Vec<String> = (0..12).map(|number| format!("/local/path-{number:02}")).collect();

    let mut sessions = Vec::new();
    for (number, path) in paths.iter().enumerate() {
        clients[number % 3].create_node(path, NodeSettings::default()).await.unwrap();
        let session = session(&clients[(number + 1) % 3], path).await;
        assert!(session.acquire("lock", Acquire::exclusive().ephemeral()).await.unwrap(), "{path} shares nothing");
        sessions.push(session);
    }

    for place in 0..3 {
        assert_eq!(listed(&cluster, place), paths);
        let each = || Ok((paths_in_groups(&cluster, place).iter().all(|(_, paths)| *paths == 6)).then_some(()));
        wait_for("both groups to have their share on every node", PATIENCE, each).unwrap();
    }
    let shown = run(&cluster, 2, &["coord", "sem", "list", "--node", &paths[0]]);
    assert_eq!(shown["semaphores"][0]["name"], "lock", "{shown}");

    let nobody = clients[0].start_session("/local/nowhere", SessionOptions::default()).await.unwrap_err();
    assert!(nobody.to_string().contains("NOT_FOUND"), "{nobody}");
    for (number, path) in paths.iter().enumerate() {
        clients[(number + 2) % 3].drop_node(path).await.unwrap();
        let gone = clients[number % 3].describe_node(path).await.unwrap_err();
        assert!(gone.to_string().contains("SCHEME_ERROR"), "{gone}");
    }
    assert_eq!(listed(&cluster, 1), [""; 0]);
}

/// coordination 11, 15, 22, 25: a directory is one over all groups.
#[tokio::test(flavor = "multi_thread")]
async fn a_directory_is_noticed_over_all_groups() {
    let cluster = form();
    let clients: Vec<Client> = (0..3).map(|place| client(&cluster, place)).collect();
    let make = async |place: usize, path: &str| clients[place].create_node(path, NodeSettings::default()).await;
    let refused = |made: Result<(), Error>| made.unwrap_err().to_string();

    // Whichever groups they get, a path above or below each of them is taken.
    for (number, path) in ["/local/a/x", "/local/b/x", "/local/c/x"].into_iter().enumerate() {
        make(number, path).await.unwrap();
        let above = path.trim_end_matches("/x");
        assert!(refused(make((number + 1) % 3, above).await).contains("SCHEME_ERROR"));
        assert!(refused(make((number + 2) % 3, &format!("{path}/y")).await).contains("SCHEME_ERROR"));
        clients[(number + 1) % 3].drop_node(path).await.unwrap();
        // It is free as soon as the drop is answered.
        make((number + 2) % 3, above).await.unwrap();
        assert!(refused(make(number, path).await).contains("SCHEME_ERROR"));
    }
}

/// coordination 56, 115, 186, 187, 191: the node that leads one group dies. Its sessions come back by another door with what they
/// held, watches fire, order ids grow; the other group hears nothing of it.
#[tokio::test(flavor = "multi_thread")]
async fn sessions_of_one_group_outlive_its_leader_and_the_other_group_is_not_disturbed() {
    let mut cluster = form();
    let (one, other) = ("/local/one", "/local/other");
    let by = client(&cluster, 2);
    by.create_node(one, NodeSettings::default()).await.unwrap();
    by.create_node(other, NodeSettings::default()).await.unwrap();
    // The first path is in the first group.
    spread(&cluster);
    let (lost, kept) = (session(&by, one).await, session(&by, other).await);
    for session in [&lost, &kept] {
        assert!(session.acquire("lock", Acquire::exclusive().ephemeral()).await.unwrap());
    }
    let fence = lost.fence("lock").await.unwrap().unwrap();
    let heir = session(&by, one).await;
    let waiting = tokio::spawn({
        let heir = heir.clone();
        async move { heir.acquire("lock", Acquire::exclusive().ephemeral()).await }
    });
    let (_, watching) = lost.watch("lock", Watch::OWNERS).await.unwrap();
    let mut states = kept.states();
    states.mark_unchanged();

    cluster.kill9(0).unwrap();

    assert_eq!(timeout(PATIENCE, watching.changed()).await.unwrap(), Change::default(), "it may have been lost");
    assert_eq!(timeout(PATIENCE, lost.fence("lock")).await.unwrap().unwrap(), Some(fence), "an owner stays one");
    assert!(!waiting.is_finished());
    assert!(timeout(PATIENCE, lost.release("lock")).await.unwrap().unwrap());
    assert!(timeout(PATIENCE, waiting).await.unwrap().unwrap().unwrap());
    assert!(heir.fence("lock").await.unwrap().unwrap() > fence);
    assert!(kept.fence("lock").await.unwrap().is_some());
    assert!(!states.has_changed().unwrap(), "its stream went on");

    // And the map goes on, too: paths come and go with two of three nodes.
    by.create_node("/local/third", NodeSettings::default()).await.unwrap();
    by.drop_node("/local/third").await.unwrap();
}
