//! A schema for all targets, and for the tests of crates that read a schema.

use std::sync::OnceLock;

use ::schema::{Definition, Kind, Schema, Settings};

/// The definitions of `slapcat -n0` without their descriptions: those compiled into slapd, core, cosine, inetorgperson,
/// nis, and an attribute type for every rule and every syntax.
pub const DEFINITIONS: &str = include_str!("schema.txt");

/// Parses one definition per line. The first letter is its kind; a capital letter means that it is compiled into slapd.
pub fn definitions(text: &str) -> Vec<Definition> {
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
    let text = line[1..].trim().to_owned();
    Some(Definition { kind, text, builtin: letter.is_ascii_uppercase() })
}

pub fn schema() -> &'static Schema {
    static SCHEMA: OnceLock<Schema> = OnceLock::new();
    SCHEMA.get_or_init(|| {
        let read = Schema::read(&definitions(DEFINITIONS), Settings::default());
        read.expect("the schema is sound")
    })
}
