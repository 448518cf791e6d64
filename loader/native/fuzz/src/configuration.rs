//! Settings of a database that uses most of the schema.

use backmdb::{Method, Settings};

use crate::database;

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

/// Returns three indexes, because each index costs a build about a millisecond; returns all indexes for 255.
fn indexes(choice: u8) -> Vec<(String, Vec<Method>)> {
    let methods = |names: &str| names.split(' ').filter_map(Method::from_name).collect();
    let first = usize::from(choice) % (INDEXES.len() / 3) * 3;
    let chosen = if choice == u8::MAX { &INDEXES[..] } else { &INDEXES[first..first + 3] };
    chosen.iter().map(|(name, names)| ((*name).to_owned(), methods(names))).collect()
}

/// Returns the settings of the tests with these indexes.
pub(crate) fn settings(choice: u8) -> Settings {
    Settings { indexes: indexes(choice), ..database::settings() }
}
