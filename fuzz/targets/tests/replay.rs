//! Replays the stored inputs of all fuzz targets, and small changes of them, without libFuzzer: what was once found stays
//! repaired, also where there is no C++ compiler.

use std::fs;
use std::path::{Path, PathBuf};

use shardine_fuzz_targets::TARGETS;

/// Changed copies per stored input.
const CHANGES: u64 = 300;

fn corpus(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus").join(target);
    let mut paths: Vec<PathBuf> =
        fs::read_dir(&dir).expect("a corpus").map(|entry| entry.expect("a file").path()).collect();
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), fs::read(path).expect("a file"))).collect()
}

#[test]
fn stored_inputs_are_survived() {
    for target in TARGETS {
        let inputs = corpus(target.name);
        assert!(!inputs.is_empty(), "{} has no stored inputs", target.name);
        for (path, bytes) in inputs {
            eprintln!("{}", path.display()); // Shown only when the test fails: the last one is the culprit.
            (target.run)(&bytes);
        }
    }
}

#[test]
fn changed_inputs_are_survived() {
    for target in TARGETS {
        for (path, bytes) in corpus(target.name) {
            for seed in 0..CHANGES {
                eprintln!("{} changed by seed {seed}", path.display());
                (target.run)(&changed(&bytes, seed));
            }
        }
    }
}

#[test]
fn every_cut_of_a_stored_input_is_survived() {
    for target in TARGETS {
        for (path, bytes) in corpus(target.name) {
            for length in (0..bytes.len()).take(2_000) {
                eprintln!("{} cut to {length}", path.display());
                (target.run)(&bytes[..length]);
            }
        }
    }
}

#[test]
fn every_target_has_a_program() {
    let manifest = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.toml")).unwrap();
    let manifest: toml::Table = manifest.parse().unwrap();
    let mut programs: Vec<&str> =
        manifest["bin"].as_array().unwrap().iter().map(|program| program["name"].as_str().unwrap()).collect();
    programs.sort_unstable();

    let mut targets: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
    targets.sort_unstable();

    assert_eq!(programs, targets);
}

/// A copy with one to four bytes set, flipped, cut out or repeated. The same for the same seed.
fn changed(bytes: &[u8], seed: u64) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = |below: usize| {
        // Xorshift: all that is asked of it is to be cheap and the same everywhere.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 16) as usize % below.max(1)
    };
    for _ in 0..=next(4) {
        if bytes.is_empty() {
            return bytes;
        }
        let at = next(bytes.len());
        match next(4) {
            0 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][next(5)],
            1 => bytes[at] ^= 1 << next(8),
            2 => drop(bytes.remove(at)),
            _ => bytes.insert(at, bytes[at]),
        }
    }
    bytes
}
