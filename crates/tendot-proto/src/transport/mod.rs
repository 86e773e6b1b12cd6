//! Messages over UDP (fragmentation, reassembly), TCP (framing) and HTTP (tunnel).
//!
//! Reading order: `fragment`, `reassembly`, `framing`, `tunnel`.

mod fragment;
mod framing;
mod reassembly;
pub mod tunnel;

pub use fragment::{Datagram, Fragments};
pub use framing::{FrameError, Framer};
pub use reassembly::{FragmentError, Reassembly};
