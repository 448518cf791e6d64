//! Builds databases from small LDIF.

use std::path::{Path, PathBuf};

use ::ldif::{Code, Counters};
use backmdb::{Built, Options, Result, Settings, Source, ValueCheck};

use lmdbfile::Format;

use crate::configuration::settings;
use crate::database;
use crate::definitions::schema;
use crate::sound;

/// The input is three bytes of switches, then LDIF. A database that was built must be sound, and must contain every
/// record that was not rejected; the number of jobs, the memory limit and folded lines must not affect it.
///
/// # Panics
/// If any of this does not hold.
pub fn run(data: &[u8]) {
    let Some((switches, text)) = crate::switches::<3>(data) else { return };
    let place = Place::new(text);
    let (settings, options) = (set(switches), place.options(switches));
    match place.build("data.mdb", &settings, &options) {
        Ok(built) => {
            sound::check(&place.path("data.mdb"), &built);
            rejected(&built, &options.rejects);
            if switches[0] & 0x80 != 0 {
                again(&place, &settings, &options);
            }
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            assert_ne!(error.code, Code::Damaged, "{error}");
        }
    }
}

/// A temporary directory with the input.
struct Place(tempfile::TempDir);

impl Place {
    fn new(text: &[u8]) -> Self {
        let place = Self(tempfile::tempdir().expect("a directory"));
        std::fs::write(place.path("in.ldif"), text).expect("a file");
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn options(&self, [first, second, _]: [u8; 3]) -> Options {
        let on = |bits: u8, bit: u8| bits & 1 << bit != 0;
        let csn = "20260101000000.000000Z#000000#001#000000";
        Options {
            write_context: on(first, 5),
            claimed: on(second, 7).then(|| vec![csn.to_owned()]),
            values: if on(first, 4) { ValueCheck::Refuse } else { ValueCheck::Count },
            memory: 1 << 20,
            jobs: 1,
            max_rejects: if on(second, 5) { 0 } else { 1000 },
            ..database::options(self.0.path())
        }
    }

    fn build(&self, name: &str, settings: &Settings, options: &Options) -> Result<Built> {
        let sources = vec![Source::Path(self.path("in.ldif"))];
        let counters = Counters::default();
        backmdb::build(sources, None, &self.path(name), schema(), settings, options, &counters)
    }
}

fn set([first, second, choice]: [u8; 3]) -> Settings {
    let on = |bits: u8, bit: u8| bits & 1 << bit != 0;
    let mut settings = settings(choice);
    settings.wide_hash = on(first, 0);
    if on(first, 1) {
        settings.apart_above = vec![("default".into(), 2), ("cn".into(), 1)];
    }
    if on(first, 2) {
        settings.sorted = ["member", "cn", "gInteger", "uid"].map(String::from).to_vec();
    }
    settings.last_mod = !on(first, 3);
    match second & 3 {
        1 => settings.suffixes.push("o=other".into()),
        2 => settings.suffixes = vec![String::new()],
        3 => settings.suffixes.insert(0, "ou=inner,dc=example,dc=com".into()),
        _ => {}
    }
    // In the seeds for OpenLDAP 2.7, these bits are clear; in all other seeds they are set.
    settings.of_2_7 = !on(first, 6);
    if settings.of_2_7 && !on(second, 6) {
        settings.page_size = 16384;
    }
    settings.list_exponent = if on(second, 2) { 2 } else { 16 };
    settings.max_entry_size = if on(second, 3) { 300 } else { 0 };
    settings.integer_length = if on(second, 4) { 8 } else { 4 };
    settings
}

/// Checks that the reject file contains every rejected record.
fn rejected(built: &Built, path: &Path) {
    let count = built.rejections.len();
    assert_eq!(path.exists(), count > 0);
    assert!(built.rejections.iter().all(|one| !one.reason.is_empty()));
    if count == 0 {
        return;
    }
    let text = std::fs::read(path).expect("the reject file");
    for one in &built.rejections {
        let record = one.text.trim_ascii_end();
        assert!(text.windows(record.len().max(1)).any(|part| part == record), "{}", one.reason);
    }
}

fn again(place: &Place, settings: &Settings, options: &Options) {
    let options = Options { jobs: 2, memory: 64 << 10, ..options.clone() };
    // A build creates its reject file, and never replaces an existing one.
    let _ = std::fs::remove_file(place.path("rejects.ldif"));
    place.build("again.mdb", settings, &options).expect("the first build succeeded");
    let read = |name| std::fs::read(place.path(name)).expect("the file can be read");
    let text = &read("in.ldif");
    assert!(read("data.mdb") == read("again.mdb"), "jobs and memory must not affect the file");
    let _ = std::fs::remove_file(place.path("rejects.ldif"));
    std::fs::write(place.path("in.ldif"), folded(text)).expect("a file");
    place.build("again.mdb", settings, &options).expect("the first build succeeded");
    assert!(read("data.mdb") == read("again.mdb"), "folded lines must not affect the file");
    let _ = std::fs::remove_file(place.path("rejects.ldif"));
    std::fs::write(place.path("in.ldif"), parted(text)).expect("a file");
    // A generated CSN depends on the position of the record, which the added records change.
    let is_built = !settings.last_mod && place.build("again.mdb", settings, &options).is_ok();
    let same = !is_built || read("data.mdb") == read("again.mdb");
    assert!(same, "rejected records between entries must not affect the file");
}

/// Inserts, before each record but the first, a record that is rejected after some of its lines were read. Entries
/// similar to the previous entry are read and stored by other code.
fn parted(text: &[u8]) -> Vec<u8> {
    let odd = b"dn: cn=odd,dc=example,dc=com\nuid: odd\nnowhere: odd\n\n";
    let mut out = Vec::new();
    for line in text.split_inclusive(|&byte| byte == b'\n') {
        out.extend_from_slice(line);
        if line == b"\n" {
            out.extend_from_slice(odd);
        }
    }
    out
}

/// Folds each line that is long enough: folded lines are read on another path than plain lines.
fn folded(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for line in text.split_inclusive(|&byte| byte == b'\n') {
        let cut = line.len().saturating_sub(2);
        if cut > 0 && !matches!(line[0], b' ' | b'#') && !line.ends_with(b"\r\n") {
            out.extend_from_slice(&line[..cut]);
            out.extend_from_slice(b"\n ");
            out.extend_from_slice(&line[cut..]);
        } else {
            out.extend_from_slice(line);
        }
    }
    out
}

/// Returns a database of three entries, in the format of LMDB 0.9 or of LMDB 1.0.
pub(crate) fn small_file(format: Format) -> Vec<u8> {
    let text = b"dn: dc=example,dc=com\nobjectClass: domain\n\n\
        dn: ou=a,dc=example,dc=com\nobjectClass: organizationalUnit\ndescription: some words\n\n\
        dn: cn=b,ou=a,dc=example,dc=com\nobjectClass: device\ncn: b\ncn: c\ncn: d\n";
    let first = if format == Format::V1 { 0x42 } else { 2 };
    let (place, switches) = (Place::new(text), [first, 0x40, u8::MAX]);
    let options = place.options(switches);
    place.build("data.mdb", &set(switches), &options).expect("a database");
    std::fs::read(place.path("data.mdb")).expect("it reads")
}
