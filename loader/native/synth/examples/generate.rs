//! What generating costs by itself: `generate TEMPLATE LISTS N JOBS > FILE` writes LDIF and tells the rate.

use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::time::Instant;

use ldif::Counters;
use synth::{Options, Task, compile, to_descriptor, toml};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, template, lists, entries, jobs] = &arguments[..] else {
        return Err("usage: generate TEMPLATE LISTS N JOBS".into());
    };
    let template = toml::read(&PathBuf::from(template), &[PathBuf::from(lists)])?;
    let options = Options { seed: 1, entries: Some(entries.parse()?), ..Options::default() };
    let tree = compile(&template, &options)?;
    let counters = Counters::default();
    let began = Instant::now();
    let task = Task { items: &tree, first: 0, end: tree.entries(), jobs: jobs.parse()? };
    let out = std::io::stdout().as_fd().try_clone_to_owned()?;
    to_descriptor(&task, out, false, &counters).map_err(|error| error.to_string())?;
    let seconds = began.elapsed().as_secs_f64();
    #[allow(clippy::cast_precision_loss)]
    let (entries, bytes) = (counters.entries() as f64, counters.bytes() as f64);
    eprintln!(
        "{:.0} entries/s, {:.1} MB/s, {:.1} bytes each",
        entries / seconds,
        bytes / seconds / 1e6,
        bytes / entries
    );
    Ok(())
}
