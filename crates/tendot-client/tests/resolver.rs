//! What is kept, for how long, and how often somebody is asked.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use tendot_client::{Answer, CacheSettings, Found, Question, Reply, Resolver, Source, Upstream};
use tendot_proto::{Ttl, Value};
use tokio::time::{advance, sleep};

/// Answers every name by how it ends, and counts.
#[derive(Default)]
struct Library {
    asked: AtomicU32,
    is_away: AtomicBool,
    /// Seconds that it had kept its answers.
    age: AtomicU32,
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

    async fn reply(&self, question: &Question<'_>) -> Result<Reply, io::Error> {
        let age = Duration::from_secs(self.age.load(Ordering::Relaxed).into());
        Ok(Reply { found: self.ask(&question.name).await?, age })
    }
}

impl Library {
    fn asked(&self) -> u32 {
        self.asked.swap(0, Ordering::Relaxed)
    }
}

/// Both live as long as the test.
fn library() -> (&'static Library, Resolver<&'static Library>) {
    let library = Box::leak(Box::default());
    (library, Resolver::new(library, CacheSettings::default()))
}

#[tokio::test(start_paused = true)]
async fn kept_until_its_time_is_over() {
    let (library, resolver) = library();
    for name in ["10.1000/x", "10.1000/X", "10.1000/x"] {
        assert!(matches!(&*resolver.resolve(name).await.unwrap().found, Found::Values(_)));
    }
    assert_eq!(library.asked(), 1);
    advance(Duration::from_secs(599)).await;
    let answer = resolver.resolve("10.1000/x").await.unwrap();
    assert!(answer.age >= Duration::from_secs(599) && answer.fresh <= Duration::from_secs(1));
    assert_eq!(library.asked(), 0);
    advance(Duration::from_secs(2)).await;
    let answer = resolver.resolve("10.1000/x").await.unwrap();
    assert!(answer.age < Duration::from_secs(1));
    assert_eq!(library.asked(), 1);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_kept_shortly_and_some_things_never() {
    let (library, resolver) = library();
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
    let (library, resolver) = library();
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
    let (library, resolver) = library();
    resolver.resolve("10.1000/x").await.unwrap();
    library.is_away.store(true, Ordering::Relaxed);
    library.asked();
    assert!(resolver.resolve("10.1000/y").await.is_err());
    advance(Duration::from_secs(700)).await;
    let answer = resolver.resolve("10.1000/x").await.unwrap();
    assert!(answer.stale >= Some(Duration::from_secs(100)) && answer.age >= Duration::from_secs(700));
    // Who is away is not asked again at once.
    library.asked();
    assert!(resolver.resolve("10.1000/x").await.unwrap().stale.is_some());
    assert_eq!(library.asked(), 0);
    advance(Duration::from_secs(11)).await;
    assert!(resolver.resolve("10.1000/x").await.unwrap().stale.is_some());
    assert_eq!(library.asked(), 1);
    // Not for ever.
    advance(Duration::from_secs(86_400 + 600)).await;
    assert!(resolver.resolve("10.1000/x").await.is_err());
    library.is_away.store(false, Ordering::Relaxed);
    advance(Duration::from_secs(6)).await;
    assert_eq!(resolver.resolve("10.1000/x").await.unwrap().stale, None);
}

#[tokio::test(start_paused = true)]
async fn memory_is_bounded() {
    let (library, _) = library();
    let settings = CacheSettings { bytes: 1 << 20, ..CacheSettings::default() };
    let resolver = Resolver::new(library, settings);
    for number in 0..200 {
        resolver.resolve(&*format!("10.1000/{number}/big")).await.unwrap();
    }
    library.asked();
    for number in 0..200 {
        resolver.resolve(&*format!("10.1000/{number}/big")).await.unwrap();
    }
    assert!(library.asked() >= 190, "20 MB do not fit into 1 MB");
    assert!(resolver.bytes() <= 1 << 20 && resolver.entries() < 12, "{}", resolver.bytes());
    // Many small ones, and those that say that there is nothing, count as well.
    for number in 0..10_000 {
        resolver.resolve(&*format!("10.1000/{number}/none")).await.unwrap();
    }
    assert!(resolver.bytes() <= 1 << 20 && resolver.entries() < 5_000, "{}", resolver.entries());
}

/// That there is nothing is not said after its time.
#[tokio::test(start_paused = true)]
async fn nothing_is_not_known_for_ever() {
    let (library, resolver) = library();
    resolver.resolve("10.1000/none").await.unwrap();
    library.is_away.store(true, Ordering::Relaxed);
    assert!(resolver.resolve("10.1000/none").await.is_ok());
    advance(Duration::from_secs(61)).await;
    assert!(resolver.resolve("10.1000/none").await.is_err());
}

/// A failure is one for all who wait, and for a while for those who come.
#[tokio::test(start_paused = true)]
async fn failures_are_shared() {
    let (library, resolver) = library();
    library.is_away.store(true, Ordering::Relaxed);
    let all: Vec<_> = (0..50).map(|_| spawn(&resolver, "10.1000/x".into())).collect();
    for one in all {
        assert!(one.await.unwrap().is_err());
    }
    assert!(resolver.resolve("10.1000/x").await.is_err());
    assert_eq!(library.asked(), 1);
    advance(Duration::from_secs(6)).await;
    library.is_away.store(false, Ordering::Relaxed);
    assert!(resolver.resolve("10.1000/x").await.is_ok());
}

/// What may not be kept at all is still one answer for all who wait for it.
#[tokio::test(start_paused = true)]
async fn one_question_for_what_is_not_kept() {
    let (library, resolver) = library();
    let all: Vec<_> = (0..50).map(|_| spawn(&resolver, "10.1000/never".into())).collect();
    for one in all {
        let answer = one.await.unwrap().unwrap();
        assert_eq!((answer.stale, answer.fresh), (None, Duration::ZERO));
    }
    assert_eq!(library.asked(), 1);
}

/// Who leaves while waiting takes neither the question nor an old answer along.
#[tokio::test(start_paused = true)]
async fn who_leaves() {
    let (library, resolver) = library();
    resolver.resolve("10.1000/x").await.unwrap();
    advance(Duration::from_secs(700)).await;
    library.is_away.store(true, Ordering::Relaxed);
    let one = spawn(&resolver, "10.1000/x".into());
    sleep(Duration::from_millis(50)).await;
    one.abort();
    sleep(Duration::from_millis(10)).await;
    assert!(resolver.resolve("10.1000/x").await.unwrap().stale.is_some());
    assert_eq!(library.asked(), 2);
}

#[tokio::test(start_paused = true)]
async fn from_the_source() {
    let (library, resolver) = library();
    let anew = || Question { is_authoritative: true, ..Question::from("10.1000/x") };
    assert_eq!(resolver.resolve(anew()).await.unwrap().source, Source::Asked);
    assert_eq!(resolver.resolve("10.1000/x").await.unwrap().source, Source::Kept);
    assert_eq!(resolver.resolve(anew()).await.unwrap().source, Source::Asked);
    assert_eq!(library.asked(), 2);
    // What was asked for anew is what is kept.
    let kept = resolver.resolve("10.1000/x").await.unwrap();
    assert!(format!("{:?}", kept.found).contains("example.org/2"), "{kept:?}");
    // Old answers are not what was asked for.
    library.is_away.store(true, Ordering::Relaxed);
    assert!(resolver.resolve(anew()).await.is_err());
    assert_eq!(resolver.resolve("10.1000/x").await.unwrap().source, Source::Kept);
}

/// Two services that ask each other the same at once do not wait for each other.
#[tokio::test(start_paused = true)]
async fn passed_on_questions_wait_for_nobody() {
    let (library, resolver) = library();
    let one = spawn(&resolver, "10.1000/x".into());
    sleep(Duration::from_millis(50)).await;
    let passed_on = Question { way: "a, b".into(), ..Question::from("10.1000/x") };
    let two = spawn(&resolver, passed_on.clone());
    assert_eq!(one.await.unwrap().unwrap().source, Source::Asked);
    assert_eq!(two.await.unwrap().unwrap().source, Source::Asked);
    assert_eq!(library.asked(), 2);
    assert_eq!(resolver.resolve(passed_on).await.unwrap().source, Source::Kept);
}

/// What others had kept may be kept for what is left of its time.
#[tokio::test(start_paused = true)]
async fn old_when_it_came() {
    let (library, resolver) = library();
    library.age.store(500, Ordering::Relaxed);
    let answer = resolver.resolve("10.1000/x").await.unwrap();
    assert_eq!((answer.age.as_secs(), answer.fresh.as_secs()), (500, 100));
    advance(Duration::from_secs(101)).await;
    resolver.resolve("10.1000/x").await.unwrap();
    assert_eq!(library.asked(), 2);
}

fn spawn(
    resolver: &Resolver<&'static Library>,
    question: Question<'static>,
) -> tokio::task::JoinHandle<Result<Answer, Arc<io::Error>>> {
    let resolver = resolver.clone();
    tokio::spawn(async move { resolver.resolve(question).await })
}
