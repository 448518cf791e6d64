//! A filter for tests against a real slapd: for each line `operation hex` it prints the results in
//! hexadecimal, separated by spaces, or `! refusal`.
//!
//! Operations: the name of an equality rule; `syntax=OID` (no result); `integer=LENGTH`; `time`;
//! `approx`; `hash=WIDTH,PREFIX,PRE,SYNTAX,RULE`; `substrings=WIDTH,PREFIX,SYNTAX,RULE,MIN,MAX,ANY`.

use std::io::{self, BufRead, BufWriter, Write};

use values::keys::{self, Key, Seed, Substrings, Width};
use values::{InvalidValue, Normaliser, Syntax};

fn main() -> io::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    for line in io::stdin().lock().lines() {
        let line = line?;
        let (operation, value) = line.split_once(' ').unwrap_or((&line, ""));
        match answer(operation, &unhex(value)) {
            Ok(results) => writeln!(out, "{}", results.join(" "))?,
            Err(refusal) => writeln!(out, "! {refusal}")?,
        }
    }
    out.flush()
}

fn answer(operation: &str, value: &[u8]) -> Result<Vec<String>, InvalidValue> {
    let (name, arguments) = operation.split_once('=').unwrap_or((operation, ""));
    let arguments: Vec<&str> = arguments.split(',').collect();
    let mut found = Vec::new();
    match (name, arguments.as_slice()) {
        ("syntax", [oid]) => Syntax::from_oid(oid).ok_or(unknown(oid))?.check(value)?,
        ("integer", [length]) => found.push(show(keys::integer(value, number(length))?)),
        ("time", _) => found.extend(keys::time(value).map(show)),
        ("approx", _) => keys::phonetic(value, |key| found.push(show(key)))?,
        ("hash", [width, prefix, pre, syntax, rule]) => {
            found.push(show(Seed::new(bytes(width), prefix, pre, syntax, rule).key(value)));
        }
        ("substrings", [width, prefix, syntax, rule, min, max, any]) => {
            let sizes = Substrings { min: number(min), max: number(max), any: number(any) };
            let seeds =
                ["^", "*", "$"].map(|pre| Seed::new(bytes(width), prefix, pre, syntax, rule));
            match bytes(width) {
                Width::Four => sizes.each(&seeds, value, |key| found.push(format!("{key:08x}"))),
                Width::Eight => {
                    sizes.each64(&seeds, value, |key| found.push(format!("{key:016x}")));
                }
            }
        }
        _ => {
            let mut normal = Vec::new();
            normaliser(name).ok_or(unknown(name))?.apply(value, &mut normal)?;
            found.push(hex(&normal));
        }
    }
    Ok(found)
}

fn normaliser(rule: &str) -> Option<Normaliser> {
    Some(match rule {
        "caseIgnoreMatch" => Normaliser::CaseIgnore,
        "caseExactMatch" => Normaliser::CaseExact,
        "caseIgnoreIA5Match" => Normaliser::CaseIgnoreIa5,
        "caseExactIA5Match" => Normaliser::CaseExactIa5,
        "telephoneNumberMatch" => Normaliser::Telephone,
        "numericStringMatch" => Normaliser::NumericString,
        "caseIgnoreListMatch" => Normaliser::CaseIgnoreList,
        "generalizedTimeMatch" => Normaliser::GeneralizedTime,
        "UUIDMatch" => Normaliser::Uuid,
        "CSNMatch" => Normaliser::Csn,
        _ => return None,
    })
}

fn unknown(name: &str) -> InvalidValue {
    InvalidValue(format!("unknown: {name}").into())
}

fn bytes(width: &str) -> Width {
    if width == "8" { Width::Eight } else { Width::Four }
}

fn number(text: &str) -> usize {
    text.parse().expect("a number")
}

fn show(key: Key) -> String {
    hex(key.as_bytes())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]).map(digit).collect()
}

fn digit(nibble: u8) -> char {
    char::from_digit(nibble.into(), 16).expect("a nibble")
}

fn unhex(text: &str) -> Vec<u8> {
    let digit = |at| u8::from_str_radix(&text[at..at + 2], 16).expect("hexadecimal");
    (0..text.len()).step_by(2).map(digit).collect()
}
