//! Integration tests: properties and conformance vectors.

mod properties;
mod vectors;
