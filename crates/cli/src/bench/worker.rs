//! One connection: sends a batch, waits for its answers, notes how long each took.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::BenchArgs;
use super::mix::Kind;
use super::report::Tally;
use super::wire;

/// A server that says nothing for so long has stopped serving; that is a finding, not something to wait for.
const PATIENCE: Duration = Duration::from_secs(10);

pub async fn run(args: BenchArgs, number: u32, until: Instant, done: Arc<AtomicU64>) -> io::Result<Tally> {
    let mut stream = timeout(PATIENCE, TcpStream::connect(args.redis)).await??;
    stream.set_nodelay(true)?;
    let mut tally = Tally::default();
    // The same seed for the same worker: two runs put the same load.
    let mut chance = SmallRng::seed_from_u64(u64::from(number));
    let value = vec![b'x'; args.value_bytes.0 as usize];
    let (mut out, mut input) = (Vec::new(), Vec::with_capacity(64 << 10));
    if let Some(token) = &args.token {
        wire::put(&mut out, &[b"AUTH", token.as_bytes()]);
        stream.write_all(&out).await?;
        exchange(&mut stream, &mut input, &[Kind::Get], Instant::now(), &mut Tally::default()).await?;
    }
    let mut kinds = Vec::with_capacity(args.pipeline as usize);
    while Instant::now() < until {
        out.clear();
        kinds.clear();
        for _ in 0..args.pipeline {
            let key = format!("{}{}", args.prefix, chance.random_range(0..args.keys));
            let kind = args.mix.pick(chance.random());
            match kind {
                Kind::Get => wire::put(&mut out, &[b"HGET", key.as_bytes(), args.field.as_bytes()]),
                Kind::Set => wire::put(&mut out, &[b"HSET", key.as_bytes(), args.field.as_bytes(), &value]),
            }
            kinds.push(kind);
        }
        let begun = Instant::now();
        stream.write_all(&out).await?;
        exchange(&mut stream, &mut input, &kinds, begun, &mut tally).await?;
        done.fetch_add(u64::from(args.pipeline), Ordering::Relaxed);
    }
    Ok(tally)
}

/// Takes one answer per command.
async fn exchange(
    stream: &mut TcpStream,
    input: &mut Vec<u8>,
    kinds: &[Kind],
    begun: Instant,
    tally: &mut Tally,
) -> io::Result<()> {
    let mut taken = 0;
    for kind in kinds {
        let error = loop {
            if let Some((length, error)) = wire::take(&input[taken..])? {
                taken += length;
                break error;
            }
            if timeout(PATIENCE, stream.read_buf(input)).await?? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        };
        tally.note(*kind, begun.elapsed(), error);
    }
    input.drain(..taken);
    Ok(())
}
