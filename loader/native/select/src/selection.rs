//! The configuration of a consumer, resolved with its schema.

use common::Scope;
use ldif::write;
use schema::{Result, Schema};

use crate::attributes::Attributes;
use crate::filter::Filter;
use crate::place::Suffixes;

/// Operational attributes that slapd's consumer adds to entries without them (`slap_add_opattrs`).
pub const OWN: [&str; 4] = ["creatorsName", "createTimestamp", "modifiersName", "modifyTimestamp"];

/// The configuration of a consumer.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The suffix of the consumer's database.
    pub suffix: String,
    pub root_dn: Option<String>,
    /// `lastmod`: whether missing operational attributes are added to entries.
    pub last_mod: bool,
    pub base: String,
    pub scope: Scope,
    /// `None` if the provider has already applied the filter.
    pub filter: Option<String>,
    /// The values of `attrs` and `exattrs`, split into names.
    pub attrs: Vec<String>,
    pub exattrs: Vec<String>,
    pub massage: Option<String>,
}

/// The configuration, resolved with a schema.
pub struct Selection {
    pub(crate) filter: Option<Filter>,
    pub attributes: Attributes,
    pub(crate) suffixes: Suffixes,
    pub(crate) suffix: Vec<u8>,
    /// creatorsName and modifiersName of entries that have none.
    root_dn: Option<Vec<u8>>,
}

impl Selection {
    /// Resolves the configuration. Refuses a configuration whose result may differ from that of slapd's consumer.
    pub fn read(settings: &Settings, schema: &Schema) -> Result<Self> {
        let filter = settings.filter.as_deref();
        let root_dn = settings.root_dn.as_deref().filter(|_| settings.last_mod);
        Ok(Self {
            filter: filter.map(|text| Filter::read(text, schema)).transpose()?,
            attributes: Attributes::read(&settings.attrs, &settings.exattrs, schema)?,
            suffixes: Suffixes::read(&settings.base, settings.scope, settings.massage.as_deref(), schema)?,
            suffix: schema.dn(settings.suffix.as_bytes())?.normal(),
            root_dn: root_dn.map(|text| schema.dn(text.as_bytes()).map(|dn| dn.pretty())).transpose()?,
        })
    }

    /// Returns LDIF lines for the attributes in `OWN` that are not `present`, with the root DN or the entryCSN's time.
    pub(crate) fn own_lines(&self, csn: Option<&[u8]>, present: [bool; 4]) -> Vec<u8> {
        let mut lines = Vec::new();
        let (Some(root_dn), Some(stamp)) = (&self.root_dn, csn.and_then(|csn| csn.get(..14))) else {
            return lines;
        };
        let time = [stamp, b"Z"].concat();
        for (name, present) in OWN.iter().zip(present) {
            if !present {
                let value = if name.ends_with("Name") { root_dn } else { &time };
                write::line(&mut lines, name.as_bytes(), value);
            }
        }
        lines
    }
}
