//! Crash consistency: power loss after every write, sync and rename; unsynced pages arrive in any subset, also torn.
//!
//! Every write, sync and rename of the store's files is recorded. For each moment, images of the disk are made: everything
//! that was synced, and every subset of the other pages if there are few, otherwise random subsets; also torn pages, of
//! which only some sectors of 512 bytes arrived. Each image is opened as a store.
//!
//! Model: a sync that returned holds for all bytes of its file, a write through a descriptor that was opened with `O_DSYNC`
//! for its own bytes, a sync of a directory for the names in it. Names arrive in order, as on file systems with a journal. Not
//! modelled: disks that lie about syncs, sectors that are destroyed while they are written, file systems that reorder names.

use std::collections::{BTreeMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};

use pollster::block_on;
use tendot_proto::HandleValue;
use tendot_store::{
    AuxEntry, ChangeSet, Edit, EmbeddedImporter, EmbeddedStore, History, HistoryOrder, LogEntry, NameKey,
    Precondition, Store, StoredRecord, restore,
};
use tendot_testing::{SeededRng, ram_dir, repetitions, test_seed};

use crate::libc_shim::{DiskEvent, RecordingGuard};
use crate::share_test_lock;

/// Up to this many unsynced pages, all subsets are tried.
const MAX_EXHAUSTIVE_PAGES: u64 = 3;
const FULL_RUN_EXHAUSTIVE_PAGES: u64 = 5;

/// Random images for a moment with more unsynced pages.
const RANDOM_IMAGES: u64 = 6;
const FULL_RUN_RANDOM_IMAGES: u64 = 20;

const PAGE_BYTES: usize = 4_096;
const SECTOR_BYTES: usize = 512;

/// Everything readable in a store.
type StoreSnapshot = (Vec<StoredRecord>, Vec<LogEntry>, Vec<Box<str>>, Vec<History>, Vec<AuxEntry>);

fn state(store: &EmbeddedStore) -> StoreSnapshot {
    let log = block_on(store.read_log(0, usize::MAX)).unwrap();
    let histories = log.iter().filter_map(|log_entry| NameKey::new(&log_entry.name).ok()).map(|key| {
        block_on(store.history(&key, HistoryOrder::OldestFirst { after: 0 }, usize::MAX)).unwrap()
    });
    let histories = histories.collect();
    let (mut records, homed) = (Vec::new(), block_on(store.list_homed(None, 100)).unwrap());
    let visit = |record: &StoredRecord| {
        records.push(record.clone());
        true
    };
    block_on(store.scan_records(None, None, visit)).unwrap();
    (records, log, homed, histories, block_on(store.list_aux(b"", None, usize::MAX)).unwrap())
}

/// Opens and verifies an image.
fn reopen(directory: &Path) -> StoreSnapshot {
    let store = EmbeddedStore::open(directory).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(store.verify(|_| {}).unwrap().errors, [""; 0]);
    state(&store)
}

fn values(data: &str) -> Vec<HandleValue<'static>> {
    vec![HandleValue::new(1, "URL", format!("https://example.org/records/{data}"))]
}

/// Change sets of all kinds: of one name and several, of small records and of some that need pages of their own.
fn change(number: usize) -> ChangeSet {
    let put = |name: usize, length: usize| {
        let data = format!("{number}-{}", "x".repeat(length));
        Edit::Put {
            name: format!("10.1/name-{name}").into(),
            values: values(&data),
            precondition: Precondition::NotTombstone,
        }
    };
    let register = |name: usize, length: usize| Edit::Register {
        name: format!("10.1/name-{name}").into(),
        values: values(&number.to_string()),
        registration: format!("{number}{}", " ".repeat(length)).into_bytes().into(),
        precondition: Precondition::NotTombstone,
    };
    let put_aux = |length: usize| Edit::PutAux {
        key: (number % 5).to_string().into_bytes().into(),
        value: format!("{number}{}", "n".repeat(length)).into_bytes().into(),
    };
    let name_of = |name: usize| format!("10.1/name-{name}").into();
    let edits = match number % 6 {
        0 => vec![register(number % 4, 10), put(4, 5), put_aux(5), put(5, 5)],
        1 => vec![put(10 + number, 9_000)],
        2 => vec![put(6, 20), Edit::Home { prefix: format!("10.{number}").into() }],
        3 => vec![Edit::Remove { name: name_of(6), precondition: Precondition::Live }, put(7, 100)],
        4 => vec![put(8, 1), register(10 + number, 3_000)],
        // Only aux entries.
        _ if number % 12 == 5 => vec![put_aux(3_000), Edit::RemoveAux { key: b"1"[..].into() }],
        _ => vec![Edit::Tombstone { name: name_of(9 + number), precondition: Precondition::Live }],
    };
    ChangeSet { author: "tester".into(), timestamp_ms: number as u64, edits }
}

#[test]
fn commits_survive_power_loss() {
    let _lock = share_test_lock();
    let root = ram_dir();
    let path = Path::new("data/store");
    let recording = RecordingGuard::start(root.path());
    let mut store = EmbeddedStore::open(&root.path().join(path)).unwrap();
    let mut states = vec![state(&store)];
    for number in 0..18 {
        if number == 9 {
            drop(store);
            store = EmbeddedStore::open(&root.path().join(path)).unwrap();
        }
        block_on(store.commit(change(number))).unwrap();
        recording.mark(number + 1);
        states.push(state(&store));
    }
    let events = recording.events();
    drop((store, recording));
    let mut number = 0;
    check_images(root.path(), &events, |image, acknowledged| {
        let found = reopen(&image.join(path));
        let possible = &states[acknowledged..states.len().min(acknowledged + 2)];
        assert!(
            possible.contains(&found),
            "{acknowledged} change sets were acknowledged, the log is {:?}",
            found.1
        );
        // The store can be written.
        number += 1;
        if number % 5 == 0 {
            let store = EmbeddedStore::open(&image.join(path)).unwrap();
            for number in [100, 102, 104] {
                block_on(store.commit(change(number))).unwrap();
            }
            drop(store);
            assert_eq!(reopen(&image.join(path)).1.len(), found.1.len() + 7);
        }
    });
}

#[test]
fn imports_survive_power_loss() {
    let _lock = share_test_lock();
    const RECORDS: usize = 130;
    let root = ram_dir();
    let path = Path::new("store");
    let store = EmbeddedStore::open(&root.path().join(path)).unwrap();
    block_on(store.commit(change(0))).unwrap();
    drop(store);
    let import = |directory: &Path| {
        let mut importer = EmbeddedImporter::open(directory, "importer", 1)
            .unwrap()
            .records_per_transaction(40)
            .buffer_bytes(10_000);
        for number in 0..RECORDS {
            let data = format!("{number}-{}", "y".repeat(number * 3));
            importer.add(format!("10.2/Name-{:03}", number * 7 % RECORDS).into(), &values(&data)).unwrap();
        }
        importer.home_prefix("10.2").unwrap();
        importer.finish(|_| {}).unwrap();
    };
    let initial = capture_disk(root.path());
    let recording = RecordingGuard::start(root.path());
    import(&root.path().join(path));
    recording.mark(1);
    let events = recording.events();
    drop(recording);
    let records = |state: StoreSnapshot| -> BTreeMap<Box<str>, Vec<HandleValue<'static>>> {
        state.0.into_iter().map(|record| (record.name, record.values)).collect()
    };
    let expected = records(reopen(&root.path().join(path)));
    assert_eq!(expected.len(), RECORDS + 3);
    let mut number = 0;
    check_images_from(initial, root.path(), &events, |image, acknowledged| {
        let image = image.join(path);
        let found = records(reopen(&image));
        for (name, values) in &found {
            assert_eq!(Some(values), expected.get(name), "{name}");
        }
        assert!(found.len() >= 3, "records from before the import");
        assert!(acknowledged == 0 || found == expected);
        number += 1;
        if acknowledged == 0 && number % 10 == 0 {
            import(&image);
            assert_eq!(records(reopen(&image)), expected);
        }
    });
}

#[test]
fn restore_survives_power_loss() {
    let _lock = share_test_lock();
    let root = ram_dir();
    let path = Path::new("store");
    let (old, mut backup) =
        (EmbeddedStore::open(&root.path().join(path)).unwrap(), tempfile::tempfile().unwrap());
    block_on(old.commit(change(0))).unwrap();
    old.backup(&mut backup).unwrap();
    let restored = state(&old);
    block_on(old.commit(change(1))).unwrap();
    let replaced = state(&old);
    drop(old);
    let initial = capture_disk(root.path());
    let recording = RecordingGuard::start(root.path());
    restore(&mut backup, &root.path().join(path), true).unwrap();
    recording.mark(1);
    let events = recording.events();
    drop(recording);
    check_images_from(initial, root.path(), &events, |image, acknowledged| {
        let image = image.join(path);
        let found = reopen(&image);
        if found == restored {
            assert_eq!(reopen(&image.join("old-1")), replaced, "the replaced store still exists");
        } else {
            assert!(found == replaced && acknowledged == 0);
        }
    });
}

/// Model of a disk after power loss: files by number, and their names.
#[derive(Clone, Default)]
struct DiskModel {
    files: BTreeMap<u64, FileModel>,
    names: BTreeMap<PathBuf, u64>,
    /// Changes of names that may not be durable yet.
    renamed: Vec<DiskEvent>,
}

#[derive(Clone, Default)]
struct FileModel {
    bytes: Vec<u8>,
    /// Writes that may not be durable yet, in order, with durable ones between them.
    pending: Vec<PendingWrite>,
}

#[derive(Clone)]
struct PendingWrite {
    at: usize,
    bytes: Vec<u8>,
    is_durable: bool,
}

impl FileModel {
    fn write(bytes: &mut Vec<u8>, at: usize, written: &[u8]) {
        let end = at + written.len();
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        bytes[at..end].copy_from_slice(written);
    }

    fn sync(&mut self) {
        for write in self.pending.drain(..) {
            Self::write(&mut self.bytes, write.at, &write.bytes);
        }
    }
}

impl DiskModel {
    /// Applies the start of a call: its effect may be durable.
    fn begin(&mut self, event: &DiskEvent) {
        match event {
            DiskEvent::Write { file, at, bytes, .. } => {
                let file = self.files.entry(*file).or_default();
                let mut at = *at as usize;
                // The system writes pages in any order.
                let mut bytes = &bytes[..];
                while !bytes.is_empty() {
                    let (page, rest) = bytes.split_at(bytes.len().min(PAGE_BYTES - at % PAGE_BYTES));
                    file.pending.push(PendingWrite { at, bytes: page.to_vec(), is_durable: false });
                    at += page.len();
                    bytes = rest;
                }
            }
            DiskEvent::Truncate { file, length } => panic!("file {file} is truncated to {length}"),
            DiskEvent::Create { .. }
            | DiskEvent::Rename { .. }
            | DiskEvent::Link { .. }
            | DiskEvent::Unlink { .. }
            | DiskEvent::CreateDir { .. } => self.renamed.push(event.clone()),
            DiskEvent::Sync { .. } | DiskEvent::SyncDir { .. } | DiskEvent::Mark(_) => {}
        }
    }

    /// Applies the end of a call.
    fn end(&mut self, event: &DiskEvent) {
        match event {
            DiskEvent::Write { file, bytes, is_durable: true, .. } => {
                let pages = &mut self.files.entry(*file).or_default().pending;
                let (mut remaining, mut pages) = (bytes.len(), pages.iter_mut().rev());
                while remaining > 0 {
                    let page = pages.next().unwrap();
                    page.is_durable = true;
                    remaining -= page.bytes.len();
                }
            }
            DiskEvent::Sync { file } => self.files.entry(*file).or_default().sync(),
            DiskEvent::SyncDir { path } => {
                let is_in = |event: &DiskEvent| match event {
                    DiskEvent::Create { path: name, .. }
                    | DiskEvent::Unlink { path: name }
                    | DiskEvent::CreateDir { path: name } => name.parent() == Some(path),
                    DiskEvent::Rename { from, to } => {
                        from.parent() == Some(path) || to.parent() == Some(path)
                    }
                    DiskEvent::Link { to, .. } => to.parent() == Some(path),
                    _ => false,
                };
                let arrived = self.renamed.iter().rposition(is_in).map_or(0, |last| last + 1);
                for event in self.renamed.drain(..arrived) {
                    rename(&mut self.names, &event);
                }
            }
            _ => {}
        }
    }

    /// Possible bytes of a file: `sector_mask` returns a bit mask of durable sectors for each page that was not synced.
    fn bytes(&self, file: u64, mut sector_mask: impl FnMut() -> u8) -> Vec<u8> {
        let Some(file) = self.files.get(&file) else { return Vec::new() };
        let mut bytes = file.bytes.clone();
        for page in &file.pending {
            let sectors = if page.is_durable { 0xff } else { sector_mask() };
            for (number, sector) in page.bytes.chunks(SECTOR_BYTES).enumerate() {
                if sectors >> (number % 8) & 1 == 1 {
                    FileModel::write(&mut bytes, page.at + number * SECTOR_BYTES, sector);
                }
            }
        }
        bytes
    }

    /// How many pages may be durable or not.
    fn pending(&self) -> usize {
        let pages = self.files.values().flat_map(|file| &file.pending);
        pages.filter(|page| !page.is_durable).count()
    }

    /// The names after this many pending changes.
    fn names(&self, renamed: usize) -> BTreeMap<PathBuf, u64> {
        let mut names = self.names.clone();
        for event in &self.renamed[..renamed] {
            rename(&mut names, event);
        }
        names
    }
}

fn rename(names: &mut BTreeMap<PathBuf, u64>, event: &DiskEvent) {
    match event {
        DiskEvent::Create { path, file } => {
            names.insert(path.clone(), *file);
        }
        DiskEvent::Unlink { path } => {
            names.remove(path);
        }
        DiskEvent::Link { from, to } => {
            if let Some(file) = names.get(from).copied() {
                names.insert(to.clone(), file);
            }
        }
        DiskEvent::Rename { from, to } => {
            let moved: Vec<PathBuf> = names.keys().filter(|path| path.starts_with(from)).cloned().collect();
            for path in moved {
                let file = names.remove(&path).unwrap();
                let rest = path.strip_prefix(from).unwrap();
                names.insert(if rest.as_os_str().is_empty() { to.clone() } else { to.join(rest) }, file);
            }
        }
        _ => {}
    }
}

/// The content of the real disk, all of it durable.
fn capture_disk(root: &Path) -> DiskModel {
    use std::os::unix::fs::MetadataExt as _;
    let mut disk = DiskModel::default();
    let mut directories = vec![root.canonicalize().unwrap()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap().map(Result::unwrap) {
            let (path, metadata) = (entry.path(), entry.metadata().unwrap());
            if metadata.is_dir() {
                directories.push(path);
            } else if path.file_name().is_some_and(|name| name == "data.mdb") {
                let bytes = std::fs::read(&path).unwrap();
                disk.files.insert(metadata.ino(), FileModel { bytes, pending: Vec::new() });
                disk.names.insert(path, metadata.ino());
            }
        }
    }
    disk
}

fn check_images(root: &Path, events: &[DiskEvent], check: impl FnMut(&Path, usize)) {
    check_images_from(DiskModel::default(), root, events, check);
}

/// Passes images for every moment to `check`, with the number of the last mark.
fn check_images_from(
    mut disk: DiskModel,
    root: &Path,
    events: &[DiskEvent],
    mut check: impl FnMut(&Path, usize),
) {
    let seed = test_seed();
    println!("TENDOT_TEST_SEED={seed}");
    let mut rng = SeededRng::new(seed);
    let mut acknowledged = 0;
    let mut checked = HashSet::new();
    let root = root.canonicalize().unwrap();
    let mut images = 0;
    let exhaustive_pages =
        repetitions("TENDOT_TEST_EXHAUSTIVE_PAGES", MAX_EXHAUSTIVE_PAGES, FULL_RUN_EXHAUSTIVE_PAGES);
    let random_images = repetitions("TENDOT_TEST_IMAGES", RANDOM_IMAGES, FULL_RUN_RANDOM_IMAGES);
    // The last event twice, for the moment after it.
    for event in events.iter().chain(events.last()) {
        disk.begin(event);
        let pending = disk.pending();
        let renamed: Vec<usize> = match disk.renamed.len() {
            0 => vec![0],
            count => vec![0, rng.below(count), count - 1, count],
        };
        let mut subsets: Vec<Vec<u8>> = if pending as u64 <= exhaustive_pages {
            (0..1_u32 << pending)
                .map(|subset| {
                    (0..pending).map(|page| if subset >> page & 1 == 1 { 0xff } else { 0 }).collect()
                })
                .collect()
        } else {
            let random =
                |rng: &mut SeededRng| (0..pending).map(|_| if rng.coin() { 0xff } else { 0 }).collect();
            let mut subsets: Vec<Vec<u8>> = (0..random_images).map(|_| random(&mut rng)).collect();
            subsets.extend([vec![0xff; pending], vec![0; pending]]);
            subsets
        };
        // Torn pages: some sectors of each page, or of one page only.
        for _ in 0..if pending > 0 { random_images.div_ceil(3) } else { 0 } {
            subsets.push((0..pending).map(|_| rng.next_u64() as u8).collect());
            let mut torn = vec![0xff; pending];
            torn[rng.below(pending)] = rng.next_u64() as u8;
            subsets.push(torn);
        }
        for renamed in renamed {
            for subset in &subsets {
                let mut subset = subset.iter().copied();
                let mut bytes = BTreeMap::new();
                for file in disk.files.keys() {
                    bytes.insert(*file, disk.bytes(*file, || subset.next().unwrap()));
                }
                let names = disk.names(renamed);
                let mut hasher = DefaultHasher::new();
                (acknowledged, &bytes, &names).hash(&mut hasher);
                if !checked.insert(hasher.finish()) {
                    continue;
                }
                let image = ram_dir();
                for (path, file) in names {
                    let path = image.path().join(path.strip_prefix(&root).unwrap());
                    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                    std::fs::write(path, bytes.get(&file).map_or(&[][..], |bytes| bytes)).unwrap();
                }
                images += 1;
                check(image.path(), acknowledged);
            }
        }
        disk.end(event);
        if let DiskEvent::Mark(number) = event {
            acknowledged = *number;
        }
    }
    println!("{images} images of {} moments", events.len());
    assert!(images > 50, "only {images} images");
}
