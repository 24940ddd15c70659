//! Streams of items, cut at any byte.

use super::*;

fn stream_of(items: &[(u8, Vec<u8>)]) -> Vec<u8> {
    let mut stream = Vec::new();
    for (tag, content) in items {
        put_item(&mut stream, *tag, 1, |out| out.extend_from_slice(content));
    }
    put_end(&mut stream);
    stream
}

/// The stream in chunks that hold so many bytes of it.
fn cut(stream: &[u8], size: usize) -> Vec<Vec<u8>> {
    let mut chunks = Chunks::new(GroupKind::Records);
    let cut = stream.chunks(size).map(|bytes| {
        let mut chunk = chunks.open(size);
        chunk.extend_from_slice(bytes);
        chunks.close(chunk)
    });
    cut.collect()
}

fn put_together(chunks: &[Vec<u8>]) -> Result<Vec<(u8, Vec<u8>)>, SnapshotError> {
    let mut assembler = Assembler::new(GroupKind::Records);
    let mut items = Vec::new();
    for chunk in chunks {
        assembler.push(chunk, |item| {
            items.push((item.tag, item.content.into_owned()));
            Ok(())
        })?;
    }
    assembler.finish().map(|()| items)
}

fn some_items() -> Vec<(u8, Vec<u8>)> {
    vec![(1, b"head".to_vec()), (7, vec![9; 300]), (7, Vec::new()), (2, vec![1; 40])]
}

#[test]
fn a_chunk_has_these_bytes_for_ever() {
    let mut chunks = Chunks::new(GroupKind::Coordination);
    let mut chunk = chunks.open(0);
    put_item(&mut chunk, 7, 2, |out| out.extend_from_slice(b"ab"));
    put_end(&mut chunk);

    assert_eq!(chunks.close(chunk), [3, 2, 0, 7, 3, 0, 0, 0, 2, b'a', b'b', 0, 0, 0, 0, 0]);
    assert_eq!(chunks.open(0), [3, 2, 1]);
}

#[test]
fn an_item_given_piece_by_piece_has_the_same_bytes() {
    let (mut whole, mut pieces) = (Vec::new(), Vec::new());
    put_item(&mut whole, 7, 2, |out| out.extend_from_slice(b"ab"));
    open_item(&mut pieces, 7, 2, 2);
    pieces.extend_from_slice(b"a");
    pieces.extend_from_slice(b"b");

    assert_eq!(whole, pieces);
}

#[test]
fn items_come_back_wherever_the_stream_is_cut() {
    let stream = stream_of(&some_items());
    for size in 1..=stream.len() {
        assert_eq!(put_together(&cut(&stream, size)), Ok(some_items()), "chunks of {size}");
    }
}

#[test]
fn a_stream_that_ends_too_early_is_refused_wherever_it_ends() {
    let stream = stream_of(&some_items());
    for len in 0..stream.len() {
        let cut = cut(&stream[..len], 50);
        assert!(
            matches!(put_together(&cut), Err(SnapshotError::EndsInside | SnapshotError::WithoutEnd)),
            "{len} bytes of it"
        );
    }
}

#[test]
fn chunks_in_another_order_twice_or_left_out_are_refused() {
    let cut = cut(&stream_of(&some_items()), 50);
    let mut swapped = cut.clone();
    swapped.swap(1, 2);
    let twice: Vec<Vec<u8>> = [&cut[..2], &cut[1..]].concat();
    let gap: Vec<Vec<u8>> = [&cut[..1], &cut[2..]].concat();

    assert_eq!(put_together(&swapped), Err(SnapshotError::OutOfOrder { found: 2, expected: 1 }));
    assert_eq!(put_together(&twice), Err(SnapshotError::OutOfOrder { found: 1, expected: 2 }));
    assert_eq!(put_together(&gap), Err(SnapshotError::OutOfOrder { found: 2, expected: 1 }));
}

#[test]
fn nothing_may_follow_the_end() {
    let mut stream = stream_of(&some_items());
    put_item(&mut stream, 1, 1, |_| {});

    assert_eq!(put_together(&cut(&stream, 50)), Err(SnapshotError::BehindEnd));
}

#[test]
fn a_claimed_length_above_the_limit_is_refused_at_once() {
    let stream = [7, 1, 0, 0, 0x40, 1];

    assert_eq!(put_together(&cut(&stream, 6)), Err(SnapshotError::ItemTooLarge { bytes: (1 << 30) + 1 }));
}

#[test]
fn another_machine_or_form_is_refused_by_name() {
    let refused = |chunk: &[u8]| put_together(&[chunk.to_vec()]).unwrap_err().to_string();

    assert_eq!(refused(&[3, 2, 0]), "the snapshot is of machine 2, machine 1 belongs here");
    assert_eq!(
        refused(&[2, 1, 0]),
        "the snapshot has form 2, this version reads form 3: it was written by another version"
    );
}

#[test]
fn what_is_too_long_for_a_chunk_comes_in_several() {
    let items = vec![(1, vec![5; 3 * SNAPSHOT_CHUNK_BYTES_MAX]), (2, b"behind".to_vec())];
    let mut chunks = Chunks::new(GroupKind::Records);
    let mut first = chunks.open(0);
    first.extend(stream_of(&items));

    let mut cut = vec![chunks.close(first)];
    cut.extend(std::iter::from_fn(|| chunks.take_rest()));

    assert_eq!(cut.len(), 4);
    assert!(cut.iter().all(|chunk| chunk.len() <= SNAPSHOT_CHUNK_BYTES_MAX));
    assert_eq!(put_together(&cut), Ok(items));
}
