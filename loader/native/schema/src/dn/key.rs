//! Keys of DNs without a schema, for example to look up a suffix before the schema is read.

use values::Normaliser;

use super::parse::{self, RawAva};
use super::write;
use crate::Result;

/// Naming attribute types that have several names (RFC 4519, RFC 4524, RFC 2985, and the schema files of OpenLDAP): the
/// first name is slapd's canonical name, the last is the OID.
const NAMES: [&[&[u8]]; 25] = [
    &[b"cn", b"commonname", b"2.5.4.3"],
    &[b"sn", b"surname", b"2.5.4.4"],
    &[b"serialnumber", b"2.5.4.5"],
    &[b"c", b"countryname", b"2.5.4.6"],
    &[b"l", b"localityname", b"2.5.4.7"],
    &[b"st", b"stateorprovincename", b"2.5.4.8"],
    &[b"street", b"streetaddress", b"2.5.4.9"],
    &[b"o", b"organizationname", b"2.5.4.10"],
    &[b"ou", b"organizationalunitname", b"2.5.4.11"],
    &[b"title", b"2.5.4.12"],
    &[b"description", b"2.5.4.13"],
    &[b"postalcode", b"2.5.4.17"],
    &[b"name", b"2.5.4.41"],
    &[b"givenname", b"gn", b"2.5.4.42"],
    &[b"initials", b"2.5.4.43"],
    &[b"dnqualifier", b"2.5.4.46"],
    &[b"uid", b"userid", b"0.9.2342.19200300.100.1.1"],
    &[b"mail", b"rfc822mailbox", b"0.9.2342.19200300.100.1.3"],
    &[b"drink", b"favouritedrink", b"0.9.2342.19200300.100.1.5"],
    &[b"host", b"0.9.2342.19200300.100.1.9"],
    &[b"dc", b"domaincomponent", b"0.9.2342.19200300.100.1.25"],
    &[b"associateddomain", b"0.9.2342.19200300.100.1.37"],
    &[b"co", b"friendlycountryname", b"0.9.2342.19200300.100.1.43"],
    &[b"email", b"emailaddress", b"pkcs9email", b"1.2.840.113549.1.9.1"],
    &[b"displayname", b"2.16.840.1.113730.3.1.241"],
];

/// Returns a key that is the same for equal DNs, as far as that is possible without a schema: all values are compared
/// as by `caseIgnoreMatch`, and only common attribute types are recognized by other names and OIDs. Separators in
/// values are escaped, so that the first comma always begins the parent.
pub fn dn_key(text: &[u8]) -> Result<Vec<u8>> {
    let mut key = Vec::with_capacity(text.len());
    let text = if text.trim_ascii().is_empty() { b"" } else { text };
    for rdn in parse::dn(text)? {
        let mut parts = rdn.iter().map(assertion).collect::<Result<Vec<_>, _>>()?;
        parts.sort_unstable();
        if !key.is_empty() {
            key.push(b',');
        }
        key.extend(parts.join(&b'+'));
    }
    Ok(key)
}

fn assertion(ava: &RawAva<'_>) -> Result<Vec<u8>> {
    let written = ava.name.to_ascii_lowercase();
    let known = NAMES.iter().find(|names| names.contains(&written.as_slice()));
    let mut part = known.map_or(written.clone(), |names| names[0].to_vec());
    part.push(b'=');
    if ava.ber {
        part.push(b'#');
    }
    let mut value = Vec::with_capacity(ava.value.len());
    Normaliser::CaseIgnore.apply(&ava.value, &mut value)?;
    write::escape(&value, &mut part)?;
    Ok(part)
}

#[cfg(test)]
mod tests {
    use super::dn_key;

    fn key(text: &str) -> String {
        String::from_utf8(dn_key(text.as_bytes()).unwrap()).unwrap()
    }

    #[test]
    fn all_spellings_have_the_same_key() {
        for one in [r"o=Foo\, Inc.,c=US", r"O = foo\2C  inc. , countryName=us", r#"o="Foo, Inc.",c=US"#] {
            assert_eq!(key(one), r"o=foo\2C inc.,c=us");
        }
        assert_eq!(key("2.5.4.10=x;domainComponent=y"), "o=x,dc=y");
        assert_eq!(key("sn=B + commonName=a,dc=x"), "cn=a+sn=b,dc=x");
        assert_eq!(key(r"o=Gr\C3\B6\C3\9Fe"), key("O=GRÖßE"));
    }

    #[test]
    fn different_dns_have_different_keys() {
        assert_ne!(key(r"o=\#0a"), key("o=#0a"));
        assert_ne!(key(r"o=a\,dc=com"), key("o=a,dc=com"));
        assert_ne!(key(r"o=a\+cn=b"), key("o=a+cn=b"));
    }

    #[test]
    fn the_empty_dn_has_a_key_and_invalid_dns_have_none() {
        assert_eq!(key(""), "");
        assert_eq!(key("  "), "");
        assert!(dn_key(b"example.com").is_err());
        assert!(dn_key(b"o=\\zz").is_err());
    }
}
