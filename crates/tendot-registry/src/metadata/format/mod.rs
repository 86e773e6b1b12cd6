//! Metadata as others want it.

use super::kernel::{Facts, Kernel};

/// A form in which metadata is given.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Format {
    /// The kernel in JSON.
    KernelJson,
    /// The kernel in XML, by its schema 2.3.
    KernelXml,
}

impl Format {
    /// Metadata in this form; `url` is where the name leads.
    pub fn write(self, kernel: &Kernel, facts: &Facts<'_>, url: Option<&str>) -> String {
        let _ = url;
        match self {
            Self::KernelJson => kernel.node_with(facts).to_json(),
            Self::KernelXml => kernel.to_xml(facts),
        }
    }
}
