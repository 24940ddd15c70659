//! Measurements against Redis and the candidates that decisions were made on.
