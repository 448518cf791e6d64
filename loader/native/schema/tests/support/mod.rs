//! A small schema, partly compiled in and partly loaded.
#![allow(dead_code)] // Each test file uses a part.

use schema::{Definition, Kind, Schema, Settings};

/// One definition per line, after a letter for its kind, which is a capital for compiled-in definitions.
const DEFINITIONS: &str = include_str!("definitions.txt");

pub fn definitions() -> Vec<Definition> {
    let lines = DEFINITIONS.lines().filter(|line| !line.starts_with('#'));
    lines.map(definition).collect()
}

pub fn definition(line: &str) -> Definition {
    let (letter, text) = line.split_at(1);
    let kind = match letter.to_ascii_lowercase().as_str() {
        "l" => Kind::Macro,
        "s" => Kind::Syntax,
        "a" => Kind::AttributeType,
        "c" => Kind::ObjectClass,
        _ => Kind::ContentRule,
    };
    let builtin = letter == letter.to_ascii_uppercase();
    Definition { kind, text: text.trim().to_owned(), builtin }
}

pub fn schema() -> Schema {
    Schema::read(&definitions(), Settings::default()).unwrap()
}

/// The schema with more definitions.
pub fn with(lines: &[&str]) -> Result<Schema, String> {
    let mut all = definitions();
    all.extend(lines.iter().map(|line| definition(line)));
    Schema::read(&all, Settings::default()).map_err(|problem| problem.to_string())
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}
