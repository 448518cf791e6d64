//! A schema for all targets, and for the tests of crates that read one.

use std::sync::OnceLock;

use ::schema::{Definition, Kind, Schema, Settings};

/// The definitions of `slapcat -n0` without their descriptions: what is compiled into slapd, core,
/// cosine, inetorgperson, nis, and one attribute type for every rule and syntax.
pub const DEFINITIONS: &str = include_str!("schema.txt");

/// One definition a line. The first letter tells the kind, a capital that it is compiled in.
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
