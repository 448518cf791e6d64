//! Answers a line protocol, so that a test can compare with slapd:
//! `judge CONFIG.ldif < questions`, where CONFIG is unwrapped `slapcat -n0`. Values are hexadecimal.
//!
//! `dn HEX` answers `ok PRETTY NORMAL`; `value ATTRIBUTE HEX` answers `ok NORMAL`, or `ok` when there
//! is no normal form; `check ATTRIBUTE HEX` answers `ok`; `entry HEXDN ATTRIBUTE HEX ATTRIBUTE HEX ...`
//! answers `ok`; `flags HEX HEX ...` answers `ok FLAGS` for object classes. A refusal is `no REASON`.

use std::io::{BufRead, Write};

use schema::{AttributeId, Definition, InvalidValue, Kind, Schema, Settings};

fn hex(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from_digit(u32::from(nibble), 16).unwrap_or('?');
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let digit = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).expect("hexadecimal");
    (0..text.len()).step_by(2).map(digit).collect()
}

fn definitions(config: &str) -> Vec<Definition> {
    let mut builtin = false;
    let mut found = Vec::new();
    for line in config.lines() {
        let (name, text) = line.split_once(": ").unwrap_or((line, ""));
        let kind = match name {
            "dn" => {
                builtin = text == "cn=schema,cn=config";
                continue;
            }
            "olcObjectIdentifier" => Kind::Macro,
            "olcLdapSyntaxes" => Kind::Syntax,
            "olcAttributeTypes" => Kind::AttributeType,
            "olcObjectClasses" => Kind::ObjectClass,
            "olcDitContentRules" => Kind::ContentRule,
            _ => continue,
        };
        found.push(Definition { kind, text: text.to_owned(), builtin });
    }
    found
}

/// Attribute options as configured; dynamic objects are not.
fn settings(config: &str) -> Settings {
    let options = config.lines().filter_map(|line| line.strip_prefix("olcAttributeOptions: "));
    Settings { attribute_options: options.map(str::to_owned).collect(), ..Settings::default() }
}

fn answer(schema: &Schema, question: &str) -> Result<String, InvalidValue> {
    let words: Vec<&str> = question.split(' ').collect();
    match words.as_slice() {
        ["dn", text] => {
            let dn = schema.dn(&unhex(text))?;
            Ok(format!(" {} {}", hex(&dn.pretty()), hex(&dn.normal())))
        }
        ["value", name, value] => {
            let id = schema.describe_stored(name.as_bytes())?.attribute;
            let mut out = Vec::new();
            let stored = schema.normalise(id, &unhex(value), &mut out)?;
            Ok(if stored { format!(" {}", hex(&out)) } else { String::new() })
        }
        ["flags", classes @ ..] => {
            let classes: Vec<Vec<u8>> = classes.iter().map(|class| unhex(class)).collect();
            let classes: Vec<&[u8]> = classes.iter().map(Vec::as_slice).collect();
            Ok(format!(" {:x}", schema.flags(&classes)))
        }
        ["check", name, value] => {
            let id = schema.describe_stored(name.as_bytes())?.attribute;
            schema.check_value(id, &unhex(value)).map(|()| String::new())
        }
        ["entry", dn, fields @ ..] => entry(schema, &unhex(dn), fields).map(|()| String::new()),
        _ => Err(InvalidValue("not understood".into())),
    }
}

/// As slapadd judges an entry: attributes, DN, classes, naming, then what is present.
fn entry(schema: &Schema, dn: &[u8], fields: &[&str]) -> Result<(), InvalidValue> {
    let mut values: Vec<(AttributeId, String, Vec<Vec<u8>>)> = Vec::new();
    for pair in fields.chunks_exact(2) {
        let description = schema.describe_stored(pair[0].as_bytes())?;
        let value = unhex(pair[1]);
        schema.normalise(description.attribute, &value, &mut Vec::new())?;
        match values.iter_mut().find(|known| known.1 == description.text) {
            Some(known) => known.2.push(value),
            None => values.push((description.attribute, description.text, vec![value])),
        }
    }
    let dn = schema.dn(dn)?;
    let of = |name: &str| values.iter().find(|known| known.1 == name).map(|known| &known.2);
    let classes = of("objectClass").ok_or(InvalidValue("no object class".into()))?;
    let classes: Vec<&[u8]> = classes.iter().map(Vec::as_slice).collect();
    let structural = of("structuralObjectClass");
    if structural.is_some_and(|values| values.len() > 1) {
        return Err(InvalidValue("several structural classes".into()));
    }
    let profile = schema.profile(&classes, structural.map(|values| values[0].as_slice()))?;
    if let Some(rdn) = dn.rdns.first().filter(|_| !profile.is_glue()) {
        schema.check_naming(rdn)?;
        for ava in &rdn.avas {
            name_entry(schema, ava, &mut values)?;
        }
    }
    let present: Vec<_> = values.iter().map(|known| (known.0, known.2.len() > 1)).collect();
    profile.check(schema, &present)
}

/// Adds the value of an RDN that the entry lacks.
fn name_entry(
    schema: &Schema,
    ava: &schema::Ava,
    values: &mut Vec<(AttributeId, String, Vec<Vec<u8>>)>,
) -> Result<(), InvalidValue> {
    let kind = schema.get(ava.attribute);
    let normal = |value: &[u8]| {
        let mut out = Vec::new();
        let stored = schema.normalise(ava.attribute, value, &mut out)?;
        Ok::<_, InvalidValue>(if stored { out } else { value.to_vec() })
    };
    let asserted = normal(&ava.value)?;
    let Some(known) = values.iter_mut().find(|known| known.1 == kind.name) else {
        values.push((ava.attribute, kind.name.clone(), vec![ava.value.clone()]));
        return Ok(());
    };
    let stored = known.2.iter().map(|value| normal(value)).collect::<Result<Vec<_>, _>>()?;
    if schema.rdn_value_held(ava, &asserted, stored.iter().map(Vec::as_slice)) {
        return Ok(());
    }
    if kind.single_value {
        return Err(InvalidValue("single-valued naming attribute".into()));
    }
    known.2.push(ava.value.clone());
    Ok(())
}

fn main() {
    let config = std::env::args().nth(1).expect("the name of the configuration's file");
    let config = std::fs::read_to_string(config).expect("a configuration");
    let schema = Schema::read(&definitions(&config), settings(&config)).expect("a schema");
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for question in std::io::stdin().lock().lines().map_while(Result::ok) {
        let line = match answer(&schema, &question) {
            Ok(line) => format!("ok{line}"),
            Err(refusal) => format!("no {refusal}"),
        };
        writeln!(out, "{line}").expect("standard output");
    }
}
