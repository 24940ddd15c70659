//! The documents say what the programs do.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use shardine_model::ErrorCode;

fn read(name: &str) -> String {
    std::fs::read_to_string(format!("{}/../../docs/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

#[test]
fn every_error_code_has_a_cause_and_a_remedy() {
    let page = read("errors.md");
    let sections: Vec<&str> = page.split("\n## ").skip(1).collect();

    for code in ErrorCode::ALL {
        let section = sections.iter().find(|section| section.lines().next() == Some(code.name()));
        let section = section.unwrap_or_else(|| panic!("docs/errors.md has no section for {code}"));
        assert!(section.contains("**Cause.** ") && section.contains("**Remedy.** "), "{code}");
        assert!(page.contains(&format!("| `{code}` |")), "{code} is missing in the table");
    }
    // The command line's own come last, and are compared where they are defined.
    let own = page.lines().filter(|line| line.starts_with("| `") && line.ends_with("| command line |")).count();
    assert_eq!(sections.len(), ErrorCode::ALL.len() + own, "a section without a code");
}

#[test]
fn the_table_of_errors_is_the_mapping_of_the_doors() {
    let page = read("errors.md");

    for code in ErrorCode::ALL {
        let row = page.lines().find(|line| line.starts_with(&format!("| `{code}` |"))).unwrap();
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let grpc = format!("{:?}", shardine_grpc::code_of(*code)).to_ascii_uppercase();
        assert_eq!(cells[2].replace('_', ""), grpc, "{code}");
        assert!(cells[3].split(", ").any(|status| status == shardine_http::status_of(*code).as_str()), "{code}");
    }
}

#[test]
fn every_command_and_flag_is_in_the_manual() {
    let page = read("cli.md");
    let help = |path: &[&str]| {
        let output =
            std::process::Command::new(env!("CARGO_BIN_EXE_shardine")).args(path).arg("--help").output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let commands = help(&[]);
    let commands = commands.split("Commands:").nth(1).unwrap().split("Options:").next().unwrap();

    for command in commands.lines().filter_map(|line| line.split_whitespace().next()).filter(|word| *word != "help") {
        if !command.chars().all(|letter| letter.is_ascii_lowercase()) {
            continue;
        }
        assert!(page.contains(&format!("`{command}")), "docs/cli.md does not know `{command}`");
    }
    for line in help(&["up"]).lines() {
        // Lines of options begin with the flag; sentences that mention one do not.
        let flag = line.split_whitespace().find(|word| word.starts_with("--"));
        if let Some(flag) = flag.filter(|_| line.trim_start().starts_with('-')) {
            assert!(page.contains(flag), "docs/cli.md does not know up {flag}");
        }
    }
}
