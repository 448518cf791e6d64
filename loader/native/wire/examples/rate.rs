//! How fast a server's entries can be read: `rate URI DN PASSWORD-FILE BASE [PAGE [FILTER]]`.

use std::sync::Arc;
use std::time::Instant;

use common::Counters;
use wire::{Channel, ConnectionOptions, Scope, Search, Secret, search};

fn main() -> wire::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let word = |at: usize| words.get(at).cloned();
    let secret = word(2).and_then(|path| std::fs::read(path).ok()).map(Secret::new);
    let link = ConnectionOptions {
        uri: word(0),
        bind_dn: word(1),
        secret,
        ..ConnectionOptions::default()
    };
    let begun = Instant::now();
    let mut channel = Channel::open(&link, &Arc::new(Counters::default()))?;
    println!("bound after {:.3} s", begun.elapsed().as_secs_f64());
    let asked = Search {
        base: word(3).unwrap_or_default(),
        scope: Scope::Subtree,
        filter: word(5).unwrap_or_else(|| "(objectClass=*)".into()),
        attributes: vec!["*".into(), "+".into()],
        page: word(4).and_then(|page| page.parse().ok()).unwrap_or(0),
        subentries: false,
    };
    let (mut entries, mut values, mut bytes) = (0_u64, 0_u64, 0_u64);
    search(&mut channel, &asked, |entry| {
        entries += 1;
        for attribute in entry.attributes.clone() {
            for value in attribute?.1 {
                values += 1;
                bytes += value?.len() as u64;
            }
        }
        Ok(())
    })?;
    let seconds = begun.elapsed().as_secs_f64();
    println!("{entries} entries, {values} values, {bytes} bytes in {seconds:.2} s");
    Ok(())
}
