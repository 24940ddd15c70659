//! Lists of hosts from a file and from a name; those from SQL and from Shardine are in `locks`.

use std::fs;

use shardine_kit::provider::{Dns, Fixed, HostsFile, Provider};
use shardine_testkit::Dir;

#[tokio::test]
async fn kit_a_12_a_file_is_read_anew_each_time() {
    let dir = Dir::new().unwrap();
    let path = dir.join("hosts");
    fs::write(&path, "a:1\nb:2\n").unwrap();
    let file = HostsFile::new(&path);
    assert_eq!(file.hosts().await.unwrap(), ["a:1", "b:2"]);

    fs::write(&path, "c:3 # the only one left\n").unwrap();
    assert_eq!(file.hosts().await.unwrap(), ["c:3"]);
    fs::remove_file(&path).unwrap();

    assert!(file.hosts().await.unwrap_err().to_string().contains("hosts"), "an error names the file");
}

#[tokio::test]
async fn kit_a_12_a_name_stands_for_its_addresses() {
    let hosts = Dns::new("127.0.0.1", 4_100).hosts().await.unwrap();

    assert_eq!(hosts, ["127.0.0.1:4100"]);
    assert!(Dns::new("no such name", 1).hosts().await.is_err());
}

#[tokio::test]
async fn a_fixed_list_is_what_it_is() {
    assert_eq!(Fixed::new(["a:1", "b:2"]).hosts().await.unwrap(), ["a:1", "b:2"]);
}
