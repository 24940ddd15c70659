//! A whole node in one process: lanes, log threads, doors, start and stop.
