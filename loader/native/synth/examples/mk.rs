use std::io::Write as _;
fn main() {
    let mut args = std::env::args().skip(1);
    let path = std::path::PathBuf::from(args.next().unwrap());
    let mut defines = std::collections::BTreeMap::new();
    let mut entries = None;
    for arg in args {
        let (name, value) = arg.split_once('=').unwrap();
        if name == "-n" { entries = Some(value.parse().unwrap()); } else { defines.insert(name.to_owned(), value.to_owned()); }
    }
    let data = std::path::PathBuf::from("/tmp/w/makeldif/seeders/synthetic/data");
    let text = std::fs::read_to_string(&path).unwrap();
    let template = synth::makeldif::read(&path, &text, &[data], &defines);
    let tree = template.and_then(|template| synth::compile(&template, &synth::Options { seed: 1, entries, ..Default::default() }));
    let tree = match tree { Ok(tree) => tree, Err(problem) => { eprintln!("{problem}"); std::process::exit(1) } };
    let mut maker = synth::Maker::new(&tree);
    let mut out = Vec::new();
    for number in 0..tree.entries() { maker.entry(number, &mut out); if out.len() > 1 << 20 { std::io::stdout().write_all(&out).unwrap(); out.clear(); } }
    std::io::stdout().write_all(&out).unwrap();
}
