//! Every node of a cluster takes coordination's streams and calls; they are carried to the one that leads their path's group, as
//! they are, in both directions. When that one is lost the stream ends, and the client comes back, which it does by itself.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, Uri};
use tokio::sync::oneshot;
use tonic::Status;
use tonic::transport::{Channel, Endpoint};
use tower::Service;

use crate::engine::{CoordEngine, Purpose};
use crate::peek::{About, peek};

/// Marks what was carried once: nobody carries it further.
const CARRIED: &str = "x-shardine-carried";

/// How long the other node may take to be reached.
const CONNECT_TIME: Duration = Duration::from_secs(2);

#[derive(Clone)]
struct Carrier {
    engine: Arc<dyn CoordEngine>,
    /// By address. There are as many as nodes.
    channels: Arc<Mutex<BTreeMap<String, Channel>>>,
}

impl Carrier {
    fn channel(&self, address: &str) -> Result<Channel, Status> {
        let mut channels = self.channels.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(channel) = channels.get(address) {
            return Ok(channel.clone());
        }
        let endpoint = Endpoint::from_shared(format!("http://{address}"));
        let endpoint = endpoint.map_err(|_| Status::unavailable("the node that leads has no address"))?;
        let channel = endpoint.connect_timeout(CONNECT_TIME).connect_lazy();
        channels.insert(address.to_owned(), channel.clone());
        Ok(channel)
    }
}

pub(crate) fn carry(router: Router, engine: Arc<dyn CoordEngine>) -> Router {
    router.layer(from_fn_with_state(Carrier { engine, channels: Arc::default() }, pass))
}

async fn pass(State(carrier): State<Carrier>, request: Request, next: Next) -> Response {
    if request.headers().contains_key(CARRIED) {
        return next.run(request).await;
    }
    let (request, about) = if carrier.engine.has_many_groups() {
        peek(request).await
    } else {
        (request, Some(About { path: String::new(), purpose: Purpose::Use }))
    };
    match whither(&carrier.engine, about).await {
        None => next.run(request).await,
        Some(address) => match send(&carrier, &address, request).await {
            Ok(response) => response,
            Err(status) => status.into_http(),
        },
    }
}

/// What cannot be read is refused here.
async fn whither(engine: &Arc<dyn CoordEngine>, about: Option<About>) -> Option<String> {
    let About { path, purpose } = about?;
    let (give, take) = oneshot::channel();
    engine.elsewhere(&path, purpose, Box::new(move |address| drop(give.send(address))));
    take.await.ok().flatten()
}

async fn send(carrier: &Carrier, address: &str, request: Request) -> Result<Response, Status> {
    let mut channel = carrier.channel(address)?;
    let (mut parts, body) = request.into_parts();
    // The channel knows whom it speaks to.
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    parts.uri = path.parse::<Uri>().map_err(|_| Status::invalid_argument("the path of the call"))?;
    parts.headers.insert(CARRIED, HeaderValue::from_static("1"));
    let unreachable = |error: tonic::transport::Error| Status::unavailable(format!("the node that leads: {error}"));
    std::future::poll_fn(|context| channel.poll_ready(context)).await.map_err(unreachable)?;
    let request = http::Request::from_parts(parts, tonic::body::Body::new(body));
    let response = channel.call(request).await.map_err(unreachable)?;
    Ok(response.map(Body::new).into_response())
}
