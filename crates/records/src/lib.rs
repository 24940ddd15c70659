//! Records: the replicated state machine. A function of state and entry; pure.
