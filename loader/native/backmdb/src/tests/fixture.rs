//! Databases built from LDIF in temporary directories, for the unit tests of this crate and of `dump`.

use std::path::PathBuf;
use std::sync::OnceLock;

use backmdb::{Built, LiveSource, Options, Result, Settings, Source, ValueCheck};
use ldif::Counters;
use schema::{Definition, Kind, Schema};
use values::keys::Substrings;

/// One definition a line, behind a letter for its kind; a capital letter stands for one that is compiled into slapd.
const DEFINITIONS: &str = include_str!("../../../fuzz/src/schema.txt");

pub fn schema() -> &'static Schema {
    static SCHEMA: OnceLock<Schema> = OnceLock::new();
    SCHEMA.get_or_init(|| {
        let all: Vec<Definition> = DEFINITIONS.lines().map(definition).collect();
        Schema::read(&all, schema::Settings::default()).unwrap()
    })
}

fn definition(line: &str) -> Definition {
    let kind = match line.as_bytes()[0].to_ascii_lowercase() {
        b'm' => Kind::Macro,
        b's' => Kind::Syntax,
        b'a' => Kind::AttributeType,
        b'o' => Kind::ObjectClass,
        b'r' => Kind::ContentRule,
        other => panic!("no kind of definition: {other}"),
    };
    let builtin = line.as_bytes()[0].is_ascii_uppercase();
    Definition { kind, text: line[1..].to_owned(), builtin }
}

/// An organizational unit as LDIF, with further attribute lines.
pub fn unit(dn: &str, lines: &str) -> String {
    format!("dn: {dn}\nobjectClass: organizationalUnit\n{lines}\n")
}

/// The entry of the suffix.
pub const SUFFIX: &str = "dn: dc=example,dc=com\nobjectClass: domain\n\n";

/// A build in a directory of its own, of a database for `dc=example,dc=com` of slapd 2.6.
pub struct Build {
    directory: tempfile::TempDir,
    pub settings: Settings,
    pub options: Options,
}

impl Build {
    pub fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let options = Options {
            now: "20260102030405Z".into(),
            first: 0,
            write_context: false,
            claimed: None,
            values: ValueCheck::Refuse,
            check_schema: true,
            complete_naming: true,
            account: false,
            file_urls: false,
            memory: 64 << 20,
            jobs: 2,
            scratch: directory.path().to_owned(),
            max_rejects: 0,
            rejects: directory.path().join("rejects.ldif"),
        };
        let settings = Settings {
            suffixes: vec!["dc=example,dc=com".into()],
            foreign: Vec::new(),
            root_dn: Some("cn=admin,dc=example,dc=com".into()),
            indexes: Vec::new(),
            wide_hash: false,
            integer_length: 4,
            substrings: Substrings::default(),
            apart_above: Vec::new(),
            sorted: Vec::new(),
            list_exponent: 16,
            max_entry_size: 0,
            map_size: 1 << 30,
            of_2_4: false,
            of_2_7: false,
            page_size: 4096,
            has_id2v: true,
            has_ixck: true,
            last_mod: true,
            translucent: false,
            server_id: 1,
        };
        Self { directory, settings, options }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Builds `data.mdb` from LDIF.
    pub fn run(&self, text: &str) -> Result<Built> {
        std::fs::write(self.path("in.ldif"), text).unwrap();
        let sources = vec![Source::Path(self.path("in.ldif"))];
        self.run_sources(sources, None, &Counters::default())
    }

    pub fn run_sources(
        &self,
        sources: Vec<Source>,
        live: Option<LiveSource<'_>>,
        counters: &Counters,
    ) -> Result<Built> {
        let out = self.path("data.mdb");
        backmdb::build(sources, live, &out, schema(), &self.settings, &self.options, counters)
    }
}
