//! Scripts answer what Redis answers: `redis-7.0.15.txt` was made by saying each to a real server.

#[path = "common/stand.rs"]
mod stand;

use stand::Stand;

/// A reply with what is no text written out, as the file has it.
fn shown(reply: &[u8]) -> String {
    let one = |byte: &u8| match byte {
        b'\r' => "\\r".to_owned(),
        b'\n' => "\\n".to_owned(),
        b'\\' => "\\\\".to_owned(),
        0x20..0x7f => char::from(*byte).to_string(),
        byte => format!("\\x{byte:02x}"),
    };
    reply.iter().map(one).collect()
}

#[test]
fn scripts_answer_what_redis_answers() {
    let lines: Vec<&str> = include_str!("redis-7.0.15.txt").lines().skip(1).collect();
    let mut differences = Vec::new();
    for pair in lines.chunks(2) {
        let (script, expected) = (pair[0], pair[1].strip_prefix("  ").unwrap());
        let reply = shown(&Stand::new().eval(script));
        if reply != expected {
            differences.push(format!("{script}\n  shardine {reply}\n  redis    {expected}"));
        }
    }

    assert!(differences.is_empty(), "{} differ:\n{}", differences.len(), differences.join("\n"));
}
