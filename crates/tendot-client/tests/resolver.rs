//! What is kept, for how long, and how often somebody is asked.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use tendot_client::{CacheSettings, Found, Resolver, Upstream};
use tendot_proto::{Ttl, Value};
use tokio::time::{advance, sleep};

/// Answers every name by how it ends, and counts.
#[derive(Default)]
struct Library {
    asked: AtomicU32,
    is_away: AtomicBool,
}

impl Upstream for &Library {
    type Error = io::Error;

    async fn ask(&self, name: &str) -> Result<Found, io::Error> {
        let number = self.asked.fetch_add(1, Ordering::Relaxed) + 1;
        sleep(Duration::from_millis(100)).await;
        if self.is_away.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let value =
            |ttl| vec![Value { ttl, ..Value::new(1, "URL", format!("https://example.org/{number}")) }];
        Ok(match name.rsplit('/').next().unwrap() {
            "none" => Found::Nothing,
            "never" => Found::Values(value(Ttl::Relative(0))),
            "big" => Found::Values(vec![Value::with_data(1, "DESC", vec![0; 100_000])]),
            _ => Found::Values(value(Ttl::Relative(600))),
        })
    }
}

impl Library {
    fn asked(&self) -> u32 {
        self.asked.swap(0, Ordering::Relaxed)
    }
}

fn resolver(library: &Library) -> Resolver<&Library> {
    Resolver::new(library, CacheSettings::default())
}

#[tokio::test(start_paused = true)]
async fn kept_until_its_time_is_over() {
    let library = Library::default();
    let resolver = resolver(&library);
    for name in ["10.1000/x", "10.1000/X", "10.1000/x"] {
        assert!(matches!(&*resolver.resolve(name).await.unwrap().found, Found::Values(_)));
    }
    assert_eq!(library.asked(), 1);
    advance(Duration::from_secs(599)).await;
    let answer = resolver.resolve("10.1000/x").await.unwrap();
    assert!(answer.age >= Duration::from_secs(599) && !answer.is_stale);
    assert_eq!(library.asked(), 0);
    advance(Duration::from_secs(2)).await;
    let answer = resolver.resolve("10.1000/x").await.unwrap();
    assert!(answer.age < Duration::from_secs(1));
    assert_eq!(library.asked(), 1);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_kept_shortly_and_some_things_never() {
    let library = Library::default();
    let resolver = resolver(&library);
    for _ in 0..3 {
        assert_eq!(*resolver.resolve("10.1000/none").await.unwrap().found, Found::Nothing);
    }
    assert_eq!(library.asked(), 1);
    advance(Duration::from_secs(61)).await;
    resolver.resolve("10.1000/none").await.unwrap();
    assert_eq!(library.asked(), 1);
    for _ in 0..3 {
        resolver.resolve("10.1000/never").await.unwrap();
    }
    assert_eq!(library.asked(), 3);
}

#[tokio::test(start_paused = true)]
async fn one_question_for_all_who_wait() {
    let library = Library::default();
    let resolver = resolver(&library);
    for round in 0..2 {
        let all = (0..50).map(|_| resolver.resolve("10.1000/x"));
        let mut all: Vec<_> = all.map(Box::pin).collect();
        // All of them begin before the first one is answered.
        let answers = std::future::poll_fn(|context| {
            let pending = all.iter_mut().map(|one| one.as_mut().poll(context).is_pending());
            let pending = pending.filter(|pending| *pending).count();
            assert_eq!(pending, 50);
            std::task::Poll::Ready(())
        });
        answers.await;
        for one in all {
            one.await.unwrap();
        }
        assert_eq!(library.asked(), 1, "round {round}");
        advance(Duration::from_secs(601)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_known_is_given_when_nobody_answers() {
    let library = Library::default();
    let resolver = resolver(&library);
    resolver.resolve("10.1000/x").await.unwrap();
    library.is_away.store(true, Ordering::Relaxed);
    library.asked();
    assert!(resolver.resolve("10.1000/y").await.is_err());
    advance(Duration::from_secs(700)).await;
    let answer = resolver.resolve("10.1000/x").await.unwrap();
    assert!(answer.is_stale && answer.age >= Duration::from_secs(700));
    // Who is away is not asked again at once.
    library.asked();
    assert!(resolver.resolve("10.1000/x").await.unwrap().is_stale);
    assert_eq!(library.asked(), 0);
    advance(Duration::from_secs(11)).await;
    assert!(resolver.resolve("10.1000/x").await.unwrap().is_stale);
    assert_eq!(library.asked(), 1);
    // Not for ever.
    advance(Duration::from_secs(86_400 + 600)).await;
    assert!(resolver.resolve("10.1000/x").await.is_err());
    library.is_away.store(false, Ordering::Relaxed);
    assert!(!resolver.resolve("10.1000/x").await.unwrap().is_stale);
}

#[tokio::test(start_paused = true)]
async fn memory_is_bounded() {
    let library = Library::default();
    let settings = CacheSettings { bytes: 1 << 20, ..CacheSettings::default() };
    let resolver = Resolver::new(&library, settings);
    for number in 0..200 {
        resolver.resolve(&format!("10.1000/{number}/big")).await.unwrap();
    }
    library.asked();
    for number in 0..200 {
        resolver.resolve(&format!("10.1000/{number}/big")).await.unwrap();
    }
    assert!(library.asked() >= 190, "20 MB do not fit into 1 MB");
}
