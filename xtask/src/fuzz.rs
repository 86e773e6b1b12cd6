//! Coverage-guided fuzzing with libFuzzer, on the toolchain that builds everything else.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use anyhow::{Context as _, Result, anyhow, ensure};
use tendot_testing::{SeededRng, hex};

use crate::process::{install, is_there, output, run};
use crate::report::Counts;
use crate::root;

/// What `cargo fuzz` would pass, without the sanitizers, which need another toolchain; the code fuzzed has no
/// `unsafe` but one cast.
const FLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1";

/// The targets, and what they begin with.
const TARGETS: [(&str, Seeds); 11] = [
    ("name_parse", name_seeds),
    ("name_forms", name_seeds),
    ("extract", name_seeds),
    ("message", message_seeds),
    ("message_body", body_seeds),
    ("value_data", value_seeds),
    ("record_json", record_seeds),
    ("reassembly", message_seeds),
    ("authentication", message_seeds),
    ("lookup", message_seeds),
    ("replication", replication_seeds),
];

type Seeds = fn() -> Result<Vec<Vec<u8>>>;

/// Fuzzes every target, or one, for so many seconds each, two at a time, beginning with the seeds and the corpora.
pub(crate) fn fuzz(only: Option<&str>, seconds: u32) -> Result<Counts> {
    if let Some(only) = only {
        let names = TARGETS.map(|(name, _)| name);
        ensure!(names.contains(&only), "unknown fuzz target `{only}`; the targets are {names:?}");
    }
    let programs = build()?;
    for_each_target(only, |target, seeds| {
        let folder = root().join("fuzz");
        let seeds = write_inputs(&folder.join("corpus/seeds").join(target), seeds)?;
        let corpus = folder.join("corpus").join(target);
        let artifacts = folder.join("artifacts").join(target);
        fs::create_dir_all(&corpus)?;
        fs::create_dir_all(&artifacts)?;
        run(Command::new(programs.join(target))
            .arg(format!("-max_total_time={seconds}"))
            .args(["-timeout=5", "-max_len=4096", "-print_final_stats=1", "-verbosity=0"])
            .arg(format!("-artifact_prefix={}/", artifacts.display()))
            .arg(corpus)
            .arg(seeds))
    })
}

/// Mutations of each input in [`replay`].
const MUTATIONS: usize = 8;

/// Runs every target, in the ordinary build, on its seeds, its corpus and mutations of them that are the same in each run.
pub(crate) fn replay() -> Result<Counts> {
    let names = TARGETS.map(|(name, _)| name);
    let bins = names.iter().flat_map(|name| ["--bin", name]);
    run(Command::new("cargo")
        .args(["build", "--workspace", "--exclude=tendot-bench", "--all-features"])
        .args(bins)
        .current_dir(root()))?;
    for_each_target(None, |target, inputs| {
        let mut random = SeededRng::new(10);
        let mut all = inputs.to_vec();
        for input in inputs {
            all.extend((0..MUTATIONS).map(|_| {
                let other = &inputs[random.below(inputs.len())];
                mutate(input, other, &mut random)
            }));
        }
        let folder = root().join("target/xtask/fuzz").join(target);
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        write_inputs(&folder, &all)?;
        let files = (0..all.len()).map(|number| number.to_string());
        let output = Command::new(root().join("target/debug").join(target))
            .args(["-timeout=20", "-verbosity=0"])
            .args(files)
            .current_dir(&folder)
            .output()?;
        let text = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "fuzz target `{target}` failed in {}:\n{text}", folder.display());
        Ok(())
    })
}

/// Calls `each` with every target, or one, and its inputs; two targets at a time. Returns how many passed.
fn for_each_target(
    only: Option<&str>,
    each: impl Fn(&str, &[Vec<u8>]) -> Result<()> + Sync,
) -> Result<Counts> {
    let next = Mutex::new(TARGETS.into_iter().filter(|(target, _)| only.is_none_or(|only| only == *target)));
    let counts = Mutex::new(Counts::default());
    let work = || -> Result<()> {
        loop {
            let Some((target, seeds)) = next.lock().expect("no panic while it is held").next() else {
                return Ok(());
            };
            each(target, &[seeds()?, saved_corpus(target)?].concat())?;
            counts.lock().expect("no panic while it is held").passed += 1;
        }
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(work);
        work()?;
        other.join().map_err(|_| anyhow!("a fuzz target panicked"))?
    })?;
    Ok(counts.into_inner()?)
}

/// Flips a bit, cuts, repeats a part, or joins the input with another one.
fn mutate(input: &[u8], other: &[u8], random: &mut SeededRng) -> Vec<u8> {
    let mut bytes = input.to_vec();
    let at = random.below(bytes.len());
    match random.below(5) {
        0 if !bytes.is_empty() => bytes[at] ^= 1 << random.below(8),
        1 if !bytes.is_empty() => bytes[at] = *random.pick(&[0, 1, 0x7f, 0x80, 0xff]),
        2 => bytes.truncate(at),
        3 => bytes.extend_from_within(at..),
        _ => {
            bytes.truncate(at);
            bytes.extend_from_slice(&other[random.below(other.len())..]);
        }
    }
    bytes
}

/// Builds the targets with the coverage counters of libFuzzer; returns their directory.
fn build() -> Result<PathBuf> {
    if !is_there("c++") {
        install(&["g++"])?;
    }
    let version = output(Command::new("rustc").arg("-vV"))?;
    let host =
        version.lines().find_map(|line| line.strip_prefix("host: ")).context("no host in rustc -vV")?;
    let target_dir = root().join("target/fuzz");
    run(Command::new("cargo")
        .args(["build", "--profile=fuzz", "--package=tendot-fuzz", "--target", host, "--target-dir"])
        .arg(&target_dir)
        .env("RUSTFLAGS", FLAGS)
        .current_dir(root()))?;
    Ok(target_dir.join(host).join("fuzz"))
}

/// Keeps the inputs that reach most of the code, of those that fuzzing found: the shortest, a line each.
pub(crate) fn keep(target: &str) -> Result<()> {
    let programs = build()?;
    let folder = root().join("fuzz");
    let merged = folder.join("corpus/merged").join(target);
    if merged.exists() {
        fs::remove_dir_all(&merged)?;
    }
    fs::create_dir_all(&merged)?;
    let corpora = [folder.join("corpus").join(target), folder.join("corpus/seeds").join(target)];
    run(Command::new(programs.join(target)).args(["-merge=1", "-max_len=1024"]).arg(&merged).args(corpora))?;
    let mut inputs = Vec::new();
    for entry in fs::read_dir(&merged)? {
        inputs.push(fs::read(entry?.path())?);
    }
    inputs.sort_by(|one, two| one.len().cmp(&two.len()).then_with(|| one.cmp(two)));
    inputs.truncate(KEPT);
    let lines: String = inputs.iter().map(|input| hex::encode(input) + "\n").collect();
    fs::create_dir_all(folder.join("corpora"))?;
    Ok(fs::write(folder.join("corpora").join(format!("{target}.hex")), lines)?)
}

/// So many inputs are kept of each target.
const KEPT: usize = 400;

/// The inputs that are kept.
fn saved_corpus(target: &str) -> Result<Vec<Vec<u8>>> {
    let path = root().join("fuzz/corpora").join(format!("{target}.hex"));
    match fs::read_to_string(path) {
        Ok(lines) => Ok(lines.lines().map(hex::decode).collect()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error.into()),
    }
}

fn write_inputs(folder: &Path, seeds: &[Vec<u8>]) -> Result<PathBuf> {
    fs::create_dir_all(folder)?;
    for (number, seed) in seeds.iter().enumerate() {
        fs::write(folder.join(number.to_string()), seed)?;
    }
    Ok(folder.to_owned())
}

fn vectors(file: &str) -> Result<String> {
    let path = root().join("conformance/vectors").join(file);
    fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))
}

/// The inputs of the vectors of names.
fn name_seeds() -> Result<Vec<Vec<u8>>> {
    let mut seeds = Vec::new();
    for line in (vectors("names.jsonl")? + &vectors("names-more.jsonl")?).lines() {
        let case: serde_json::Value = serde_json::from_str(line)?;
        if let Some(input) = case["input"].as_str() {
            seeds.push(input.into());
            // The target for extraction takes its settings from the first byte.
            seeds.push(format!("\0{input}").into());
        }
    }
    Ok(seeds)
}

/// The messages that were recorded.
fn message_seeds() -> Result<Vec<Vec<u8>>> {
    let mut seeds = Vec::new();
    for line in vectors("handle-net/native.jsonl")?.lines() {
        let recorded: serde_json::Value = serde_json::from_str(line)?;
        seeds.push(hex::decode(recorded["hex"].as_str().context("a message without bytes")?));
    }
    Ok(seeds)
}

/// Their bodies, after operation, code, flags and version as the target takes them.
fn body_seeds() -> Result<Vec<Vec<u8>>> {
    let messages = message_seeds()?.into_iter().filter(|message| message.len() > 44 && message[2] < 0x20);
    Ok(messages
        .map(|message| {
            [&message[22..24], &message[26..28], &message[29..30], &message[1..2], &message[44..]].concat()
        })
        .collect())
}

/// Data of values after their type and a zero.
fn value_seeds() -> Result<Vec<Vec<u8>>> {
    let mut seeds = Vec::new();
    for line in vectors("handle-net/encodings.txt")?.lines() {
        let Some((name, digits)) = line.split_once(' ') else { continue };
        let value_type = match name {
            "admin" | "admin_legacy" => "HS_ADMIN",
            "vlist" => "HS_VLIST",
            "rsa_pub" | "dsa_pub" | "dh_pub" => "HS_PUBKEY",
            "site" => "HS_SITE",
            _ => continue,
        };
        seeds.push([value_type.as_bytes(), &[0], &hex::decode(digits)].concat());
    }
    for (value_type, text) in TEXTS {
        seeds.push([value_type.as_bytes(), &[0], text.as_bytes()].concat());
    }
    Ok(seeds)
}

const TEXTS: [(&str, &str); 6] = [
    (
        "10320/loc",
        r#"<locations chooseby="locatt,weighted"><location id="0" href="https://a/" weight="1"/></locations>"#,
    ),
    ("10320/links", r#"<locations><location href="https://a/" rel="license"/></locations>"#),
    ("10320/headers", "X-One: two\n<meta name=\"a\">"),
    (
        "HS_NAMESPACE",
        "<namespace><contact>a@b</contact><locs>10.SERV/X</locs><template delimiter=\"@\"/></namespace>",
    ),
    ("HS_SIGNATURE", "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiIxOmEvYiIsInN1YiI6ImEvYyJ9.AAAA"),
    ("HS_CERT", "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiIxOmEvYiIsInN1YiI6IjE6YS9jIiwicGVybXMiOltdfQ.AAAA"),
];

/// The records that the recordings were made with.
fn record_seeds() -> Result<Vec<Vec<u8>>> {
    Ok(vectors("handle-net/records.jsonl")?.lines().map(Into::into).collect())
}

/// A little of each stream, after the byte that the target takes its settings from; states as text and JSON.
fn replication_seeds() -> Result<Vec<Vec<u8>>> {
    let value = "0000001a 00000001 00000000 00 00015180 0e 00000000 00000000 00000000";
    let streams = [
        "00 00000001 00000002 01 0000000000000065 00000003 412f42 02 0000018bcfe56800 00 0000018bcfe56800"
            .into(),
        format!(
            "00 00000002 00000002 02 00000009 303a736f7572636573 01 0000000000000065 00000003 412f42 01 \
             0000018bcfe56800 00000001 {value} 03 0000018bcfe56800 00"
        ),
        format!(
            "01 00000002 05 00000002 7b7d 00 0000018bcfe56800 0000000000000065 \
             03 00000003 412f42 0000018bcfe56800 00000001 04 00000003 412f42 0000018bcfe56800 00000001 \
             01 00000003 412f42 00000001 {value} 02 00000003 412f42 ff"
        ),
    ];
    let mut seeds = Vec::new();
    for stream in streams {
        seeds.push(hex::decode(&stream));
    }
    seeds.push(br#"{ "a" = ( { "last_txn_id" = "5" "last_timestamp" = "6" } { } ) b = "\"\\\n" }"#.into());
    seeds.push(
        br#"{"replicationServerStates":{"0:a":{"lastTxnId":5,"lastTimestamp":6}},"ownName":"b"}"#.into(),
    );
    Ok(seeds)
}
