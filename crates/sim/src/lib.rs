//! The real cores under a seeded scheduler, with faults and checkers.
