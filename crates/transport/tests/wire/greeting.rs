//! The first words of a link.

use shardine_model::NodeId;
use shardine_transport::{Broken, Greeting, Hello, Inbound, LinkKind, Opening, Welcome, Who};

use crate::golden::refusals;
use crate::{frame, samples};

fn lili() -> Who {
    Who { cluster: 9, node: NodeId(1), name: "lili".to_owned(), incarnation: 2, start: 3, features: 0 }
}

fn hello() -> Hello {
    Hello::new(lili(), LinkKind::Append, NodeId(2))
}

/// The greeting that comes of bytes, one at a time.
fn greeting(mut opening: Opening, bytes: &[u8]) -> Result<Option<Greeting>, Broken> {
    for (at, byte) in bytes.iter().enumerate() {
        if let Some(greeting) = opening.receive(&[*byte])? {
            assert_eq!(at + 1, bytes.len(), "not before it is whole");
            return Ok(Some(greeting));
        }
    }
    Ok(None)
}

#[test]
fn greetings_come_back_as_they_went() {
    let welcome = Welcome::new(lili(), &hello());

    assert_eq!(greeting(Opening::accepted(), &hello().to_frame()), Ok(Some(Greeting::Hello(hello()))));
    assert_eq!(greeting(Opening::dialled(), &welcome.to_frame()), Ok(Some(Greeting::Welcome(welcome))));
    for (refusal, _) in refusals() {
        let heard = greeting(Opening::dialled(), &refusal.to_frame());
        assert_eq!(heard, Ok(Some(Greeting::Refused(refusal))));
    }
}

#[test]
fn other_versions_are_named_whatever_their_hello_holds() {
    let mut later = Hello { version: 9, version_least: 4, ..hello() };
    assert_eq!(
        greeting(Opening::accepted(), &later.to_frame()),
        Ok(Some(Greeting::OtherVersion { version: 9, version_least: 4 }))
    );

    later.version_least = 1;
    assert_eq!(greeting(Opening::accepted(), &later.to_frame()), Ok(Some(Greeting::Hello(later.clone()))));
    assert_eq!(Welcome::new(lili(), &later).version, 1, "the newest that both speak");
}

#[test]
fn whoever_speaks_something_else_is_no_peer() {
    for foreign in
        [&b"GET / HTTP/1.1\r\n\r\n"[..], b"*1\r\n$4\r\nPING\r\n", b"\x16\x03\x01\x02\0\x01\0\x01", b"PRI * HTTP/2"]
    {
        assert_eq!(Opening::accepted().receive(foreign), Err(Broken::NotAPeer), "{foreign:?}");
    }
}

#[test]
fn greetings_of_the_wrong_side_are_refused() {
    assert_eq!(Opening::dialled().receive(&hello().to_frame()), Err(Broken::NotAPeer));
    assert_eq!(Opening::accepted().receive(&Welcome::new(lili(), &hello()).to_frame()), Err(Broken::NotAPeer));
}

#[test]
fn a_caller_waits_to_be_let_in() {
    let bytes = [hello().to_frame(), vec![0]].concat();

    assert_eq!(Opening::accepted().receive(&bytes), Err(Broken::TooEarly));
}

#[test]
fn what_comes_right_behind_a_welcome_is_not_lost() {
    let sample = &samples::all()[0];
    let bytes =
        [Welcome::new(lili(), &hello()).to_frame(), frame(sample.kind, std::slice::from_ref(&sample.item))].concat();
    let mut opening = Opening::dialled();

    assert!(opening.receive(&bytes).unwrap().is_some());

    let mut items = 0;
    Inbound::new(sample.kind).receive(&opening.into_rest(), |item| items += usize::from(item == sample.item)).unwrap();
    assert_eq!(items, 1);
}

#[test]
fn a_name_that_would_upset_a_terminal_is_refused() {
    let who = Who { name: "li\x1bli".to_owned(), ..lili() };

    assert!(matches!(
        Opening::accepted().receive(&Hello::new(who, LinkKind::Bulk, NodeId(0)).to_frame()),
        Err(Broken::Unreadable(_))
    ));
}
