//! Tests of names: properties and conformance vectors.

mod properties;
mod vectors;
