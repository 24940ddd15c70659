//! Claims about frames: whole, split at every byte, typed by hand, too long, and not the protocol at all.

use proptest::prelude::*;

use super::*;

fn words(input: &[u8], limits: &Limits) -> Result<Vec<Vec<Vec<u8>>>, FrameError> {
    let mut args = Args::default();
    let (mut at, mut commands) = (0, Vec::new());
    loop {
        match parse(&input[at..], limits, &mut args)? {
            Parsed::Incomplete => return Ok(commands),
            Parsed::Empty { consumed } => at += consumed,
            Parsed::Command { consumed } => {
                commands.push(args.line(&input[at..]).words(0).map(<[u8]>::to_vec).collect());
                at += consumed;
            }
        }
    }
}

fn one(input: &[u8]) -> Vec<String> {
    let mut commands = words(input, &Limits::OPEN).unwrap();
    assert_eq!(commands.len(), 1, "one command in {:?}", String::from_utf8_lossy(input));
    commands.remove(0).into_iter().map(|word| String::from_utf8_lossy(&word).into_owned()).collect()
}

fn refused(input: &[u8]) -> FrameError {
    words(input, &Limits::OPEN).unwrap_err()
}

#[test]
fn an_array_of_bulk_strings_is_a_command() {
    assert_eq!(one(b"*2\r\n$3\r\nGET\r\n$5\r\na\r\nbc\r\n"), ["GET", "a\r\nbc"]);
    assert_eq!(one(b"*1\r\n$0\r\n\r\n"), [""]);
}

#[test]
fn empty_frames_are_passed_over() {
    assert_eq!(words(b"*0\r\n*-1\r\n\r\n  \r\n", &Limits::OPEN), Ok(vec![]));
    assert_eq!(one(b"\r\n*1\r\n$4\r\nPING\r\n"), ["PING"]);
}

#[test]
fn typed_lines_follow_the_quoting_of_redis() {
    assert_eq!(one(b"SET a \"b c\\x41\\n\\\"\" 'd\\'e\\n'\r\n"), ["SET", "a", "b cA\n\"", "d'e\\n"]);
    assert_eq!(one(b"  PING\t x \n"), ["PING", "x"]);
    assert_eq!(one(b"ECHO \"\"\n"), ["ECHO", ""]);
    assert_eq!(one(b"ECHO a\"b c\"\n"), ["ECHO", "ab c"]);
    for line in [&b"ECHO \"a\n"[..], b"ECHO 'a\n", b"ECHO \"a\"b\n", b"ECHO 'a'b\n"] {
        assert_eq!(refused(line), FrameError::Quotes, "{:?}", String::from_utf8_lossy(line));
    }
}

#[test]
fn what_is_not_the_protocol_is_refused() {
    assert_eq!(refused(b"*x\r\n"), FrameError::ArrayLength);
    assert_eq!(refused(b"*\r\n"), FrameError::ArrayLength);
    assert_eq!(refused(b"*1\rx"), FrameError::ArrayLength);
    assert_eq!(refused(b"*99999999999999999999\r\n"), FrameError::ArrayLength);
    assert_eq!(refused(b"*65537\r\n"), FrameError::ArrayLength);
    assert_eq!(refused(b"*1\r\n:1\r\n"), FrameError::ExpectedBulk(':'));
    assert_eq!(refused(b"*1\r\n$-1\r\n"), FrameError::BulkLength);
    assert_eq!(refused(b"*1\r\n$99999999\r\n"), FrameError::BulkLength);
    assert_eq!(refused(b"*1\r\n$1\r\nabc"), FrameError::BulkEnd);
}

/// reliability F37, I80, S10.
#[test]
fn limits_hold_before_any_byte_of_the_claim_arrives() {
    let two = format!("*3\r\n${0}\r\n{1}\r\n${0}\r\n{1}\r\n$9\r\n", 32 << 20, "x".repeat(32 << 20));
    assert_eq!(refused(two.as_bytes()), FrameError::FrameTooBig);
    assert_eq!(refused(&vec![b'x'; (64 << 10) + 1]), FrameError::InlineTooBig);
    assert_eq!(words(b"*11\r\n", &Limits::BEFORE_AUTH), Err(FrameError::ArrayLengthBeforeAuth));
    assert_eq!(words(b"*1\r\n$16385\r\n", &Limits::BEFORE_AUTH), Err(FrameError::BulkLengthBeforeAuth));
}

fn frame(command: &[Vec<u8>]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", command.len()).into_bytes();
    for word in command {
        out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
    out
}

proptest! {
    #[test]
    fn a_frame_split_at_every_byte_is_the_same_command(
        command in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..12), 1..24),
    ) {
        let input = frame(&command);
        let mut args = Args::default();

        for end in 0..input.len() {
            prop_assert_eq!(parse(&input[..end], &Limits::OPEN, &mut args), Ok(Parsed::Incomplete));
        }
        let parsed = parse(&input, &Limits::OPEN, &mut args);

        prop_assert_eq!(parsed, Ok(Parsed::Command { consumed: input.len() }));
        let back: Vec<Vec<u8>> = args.line(&input).words(0).map(<[u8]>::to_vec).collect();
        prop_assert_eq!(back, command);
    }

    /// reliability F36, I79.
    #[test]
    fn no_bytes_make_it_panic(input in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = words(&input, &Limits::OPEN);
    }

    #[test]
    fn no_bytes_of_the_protocol_make_it_panic(input in "[*$0-9\\r\\n\"'a-]{0,80}") {
        let _ = words(input.as_bytes(), &Limits::BEFORE_AUTH);
    }
}
