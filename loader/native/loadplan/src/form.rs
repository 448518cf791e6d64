//! Writes operations as lines of JSON, and updates also as LDIF change records.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// An operation of a client, with its expected result.
pub enum Operation {
    Search {
        base: Vec<u8>,
        scope: &'static str,
        filter: String,
        expected: ExpectedEntries,
    },
    Bind {
        dn: Vec<u8>,
        password: Vec<u8>,
        result: u8,
    },
    /// Replaces all values of one attribute.
    Modify {
        dn: Vec<u8>,
        attribute: String,
        values: Vec<Vec<u8>>,
    },
    Add {
        dn: Vec<u8>,
        values: Vec<(String, Vec<u8>)>,
    },
    Delete {
        dn: Vec<u8>,
    },
    /// Replaces the RDN, with `deleteoldrdn`.
    Rename {
        dn: Vec<u8>,
        rdn: Vec<u8>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpectedEntries {
    Exactly(u64),
    /// At least one entry. The number is unknown, so the client sets this size limit.
    Some {
        limit: u64,
    },
    /// The search base does not exist.
    NoBase,
}

/// An LDAP result code (RFC 4511, appendix A).
const NO_SUCH_OBJECT: u8 = 32;

impl Operation {
    /// Appends the operation as a line of JSON.
    pub fn json(&self, out: &mut Vec<u8>) {
        let value = match self {
            Self::Search { base, scope, filter, expected } => {
                let mut line = json!({"op": "search", "base": text(base), "scope": scope, "filter": filter});
                match *expected {
                    ExpectedEntries::Exactly(entries) => line["entries"] = entries.into(),
                    ExpectedEntries::Some { limit } => {
                        (line["entriesAtLeast"], line["sizeLimit"]) = (1.into(), limit.into());
                    }
                    ExpectedEntries::NoBase => {
                        (line["entries"], line["result"]) = (0.into(), NO_SUCH_OBJECT.into());
                    }
                }
                line
            }
            Self::Bind { dn, password, result } => {
                json!({"op": "bind", "dn": text(dn), "password": text(password), "result": result})
            }
            Self::Modify { dn, attribute, values } => {
                let values: Vec<Value> = values.iter().map(|value| text(value)).collect();
                json!({"op": "modify", "dn": text(dn), "replace": {attribute: values}})
            }
            Self::Add { dn, values } => {
                json!({"op": "add", "dn": text(dn), "attributes": grouped(values)})
            }
            Self::Delete { dn } => json!({"op": "delete", "dn": text(dn)}),
            Self::Rename { dn, rdn } => {
                json!({"op": "modrdn", "dn": text(dn), "newRdn": text(rdn), "deleteOldRdn": true})
            }
        };
        out.extend_from_slice(value.to_string().as_bytes());
        out.push(b'\n');
    }

    /// Appends an LDIF change record, if the operation is an update.
    pub fn ldif(&self, out: &mut Vec<u8>) {
        use ldif::write::line;
        let (dn, kind) = match self {
            Self::Search { .. } | Self::Bind { .. } => return,
            Self::Modify { dn, .. } => (dn, "modify"),
            Self::Add { dn, .. } => (dn, "add"),
            Self::Delete { dn } => (dn, "delete"),
            Self::Rename { dn, .. } => (dn, "modrdn"),
        };
        line(out, b"dn", dn);
        line(out, b"changetype", kind.as_bytes());
        match self {
            Self::Modify { attribute, values, .. } => {
                line(out, b"replace", attribute.as_bytes());
                for value in values {
                    line(out, attribute.as_bytes(), value);
                }
                out.extend_from_slice(b"-\n");
            }
            Self::Add { values, .. } => {
                for (name, value) in values {
                    line(out, name.as_bytes(), value);
                }
            }
            Self::Rename { rdn, .. } => {
                line(out, b"newrdn", rdn);
                line(out, b"deleteoldrdn", b"1");
            }
            _ => {}
        }
        out.push(b'\n');
    }
}

/// Returns an object with a list of values for each attribute.
fn grouped(values: &[(String, Vec<u8>)]) -> Value {
    let mut groups = json!({});
    for (name, value) in values {
        match &mut groups[name] {
            Value::Array(group) => group.push(text(value)),
            new => *new = json!([text(value)]),
        }
    }
    groups
}

/// Returns a JSON string, or `{"base64": ...}` for bytes that are not UTF-8.
fn text(bytes: &[u8]) -> Value {
    std::str::from_utf8(bytes).map_or_else(|_| json!({"base64": STANDARD.encode(bytes)}), Value::from)
}

/// Escapes an assertion value for a search filter (RFC 4515, 3).
pub fn escaped(value: &[u8]) -> String {
    let mut out = String::with_capacity(value.len());
    for part in value.utf8_chunks() {
        part.valid().chars().for_each(|letter| match letter {
            '*' | '(' | ')' | '\\' | '\0' => _ = write!(out, "\\{:02x}", u32::from(letter)),
            _ => out.push(letter),
        });
        part.invalid().iter().for_each(|byte| _ = write!(out, "\\{byte:02x}"));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(operation: &Operation) -> String {
        let mut out = Vec::new();
        operation.json(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_search_has_its_expected_entries() {
        let search = |expected| {
            let base = b"o=x".to_vec();
            line(&Operation::Search { base, scope: "sub", filter: "(cn=a)".to_owned(), expected })
        };
        assert!(search(ExpectedEntries::Exactly(1)).contains(r#""entries":1"#));
        assert!(search(ExpectedEntries::Some { limit: 9 }).contains(r#""sizeLimit":9"#));
        assert!(search(ExpectedEntries::NoBase).contains(r#""result":32"#));
    }

    #[test]
    fn updates_become_change_records() {
        let mut out = Vec::new();
        let values = vec![b"a".to_vec(), b" b".to_vec()];
        Operation::Modify { dn: b"cn=a".to_vec(), attribute: "l".to_owned(), values }.ldif(&mut out);
        Operation::Rename { dn: b"cn=a".to_vec(), rdn: b"cn=b".to_vec() }.ldif(&mut out);
        Operation::Delete { dn: b"cn=c".to_vec() }.ldif(&mut out);
        let expected = "dn: cn=a\nchangetype: modify\nreplace: l\nl: a\nl:: IGI=\n-\n\n\
                        dn: cn=a\nchangetype: modrdn\nnewrdn: cn=b\ndeleteoldrdn: 1\n\n\
                        dn: cn=c\nchangetype: delete\n\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn bytes_that_are_not_utf8_become_base64() {
        let values = vec![("p".to_owned(), b"\xff".to_vec()), ("p".to_owned(), b"x".to_vec())];
        let line = line(&Operation::Add { dn: b"cn=a".to_vec(), values });
        assert!(line.contains(r#""attributes":{"p":[{"base64":"/w=="},"x"]}"#), "{line}");
    }

    #[test]
    fn filters_are_escaped() {
        assert_eq!(escaped("a*(b)\\\0 \u{e9}".as_bytes()), "a\\2a\\28b\\29\\5c\\00 \u{e9}");
        assert_eq!(escaped(b"a\xffb"), "a\\ffb");
    }
}
