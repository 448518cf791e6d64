//! Runs seeds and inputs of former crashes through the targets, without the fuzzing engine.

use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

use fastrand::Rng;
use targets::TARGETS;

/// Returns the number of random inputs for which there is time: some targets take milliseconds for each.
fn inputs_by_chance(target: &str) -> u32 {
    match target {
        "builder" | "dump" | "lmdb_reader" | "schema" | "template" => 100,
        "learn" => 400,
        _ => 2000,
    }
}

fn inputs(kind: &str, target: &str) -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join(kind).join(target);
    let Ok(files) = std::fs::read_dir(directory) else { return Vec::new() };
    let mut paths: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    paths.sort();
    paths
}

/// Returns the words in libFuzzer's dictionary: one per line in quotes, with bytes as `\x` and two hexadecimal digits.
fn words(target: &str) -> Vec<Vec<u8>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("dictionaries");
    let text = std::fs::read_to_string(directory.join(target).with_extension("dict")).unwrap();
    let word = |line: &str| {
        let line = line.strip_prefix('"')?.strip_suffix('"')?;
        let (mut rest, mut word) = (line.as_bytes(), Vec::new());
        while let [first, others @ ..] = rest {
            if let [b'\\', b'x', digits @ ..] = rest {
                let digits = std::str::from_utf8(&digits[..2]).unwrap();
                word.push(u8::from_str_radix(digits, 16).unwrap());
                rest = &rest[4..];
            } else {
                word.push(*first);
                rest = others;
            }
        }
        Some(word)
    };
    text.lines().filter_map(word).collect()
}

/// Runs all seeds and regressions, and names those that fail.
#[test]
fn seeds_and_regressions() {
    let mut broken = Vec::new();
    for (name, run) in TARGETS {
        let seeds = inputs("seeds", name);
        assert!(!seeds.is_empty(), "{name} has no seeds");
        for path in seeds.into_iter().chain(inputs("regressions", name)) {
            let input = std::fs::read(&path).unwrap();
            if catch_unwind(|| run(&input)).is_err() {
                broken.push(path);
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

/// Runs random inputs as libFuzzer tries first: seeds with changed bytes and words, sequences of words, random bytes.
#[test]
fn random_changes_of_seeds_and_words() {
    let mut broken = Vec::new();
    for (name, run) in TARGETS {
        let read = |path: &PathBuf| std::fs::read(path).unwrap();
        let seeds: Vec<_> = inputs("seeds", name).iter().map(read).collect();
        let (words, rng) = (words(name), &mut Rng::with_seed(1));
        for number in 0..inputs_by_chance(name) {
            let input = match number % 4 {
                0 | 1 => changed(rng.choice(&seeds).unwrap().clone(), &words, rng),
                2 => (0..rng.usize(..16)).flat_map(|_| rng.choice(&words).unwrap().clone()).collect(),
                _ => (0..rng.usize(..400)).map(|_| rng.u8(..)).collect(),
            };
            if catch_unwind(|| run(&input)).is_err() {
                broken.push((name, input));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:?}");
}

fn changed(mut input: Vec<u8>, words: &[Vec<u8>], rng: &mut Rng) -> Vec<u8> {
    for _ in 0..rng.usize(1..6) {
        let at = rng.usize(..=input.len());
        match rng.u8(..5) {
            0 => input.truncate(at),
            1 => input.insert(at, rng.u8(..)),
            2 => drop(input.splice(at..at, rng.choice(words).unwrap().iter().copied())),
            _ if at < input.len() => input[at] = rng.u8(..),
            _ => {}
        }
    }
    input
}

/// Runs the empty input and the shortest inputs.
#[test]
fn the_shortest_inputs() {
    for (_, run) in TARGETS {
        run(b"");
        for byte in (0..=u8::MAX).step_by(5) {
            run(&[byte]);
            run(&[byte; 4]);
        }
    }
}
