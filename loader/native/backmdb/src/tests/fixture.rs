//! Builds databases from LDIF in temporary directories, for the unit tests of this crate and of `dump`.

#[path = "../../../fuzz/src/database.rs"]
mod database;
#[path = "../../../fuzz/src/definitions.rs"]
mod definitions;

use std::path::PathBuf;

use backmdb::{Built, LiveSource, Options, Result, Settings, Source};
use ldif::Counters;

pub use definitions::schema;

/// Returns an organizational unit as LDIF, with further attribute lines.
pub fn unit(dn: &str, lines: &str) -> String {
    format!("dn: {dn}\nobjectClass: organizationalUnit\n{lines}\n")
}

/// The entry of the suffix.
pub const SUFFIX: &str = "dn: dc=example,dc=com\nobjectClass: domain\n\n";

/// Returns the suffix entry followed by `units`.
pub fn below_suffix(units: impl Iterator<Item = String>) -> String {
    std::iter::once(SUFFIX.to_owned()).chain(units).collect()
}

/// A build in its own directory.
pub struct Build {
    directory: tempfile::TempDir,
    pub settings: Settings,
    pub options: Options,
}

impl Build {
    pub fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (settings, options) = (database::settings(), database::options(directory.path()));
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
