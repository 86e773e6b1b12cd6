//! Generated handle records like real ones: 5,000 prefixes of very different size, two or three values, URLs of 60 to 90 bytes.

use tendot_proto::HandleValue;
use tendot_testing::SeededRng;

const PREFIXES: usize = 5_000;

/// Generates handle records in a fixed order per seed.
pub struct RecordGenerator {
    random: SeededRng,
    /// Cumulative weights of the prefixes: the n-th has weight 1/n.
    weights: Vec<f64>,
    number: u64,
}

impl RecordGenerator {
    /// Generator with this seed.
    pub fn new(seed: u64) -> Self {
        let mut sum = 0.0;
        let weights = (1..=PREFIXES).map(|rank| {
            sum += 1.0 / rank as f64;
            sum
        });
        Self { weights: weights.collect(), random: SeededRng::new(seed), number: 0 }
    }

    /// Generates the next record; names are unique.
    pub fn record(&mut self) -> (String, Vec<HandleValue<'static>>) {
        self.number += 1;
        let total = self.weights[PREFIXES - 1];
        let at = self.random.below(1 << 40) as f64 / (1_u64 << 40) as f64 * total;
        let rank = self.weights.partition_point(|weight| *weight < at);
        // Scatter the numbers, so that neither prefixes nor suffixes are in order.
        let mixed = self.number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 24;
        let prefix = format!("10.{}", 1_000 + rank * 7 % 49_000);
        let suffix = match rank % 4 {
            0 => format!("s{:05}-{:03}-{mixed:011}", rank * 31 % 99_999, mixed % 400),
            1 => format!("j.abc.2019.{mixed:011}"),
            2 => format!("{mixed:x}"),
            _ => format!("978-3-{mixed:013}_{}", mixed % 30),
        };
        let host = format!("www.publisher-{rank}.example.org");
        let address = match rank % 3 {
            0 => format!("https://{host}/doi/{prefix}/{suffix}"),
            1 => format!("https://{host}/journals/articles/view/{}/{mixed}", rank * 13 % 500),
            _ => format!("https://{host}/resolve?id={prefix}/{suffix}"),
        };
        let timestamp = 1_300_000_000 + self.random.below(400_000_000) as u32;
        let administrator = format!("0.NA/{prefix}");
        let mut admin = vec![0x0f, 0xf3];
        admin.extend((administrator.len() as u32).to_be_bytes());
        admin.extend(administrator.into_bytes());
        admin.extend(200_u32.to_be_bytes());
        let mut values = vec![
            HandleValue { timestamp, ..HandleValue::new(1, "URL", address) },
            HandleValue { timestamp, ..HandleValue::with_data(100, "HS_ADMIN", admin) },
        ];
        if self.number.is_multiple_of(2) {
            values.insert(
                1,
                HandleValue {
                    timestamp,
                    ..HandleValue::new(700_050, "700050", format!("{:017}", mixed * 977))
                },
            );
        }
        (format!("{prefix}/{suffix}"), values)
    }
}
