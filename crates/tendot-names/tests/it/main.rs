//! Integration tests: properties, conformance vectors and examples.

mod examples;
mod properties;
mod vectors;
