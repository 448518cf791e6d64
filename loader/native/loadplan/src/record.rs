//! Parses the generated LDIF of an entry.

use ldif::Record as Text;

/// DN, and description and value of each line in their order.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Record {
    pub dn: Vec<u8>,
    pub values: Vec<(String, Vec<u8>)>,
}

impl Record {
    /// Parses a record of the generator. It does not support LDIF in general.
    pub fn read(bytes: &[u8]) -> common::Result<Self> {
        let text = Text { bytes: bytes.trim_ascii_end(), line: 1, closed: true, last: true };
        let entry = text.entry()?;
        let mut record = Self { dn: entry.dn.into_owned(), values: Vec::new() };
        for field in entry.fields {
            let field = field?;
            let description = String::from_utf8_lossy(field.description()).into_owned();
            record.values.push((description, field.value()?.into_owned()));
        }
        Ok(record)
    }

    pub fn values<'a>(&'a self, attribute: &'a str) -> impl Iterator<Item = &'a [u8]> {
        let found =
            self.values.iter().filter(move |(name, _)| name.eq_ignore_ascii_case(attribute));
        found.map(|(_, value)| value.as_slice())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_taken_apart() {
        let record = Record::read(b"dn: cn=a\nCN: a\ncn:: /w==\ndescription:\n\n").unwrap();
        assert_eq!(record.dn, b"cn=a");
        assert_eq!(record.values("cn").collect::<Vec<_>>(), [&b"a"[..], b"\xff"]);
        assert_eq!(record.values("description").collect::<Vec<_>>(), [b""]);
    }
}
