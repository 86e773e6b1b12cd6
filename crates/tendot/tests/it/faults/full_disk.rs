//! The disk of the embedded store becomes full, until space is freed: only what did not fit is refused.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;

use tendot_testing::{MountedDisk, SeededRng, repetitions};

use super::load::{Load, LoadSettings, QUOTA, seeded_rng};
use super::service::Service;

/// Times that the disk becomes full per store.
const FILLS_PER_STORE: u64 = 5;

/// Refusals for lack of space before space is freed.
const REFUSALS_PER_FILL: u64 = 15;

#[test]
fn acknowledged_changes_survive_full_tmpfs() {
    check_full_disk(|| MountedDisk::tmpfs("size=24m"));
}

#[test]
fn acknowledged_changes_survive_full_ext4() {
    check_full_disk(|| MountedDisk::ext4(24 << 20));
}

#[test]
fn acknowledged_changes_survive_full_xfs() {
    check_full_disk(MountedDisk::xfs);
}

fn check_full_disk(mount: impl Fn() -> MountedDisk) {
    let fills = repetitions("TENDOT_TEST_DISK_FILLS", 2, 25);
    let mut rng = seeded_rng();
    for first in (0..fills).step_by(FILLS_PER_STORE as usize) {
        let disk = mount();
        let (data, filler) = (disk.path().join("data"), disk.path().join("filler"));
        let service = Service::embedded(data.to_str().unwrap(), QUOTA);
        let load = Load::new(service, LoadSettings::default());
        let seed = rng.next_u64();
        load.run(seed, || {
            for _ in first..fills.min(first + FILLS_PER_STORE) {
                load.wait_for_progress(rng.in_range(1, 50) as u64);
                let enough = load.ledger.code_count("disk-full") + REFUSALS_PER_FILL;
                fill(&filler, &mut rng);
                load.wait_until("changes are refused", || load.ledger.code_count("disk-full") >= enough);
                fs::remove_file(&filler).unwrap();
                load.wait_for_progress(50);
            }
        });
        load.service.restart(0, "TERM");
        load.check();
    }
}

/// Fills the disk with a file, except for some free blocks.
fn fill(filler: &Path, rng: &mut SeededRng) {
    let mut file = File::create(filler).unwrap();
    let block = [1; 4_096];
    let mut length = 0;
    while file.write_all(&block).is_ok() {
        length += block.len() as u64;
    }
    let free = (rng.below(60) * block.len()) as u64;
    file.set_len(length.saturating_sub(free)).unwrap();
    // Delayed allocation could fail later, or give blocks back.
    let _ = file.sync_all();
}
