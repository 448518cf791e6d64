//! A schema for all targets, and the settings of a database that uses most of it.

use std::sync::OnceLock;

use ::values::keys::Substrings;
use backmdb::{Method, Settings};
use schema::{Definition, Kind, Schema};

/// The definitions of `slapcat -n0` without their descriptions: what is compiled into slapd, core,
/// cosine, inetorgperson, nis, and one attribute type for every rule and syntax.
const DEFINITIONS: &str = include_str!("schema.txt");

/// One definition a line. The first letter tells the kind, a capital that it is compiled in.
pub(crate) fn definitions(text: &str) -> Vec<Definition> {
    text.lines().filter_map(definition).collect()
}

fn definition(line: &str) -> Option<Definition> {
    let letter = line.chars().next()?;
    let kind = match letter.to_ascii_lowercase() {
        'm' => Kind::Macro,
        's' => Kind::Syntax,
        'a' => Kind::AttributeType,
        'o' => Kind::ObjectClass,
        'r' => Kind::ContentRule,
        _ => return None,
    };
    Some(Definition { kind, text: line[1..].to_owned(), builtin: letter.is_ascii_uppercase() })
}

pub(crate) fn schema() -> &'static Schema {
    static SCHEMA: OnceLock<Schema> = OnceLock::new();
    SCHEMA.get_or_init(|| {
        let read = Schema::read(&definitions(DEFINITIONS), ::schema::Settings::default());
        read.expect("the schema is sound")
    })
}

const ALL: &str = "pres eq approx sub";
const INDEXES: [(&str, &str); 24] = [
    ("objectClass", "pres eq"),
    ("entryUUID", "eq"),
    ("entryCSN", "eq"),
    ("createTimestamp", "eq"),
    ("cn", ALL),
    ("sn;lang-de", "eq sub"),
    ("sn", "eq sub"),
    ("name", "eq"),
    ("uid", "eq sub"),
    ("mail", "pres eq sub"),
    ("member", "eq"),
    ("seeAlso", "eq"),
    ("uidNumber", "eq"),
    ("telephoneNumber", "eq sub"),
    ("description", "pres eq sub approx"),
    ("userPassword", "eq"),
    ("gExact", ALL),
    ("gIa5", "eq sub"),
    ("gNumeric", "eq sub"),
    ("gPostal", "eq sub"),
    ("gInteger", "eq"),
    ("gTime", "eq"),
    ("gBits", "eq"),
    ("gNameUid", "eq"),
];

/// Three indexes, for each costs a build about a millisecond; all for 255.
fn indexes(choice: u8) -> Vec<(String, Vec<Method>)> {
    let methods = |names: &str| names.split(' ').filter_map(Method::from_name).collect();
    let first = usize::from(choice) % (INDEXES.len() / 3) * 3;
    let chosen = if choice == u8::MAX { &INDEXES[..] } else { &INDEXES[first..first + 3] };
    chosen.iter().map(|(name, names)| ((*name).to_owned(), methods(names))).collect()
}

/// A database under `dc=example,dc=com`.
pub(crate) fn settings(choice: u8) -> Settings {
    Settings {
        suffixes: vec!["dc=example,dc=com".into()],
        foreign: Vec::new(),
        of_2_4: false,
        of_2_7: false,
        page_size: 4096,
        root_dn: Some("cn=admin,dc=example,dc=com".into()),
        indexes: indexes(choice),
        wide_hash: false,
        integer_length: 4,
        substrings: Substrings::default(),
        apart_above: Vec::new(),
        sorted: Vec::new(),
        list_exponent: 16,
        max_entry_size: 0,
        map_size: 1 << 30,
        has_id2v: true,
        has_ixck: true,
        last_mod: true,
        translucent: false,
        server_id: 1,
    }
}
