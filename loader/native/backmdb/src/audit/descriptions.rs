//! The attribute descriptions of ad2i, which slapd reads one after the other, whatever their numbers are.

use std::collections::BTreeSet;

use codec::ad2i;
use lmdbfile::Reader;

use super::findings::{Finding, Findings, Kind};

/// The texts in the order of their numbers, from 1.
pub fn read(reader: &Reader, findings: &mut Findings) -> Vec<String> {
    let (mut texts, mut seen) = (Vec::new(), BTreeSet::new());
    let Some(table) = reader.table(b"ad2i") else { return texts };
    let mut each = || -> lmdbfile::Result<()> {
        let mut cursor = table.cursor()?;
        while let Some((key, value)) = cursor.next()? {
            let text = String::from_utf8_lossy(value).into_owned();
            let add = |findings: &mut Findings, message: String| {
                findings.add(Kind::Description, || Finding::new(message).of_table("ad2i"));
            };
            if !ad2i::follows(key, texts.len()) {
                let expected = texts.len() + 1;
                add(findings, format!("{text} does not stand under number {expected}"));
            }
            if !is_description(value) {
                add(findings, format!("{text}: no attribute description"));
            }
            if !seen.insert(text.clone()) {
                add(findings, format!("{text} has two numbers"));
            }
            texts.push(text);
        }
        Ok(())
    };
    if let Err(error) = each() {
        findings.add(Kind::Page, || (&error).into());
    }
    texts
}

/// A name or OID, and options (RFC 4512, 2.5); slapd also takes `_` and options that end with `=`.
fn is_description(text: &[u8]) -> bool {
    let known = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._;=".contains(byte);
    text.first().is_some_and(u8::is_ascii_alphanumeric) && text.iter().all(known)
}
