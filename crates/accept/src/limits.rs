//! What one door grants its clients, each maximum with its reason.

use std::time::Duration;

#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections at once. Each costs a file and some kilobytes; the Redis door needs most of the files.
    pub connections_max: usize,
    /// Connections of one address, so that one client cannot take all places.
    pub connections_per_address_max: usize,
    /// From the first byte of a header to its last (reliability S12).
    pub header_time: Duration,
    /// A connection without a request for this long is closed.
    pub idle_time: Duration,
    /// Time for requests in flight when the door closes or a connection is asked to end.
    pub grace: Duration,
    /// Header fields of one request.
    pub headers_max: usize,
    /// Bytes of one header.
    pub header_bytes_max: usize,
    /// Requests at once on one HTTP/2 connection (reliability S11).
    pub streams_max: u32,
    /// Bytes of answers that clients have not taken yet, of all connections together. Beyond, the one that holds most is cut: it
    /// reads too slowly for what it asks, and everybody would run out of memory with it.
    pub unread_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections_max: 2_048,
            connections_per_address_max: 1_024,
            header_time: Duration::from_secs(10),
            idle_time: Duration::from_secs(60),
            grace: Duration::from_secs(10),
            headers_max: 64,
            header_bytes_max: 16 << 10,
            streams_max: 200,
            unread_bytes_max: 1 << 30,
        }
    }
}

impl Limits {
    /// gRPC clients keep one connection and speak when they have something to say. Every process that holds a session of
    /// coordination has one, and one address may stand for all of them.
    #[must_use]
    pub fn grpc() -> Self {
        Self {
            connections_max: 16_000,
            connections_per_address_max: 12_000,
            idle_time: Duration::from_secs(600),
            ..Self::default()
        }
    }
}
