//! Search for names with one typing error: `suggestions embedded DIR COUNT` or `suggestions postgres ADDRESS COUNT`.
//!
//! Fills an empty store with names of one prefix in four usual forms, then searches for misspelled ones. Prints times,
//! lookups, how many misspelled names find the name that was meant (or five others), and the time of one resolution.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use tendot_proto::{Budget, Handle, HandleValue};
use tendot_registry::{Caller, Registry, RegistrySettings, ResolveQuery};
use tendot_store::test_suite::CountingStore;
use tendot_store::{AnyStore, EmbeddedImporter, EmbeddedStore, PostgresSettings, PostgresStore};
use tendot_testing::SeededRng;

use crate::measure::median;

/// Number of misspelled names.
const SEARCHES: usize = 4_000;

/// Suggestions per search.
const MAX_SUGGESTIONS: usize = 5;

const PREFIX: &str = "10.5555";

type BenchResult<T = ()> = Result<T, Box<dyn Error>>;

#[tokio::main]
pub(crate) async fn run(arguments: &[&str]) -> BenchResult {
    let (store, count) = match arguments {
        ["embedded", directory, count] => {
            (fill_embedded(directory.as_ref(), count.parse()?)?, count.parse()?)
        }
        ["postgres", address, count] => (fill_postgres(address, count.parse()?).await?, count.parse()?),
        _ => {
            return Err("usage: suggestions embedded DIR COUNT, or suggestions postgres ADDRESS COUNT".into());
        }
    };
    search(store, count).await
}

/// Name with this number: numbers and words as registrants use them, scattered over the key space.
fn name(number: u64) -> String {
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 24;
    let suffix = match number % 4 {
        0 => format!("s{:05}-{:03}-{mixed:011}", mixed % 99_999, mixed % 400),
        1 => format!("journal.abc.2019.{number:08}"),
        2 => format!("{mixed:x}"),
        _ => format!("978-3-{mixed:013}_{}", mixed % 30),
    };
    format!("{PREFIX}/{suffix}")
}

fn values() -> [HandleValue<'static>; 1] {
    [HandleValue::new(1, "URL", "https://www.publisher.example.org/journals/articles/view")]
}

fn fill_embedded(directory: &Path, count: u64) -> BenchResult<AnyStore> {
    let mut importer = EmbeddedImporter::open(directory, "bench", 0)?;
    importer.home_prefix(PREFIX)?;
    for number in 0..count {
        importer.add(name(number).into(), &values())?;
    }
    importer.finish(|_| {})?;
    Ok(EmbeddedStore::open_read_only(directory)?.into())
}

async fn fill_postgres(address: &str, count: u64) -> BenchResult<AnyStore> {
    let store = PostgresStore::open(address, &PostgresSettings::default()).await?;
    let mut importer = store.start_import("bench", 0)?;
    importer.home_prefix(PREFIX)?;
    for number in 0..count {
        importer.add(name(number).into(), &values())?;
    }
    importer.finish(|_| {}).await?;
    Ok(store.into())
}

async fn search(store: AnyStore, count: u64) -> BenchResult {
    let (store, lookups) = CountingStore::new(store);
    let registry = Registry::with_shared_store(Arc::new(AnyStore::boxed(store)), RegistrySettings::default());
    let mut random = SeededRng::new(5);
    let (mut times, mut resolutions, mut counts) = (Vec::new(), Vec::new(), Vec::new());
    let (mut found, mut searched) = (0_u32, 0_u32);
    for _ in 0..SEARCHES {
        let registered = name(random.below(usize::try_from(count)?) as u64);
        let query = ResolveQuery::new(Handle::from(&*registered));
        let start = Instant::now();
        registry.resolve(&query, &Caller::Anonymous, &mut Budget::PER_REQUEST.clone()).await?;
        resolutions.push(start.elapsed().as_secs_f64() * 1e6);

        let misspelled = misspell(&registered, &mut random);
        let query = ResolveQuery::new(Handle::from(&*misspelled));
        if registry.resolve(&query, &Caller::Anonymous, &mut Budget::PER_REQUEST.clone()).await.is_ok() {
            continue;
        }
        let before = lookups.load(Ordering::Relaxed);
        let start = Instant::now();
        let similar =
            registry.similar_names(&misspelled, MAX_SUGGESTIONS, &mut Budget::PER_REQUEST.clone()).await?;
        times.push(start.elapsed().as_secs_f64() * 1e6);
        counts.push((lookups.load(Ordering::Relaxed) - before) as f64);
        searched += 1;
        found += u32::from(
            similar.len() == MAX_SUGGESTIONS || similar.iter().any(|similar| **similar == *registered),
        );
    }
    for (name, mut values) in [("microseconds", times), ("lookups", counts)] {
        values.sort_by(f64::total_cmp);
        println!("p99-{name} {:.0}", values[values.len() * 99 / 100]);
        println!("max-{name} {:.0}", values[values.len() - 1]);
        println!("median-{name} {:.0}", median(values));
    }
    println!("resolve-microseconds {:.0}", median(resolutions));
    println!("found-percent {:.2}", f64::from(found) / f64::from(searched) * 100.0);
    Ok(())
}

/// Name with one character of the suffix wrong, missing or too many, or two swapped.
fn misspell(name: &str, random: &mut SeededRng) -> String {
    let start = PREFIX.len() + 1;
    let mut letters: Vec<u8> = name.into();
    let at = start + random.below(letters.len() - start - 1);
    let letter = b'a' + random.below(26) as u8;
    match random.below(4) {
        0 => letters[at] = letter,
        1 => letters.insert(at, letter),
        2 => _ = letters.remove(at),
        _ => letters.swap(at, at + 1),
    }
    String::from_utf8_lossy(&letters).into_owned()
}
