//! The HTTP door: REST with OpenAPI, metrics and health.
