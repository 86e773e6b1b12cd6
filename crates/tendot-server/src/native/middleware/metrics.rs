//! Metrics of the native protocol for `/metrics`.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use tendot_proto::endpoint::Transport;
use tendot_proto::{Opcode, ResponseCode};

use crate::connection::ConnectionMetrics;
use crate::metrics::LatencyHistogram;

const TRANSPORT_LABELS: [(Transport, &str); 3] =
    [(Transport::Udp, "udp"), (Transport::Tcp, "tcp"), (Transport::Http, "http")];

pub(crate) fn transport_label(transport: Transport) -> &'static str {
    TRANSPORT_LABELS.get(transport as usize).map_or("", |(_, label)| label)
}

/// Opcodes with their own label; others are counted under the last one.
const OPERATION_LABELS: [(Opcode, &str); 16] = [
    (Opcode::RESOLUTION, "resolve"),
    (Opcode::GET_SITE_INFO, "site"),
    (Opcode::CREATE_HANDLE, "create"),
    (Opcode::DELETE_HANDLE, "delete"),
    (Opcode::ADD_VALUE, "add"),
    (Opcode::REMOVE_VALUE, "remove"),
    (Opcode::MODIFY_VALUE, "modify"),
    (Opcode::LIST_HANDLES, "list"),
    (Opcode::CHALLENGE_RESPONSE, "challenge_response"),
    (Opcode::VERIFY_CHALLENGE, "verify_challenge"),
    (Opcode::HOME_PREFIX, "home_prefix"),
    (Opcode::UNHOME_PREFIX, "unhome_prefix"),
    (Opcode::LIST_HOMED_PREFIXES, "list_homed_prefixes"),
    (Opcode::SESSION_SETUP, "session_setup"),
    (Opcode::SESSION_TERMINATE, "session_terminate"),
    (Opcode::RESERVED, "other"),
];

/// Response codes with their own label; others are counted under the last one.
const RESPONSE_CODE_LABELS: [u32; 26] = [
    1, 2, 3, 4, 5, 7, 100, 101, 102, 200, 201, 202, 301, 303, 400, 401, 402, 403, 404, 405, 406, 500, 501,
    502, 505, 0,
];

/// Reason a datagram or response was dropped.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum DropReason {
    /// Not a valid datagram of a message.
    Malformed,
    /// Not a request, such as a response.
    NotARequest,
    /// Sent from a source port that clients do not use.
    SourcePort,
    /// Copy of a request in flight.
    Duplicate,
    /// Response rate limit of the source exceeded, and the response would be large.
    RateLimit,
    /// Too large for an unverified address, which gets an error instead.
    Unverified,
    /// CPU budget of the source exceeded.
    CpuLimit,
    /// Server overloaded.
    Overloaded,
    /// The socket's send buffer is full.
    SendFailed,
}

impl DropReason {
    const LABELS: [(Self, &'static str); 9] = [
        (Self::Malformed, "malformed"),
        (Self::NotARequest, "not_a_request"),
        (Self::SourcePort, "source_port"),
        (Self::Duplicate, "duplicate"),
        (Self::RateLimit, "rate_limit"),
        (Self::Unverified, "unverified"),
        (Self::CpuLimit, "cpu_limit"),
        (Self::Overloaded, "overloaded"),
        (Self::SendFailed, "send_failed"),
    ];
}

/// Metrics of the native protocol.
#[derive(Debug, Default)]
pub(crate) struct NativeMetrics {
    requests: [[[AtomicU64; RESPONSE_CODE_LABELS.len()]; OPERATION_LABELS.len()]; TRANSPORT_LABELS.len()],
    durations: [LatencyHistogram; TRANSPORT_LABELS.len()],
    dropped: [AtomicU64; DropReason::LABELS.len()],
    pub(crate) connections: Arc<ConnectionMetrics>,
}

impl NativeMetrics {
    pub(crate) fn record_request(
        &self,
        transport: Transport,
        opcode: Opcode,
        code: ResponseCode,
        duration: Duration,
    ) {
        let opcode = OPERATION_LABELS
            .iter()
            .position(|(label, _)| *label == opcode)
            .unwrap_or(OPERATION_LABELS.len() - 1);
        let code = RESPONSE_CODE_LABELS
            .iter()
            .position(|label| *label == code.0)
            .unwrap_or(RESPONSE_CODE_LABELS.len() - 1);
        let requests =
            self.requests.get(transport as usize).and_then(|opcodes| opcodes.get(opcode)?.get(code));
        if let Some(requests) = requests {
            requests.fetch_add(1, Ordering::Relaxed);
        }
        if let Some(durations) = self.durations.get(transport as usize) {
            durations.observe(duration);
        }
    }

    pub(crate) fn record_drop(&self, reason: DropReason) {
        if let Some(dropped) = self.dropped.get(reason as usize) {
            dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Total number of completed requests.
    pub(crate) fn total_requests(&self) -> u64 {
        self.requests.as_flattened().as_flattened().iter().map(|number| number.load(Ordering::Relaxed)).sum()
    }
}

/// OpenMetrics collector for the native metrics.
#[derive(Debug)]
pub(crate) struct NativeCollector(pub(crate) Arc<NativeMetrics>);

impl Collector for NativeCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Self(metrics) = self;
        let read = |number: &AtomicU64| number.load(Ordering::Relaxed);

        let (name, help) = ("tendot_native_requests", "Messages processed.");
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for ((_, transport), opcodes) in TRANSPORT_LABELS.iter().zip(&metrics.requests) {
            for ((_, opcode), codes) in OPERATION_LABELS.iter().zip(opcodes) {
                for (code, number) in
                    RESPONSE_CODE_LABELS.iter().zip(codes).filter(|(_, number)| read(number) > 0)
                {
                    let code = if *code == 0 { "other".to_owned() } else { code.to_string() };
                    let labels = [
                        ("transport", (*transport).to_owned()),
                        ("operation", (*opcode).to_owned()),
                        ("code", code),
                    ];
                    ConstCounter::new(read(number)).encode(family.encode_family(&labels)?)?;
                }
            }
        }

        let (name, help) = ("tendot_native_dropped", "Dropped datagrams and responses.");
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for ((_, reason), number) in DropReason::LABELS.iter().zip(&metrics.dropped) {
            ConstCounter::new(read(number)).encode(family.encode_family(&[("reason", *reason)])?)?;
        }

        metrics.connections.encode(&mut encoder, "tendot_native_connections")?;

        let (name, help) = ("tendot_native_request_duration_seconds", "Message processing duration.");
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
        for ((_, transport), durations) in TRANSPORT_LABELS.iter().zip(&metrics.durations) {
            durations.encode(family.encode_family(&[("transport", *transport)])?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_order() {
        for (number, (transport, _)) in TRANSPORT_LABELS.iter().enumerate() {
            assert_eq!(*transport as usize, number);
        }
        for (number, (reason, _)) in DropReason::LABELS.iter().enumerate() {
            assert_eq!(*reason as usize, number);
        }
    }
}
