//! How fast tables of a directory's shape go to disk:
//! `cargo run --release -p lmdbfile --example speed -- FILE [MILLIONS]`.
//!
//! A million values of 1.1 KB, each in two pieces, under integer keys; then an index with 45 million
//! integers under 3 million keys, a few of which have most of them. Then a walk over all of it.

use std::path::Path;
use std::time::{Duration, Instant};

use lmdbfile::{FileWriter, Flags, Format, Options, Reader, Result, Table, TreeWriter};
use rustix::time::{ClockId, clock_gettime};

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().unwrap_or_else(|| "data.mdb".to_owned());
    let millions = arguments.next().and_then(|count| count.parse().ok()).unwrap_or(1);
    let options = Options { format: Format::V1, page_size: 4096, map_size: 1 << 40 };
    let mut watch = Watch::start();
    let mut file = FileWriter::create(Path::new(&path), &options)?;
    let values = values(&mut file, millions * 1_000_000)?;
    watch.lap("values", file.pages() * 4096);
    let before = file.pages();
    let index = index(&mut file, millions * 1_000_000)?;
    watch.lap("index", (file.pages() - before) * 4096);
    let summary = file.finish(vec![(b"values".to_vec(), values), (b"index".to_vec(), index)])?;
    watch.lap("fsync", 0);
    watch.total("written", summary.bytes);
    let mut watch = Watch::start();
    let found = Reader::open(Path::new(&path))?.walk(&mut |_| {})?;
    assert!(found.unreachable.is_empty());
    watch.lap("walked", summary.bytes);
    Ok(())
}

fn values(file: &mut FileWriter, count: u64) -> Result<Table> {
    let mut writer = TreeWriter::new(Flags::INTEGERKEY, file.layout());
    let (head, tail) = ([7; 200], [9; 900]);
    for id in 1..=count {
        writer.put(file, &id.to_ne_bytes(), &[&head[..], &tail].concat())?;
    }
    writer.finish(file)
}

fn index(file: &mut FileWriter, count: u64) -> Result<Table> {
    let mut writer = TreeWriter::new(Flags::DUPFIXED | Flags::INTEGERDUP, file.layout());
    let all: Vec<u64> = (1..=count).collect();
    for key in 0..3 * count {
        writer.begin(&u32::try_from(key).unwrap_or(u32::MAX).to_be_bytes())?;
        let values = if key % 100_000 == 0 { count } else { 1 + key % 10 };
        writer.fixed(file, &all[..usize::try_from(values).unwrap_or(0)])?;
        writer.end(file)?;
    }
    writer.finish(file)
}

struct Watch {
    wall: Instant,
    cpu: Duration,
    start: (Instant, Duration),
}

impl Watch {
    fn start() -> Self {
        let now = (Instant::now(), cpu());
        Self { wall: now.0, cpu: now.1, start: now }
    }

    fn lap(&mut self, what: &str, bytes: u64) {
        tell(what, bytes, self.wall.elapsed(), cpu().saturating_sub(self.cpu));
        (self.wall, self.cpu) = (Instant::now(), cpu());
    }

    fn total(&self, what: &str, bytes: u64) {
        tell(what, bytes, self.start.0.elapsed(), cpu().saturating_sub(self.start.1));
    }
}

#[allow(clippy::cast_precision_loss)]
fn tell(what: &str, bytes: u64, wall: Duration, cpu: Duration) {
    let (size, wall, cpu) = (bytes as f64 / 1e6, wall.as_secs_f64(), cpu.as_secs_f64());
    println!("{what:8} {size:7.0} MB {wall:6.2} s wall {cpu:6.2} s CPU {:6.0} MB/s", size / wall);
}

/// What this process has used.
fn cpu() -> Duration {
    clock_gettime(ClockId::ProcessCPUTime).try_into().unwrap_or_default()
}
