//! Learns from LDIF files and prints the template.

use std::time::Instant;

use common::Counters;

fn main() -> common::Result<()> {
    let sources = std::env::args_os().skip(1).map(|path| learn::Source::Path(path.into()));
    let began = Instant::now();
    let learned = learn::learn(sources.collect(), 2, &Counters::default())?;
    print!("{}", learned.template);
    eprintln!("{} entries in {:?}", learned.entries, began.elapsed());
    Ok(())
}
