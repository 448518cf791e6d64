//! Object classes compiled into slapd that it treats in a way of their own.

/// What slapd does for a class beyond its definition (`servers/slapd/schema_prep.c`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpecialClass {
    Top,
    ExtensibleObject,
    /// Only the root DSE is one, and that is not in a database.
    RootDse,
    /// `subschema` and `collectiveAttributeSubentry`: for subentries only.
    WithinSubentry,
    /// Needs the overlay dds.
    DynamicObject,
    Glue,
}

/// `SLAP_OC_HARDCODE`: compiled in.
const BUILTIN: u32 = 0x1_0000;

/// The class is slapd's business (`SLAP_OC_OPERATIONAL`), and hidden (`SLAP_OC_HIDE`).
const OPERATIONAL: u32 = 0x4000;
const HIDDEN: u32 = 0x8000;

/// Flag words without [`BUILTIN`]: `SLAP_OC_*` in `servers/slapd/slap.h`, as set by `schema_prep.c`,
/// `syncrepl.c`, the monitor parts of the backends, and overlays.
const FLAGS: [(&str, u32); 28] = [
    ("extensibleObject", OPERATIONAL),
    ("OpenLDAProotDSE", OPERATIONAL),
    ("subschema", OPERATIONAL),
    ("alias", OPERATIONAL | 0x01),
    ("referral", OPERATIONAL | 0x02),
    ("subentry", OPERATIONAL | 0x04),
    ("dynamicObject", 0x08),
    ("collectiveAttributeSubentry", OPERATIONAL | HIDDEN | 0x10),
    ("glue", OPERATIONAL | HIDDEN | 0x20),
    ("syncProviderSubentry", OPERATIONAL | HIDDEN | 0x40),
    ("syncConsumerSubentry", OPERATIONAL | HIDDEN | 0x80),
    ("monitor", OPERATIONAL | HIDDEN),
    ("monitorServer", OPERATIONAL | HIDDEN),
    ("monitorContainer", OPERATIONAL | HIDDEN),
    ("monitorCounterObject", OPERATIONAL | HIDDEN),
    ("monitorOperation", OPERATIONAL | HIDDEN),
    ("monitorConnection", OPERATIONAL | HIDDEN),
    ("managedObject", OPERATIONAL | HIDDEN),
    ("monitoredObject", OPERATIONAL | HIDDEN),
    ("olmSyncReplInstance", HIDDEN),
    ("olmMDBDatabase", HIDDEN),
    ("olmLDAPDatabase", HIDDEN),
    ("olmLDAPConnection", HIDDEN),
    ("olmBDBDatabase", HIDDEN),
    ("olmPCache", HIDDEN),
    ("errAbsObject", HIDDEN),
    ("errObject", HIDDEN),
    ("errAuxObject", HIDDEN),
];

/// The flag word of a class. 2.4 hides those of its overlay accesslog, which all begin alike.
pub fn flags(name: &str, builtin: bool, of_2_4: bool) -> u32 {
    let logged = if of_2_4 && name.starts_with("audit") { HIDDEN } else { 0 };
    let special = || FLAGS.iter().find(|row| row.0 == name).map_or(logged, |row| row.1);
    if builtin { BUILTIN | special() } else { 0 }
}

impl SpecialClass {
    /// What a class of this name is, if it is compiled in.
    pub fn of(name: &str) -> Option<Self> {
        match name {
            "top" => Some(Self::Top),
            "extensibleObject" => Some(Self::ExtensibleObject),
            "OpenLDAProotDSE" => Some(Self::RootDse),
            "subschema" | "collectiveAttributeSubentry" => Some(Self::WithinSubentry),
            "dynamicObject" => Some(Self::DynamicObject),
            "glue" => Some(Self::Glue),
            _ => None,
        }
    }
}
