//! The schema of the fuzz targets, with some more definitions.
#![allow(dead_code)] // Each test file uses a part.

#[path = "../../../fuzz/src/definitions.rs"]
mod definitions;

use schema::{Definition, Schema, Settings};

const MORE: &str = "\
m {0}My 1.3.6.1.4.1.99999
m {1}MyAt My:1
a {11}( MyAt:1 NAME 'sorted' EQUALITY caseIgnoreMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 X-ORDERED 'VALUES' )
a {12}( MyAt:2 NAME 'shared' SUP name COLLECTIVE )
a {13}( MyAt:3 NAME 'outdated' OBSOLETE SUP name )
a {14}( MyAt:4 NAME 'plain' SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 )
o {4}( My:2 NAME 'shape' ABSTRACT MUST o )
o {5}( My:3 NAME 'shapely' SUP shape AUXILIARY MAY mail )
o {6}( My:4 NAME 'ancient' OBSOLETE SUP top STRUCTURAL MAY cn )
o {7}( My:5 NAME 'ruled' SUP top STRUCTURAL MUST cn MAY ( o $ description ) )
r {0}( My:5 NAME 'rule' AUX uidObject MUST o MAY mail NOT description )
o {8}( My:6 NAME 'boss' SUP person STRUCTURAL MUST o MAY mail )
";

pub fn definitions() -> Vec<Definition> {
    definitions::definitions(&[definitions::DEFINITIONS, MORE].concat())
}

pub fn schema() -> Schema {
    with(&[]).unwrap()
}

/// Returns the schema with additional definitions.
pub fn with(lines: &[&str]) -> Result<Schema, String> {
    let all = [definitions(), definitions::definitions(&lines.join("\n"))].concat();
    Schema::read(&all, Settings::default()).map_err(|problem| problem.to_string())
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}
