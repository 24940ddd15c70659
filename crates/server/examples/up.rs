//! Scratch.
#[global_allocator]
static ALLOC: mimalloc::MiMalloc = mimalloc::MiMalloc;
fn main() -> anyhow::Result<()> {
    let mut options = shardine_server::UpOptions::default();
    let mut args = std::env::args().skip(1);
    options.data = args.next().unwrap().into();
    options.redis = args.next().unwrap().parse()?;
    options.sql = args.next();
    let node = shardine_server::Node::start(&options)?;
    eprintln!("{:?}", node.addresses());
    loop { std::thread::park(); }
}
