//! Real servers and clients for tests: free ports, temporary directories, waiting for events.
