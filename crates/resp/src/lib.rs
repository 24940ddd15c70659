//! The Redis door: bytes in, commands to the hall, bytes out. No sockets, no threads.
