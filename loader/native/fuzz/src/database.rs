//! Settings of a slapd 2.6 database `dc=example,dc=com`, and build options, for the targets and for tests.

use std::path::Path;

use ::values::keys::Substrings;
use backmdb::{Options, Settings, ValueCheck};

pub fn options(directory: &Path) -> Options {
    Options {
        now: "20260102030405Z".into(),
        first: 0,
        write_context: false,
        claimed: None,
        values: ValueCheck::Refuse,
        check_schema: true,
        complete_naming: true,
        account: false,
        file_urls: false,
        as_slapadd: false,
        memory: 64 << 20,
        jobs: 2,
        scratch: directory.to_owned(),
        max_rejects: 0,
        rejects: directory.join("rejects.ldif"),
    }
}

pub fn settings() -> Settings {
    Settings {
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
    }
}
