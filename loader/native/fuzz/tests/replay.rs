//! Seeds and former crashes through the targets, without the fuzzing engine.

use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

use targets::TARGETS;

fn inputs(kind: &str, target: &str) -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join(kind).join(target);
    let Ok(files) = std::fs::read_dir(directory) else { return Vec::new() };
    files.map(|file| file.unwrap().path()).collect()
}

/// All are run, and those that break are named.
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

/// No input, and the shortest ones.
#[test]
fn next_to_nothing() {
    for (_, run) in TARGETS {
        run(b"");
        for byte in (0..=u8::MAX).step_by(5) {
            run(&[byte]);
            run(&[byte; 4]);
        }
    }
}
