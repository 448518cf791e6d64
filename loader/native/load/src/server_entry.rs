//! An entry on the server, compared with the LDIF entry that has the same DN.

use ldif::Field;
use rustc_hash::FxHashMap;
use tree::csn;
use tree::name::ParsedDn;
use wire::Result;
use wire::message::Message;

use crate::entry::{Entry, GroupedValues, naming_types};
use crate::options::Aliases;

const STAMPS: [&str; 2] = ["entryCSN", "modifyTimestamp"];
/// The user attributes (RFC 4511, 4.5.1.8), and the operational attributes that show which entry is newer.
pub const CONTENT: &[&str] = &["*", STAMPS[0], STAMPS[1]];

/// An attribute description with values: those in an entry, or those with which a Modify request replaces them.
pub type Modification = (Vec<u8>, Vec<Vec<u8>>);

/// An entry that the server returned.
#[derive(Debug, Default)]
pub struct ServerEntry {
    /// Maps each description in lower case to the server's spelling of the description and the values.
    attributes: FxHashMap<Vec<u8>, Modification>,
}

impl ServerEntry {
    pub fn read(message: &Message<'_>) -> Result<Self> {
        let mut entry = Self::default();
        for attribute in message.entry()?.attributes {
            let (description, values) = attribute?;
            let values = values.map(|value| value.map(<[u8]>::to_vec)).collect::<Result<Vec<_>>>()?;
            let key = description.to_ascii_lowercase();
            let attribute = entry.attributes.entry(key).or_insert_with(|| (description.to_vec(), Vec::new()));
            attribute.1.extend(values);
        }
        Ok(entry)
    }

    /// Whether the LDIF entry is newer: by entryCSN if both entries have one, otherwise by modifyTimestamp. Returns
    /// false if there is no attribute to compare.
    pub fn is_older_than(&self, entry: &Entry) -> common::Result<bool> {
        let fields = entry.fields()?;
        let first = |name: &str| fields.iter().find(|field| field.is(name)).map(Field::value).transpose();
        for (name, is_csn) in [(STAMPS[0], true), (STAMPS[1], false)] {
            let ours = first(name)?;
            let theirs = self.attributes.get(name.to_ascii_lowercase().as_bytes()).and_then(|one| one.1.first());
            if let (Some(ours), Some(theirs)) = (ours, theirs) {
                let newer =
                    if is_csn { csn::pack(&ours) > csn::pack(theirs) } else { ours.as_ref() > theirs.as_slice() };
                return Ok(newer);
            }
        }
        Ok(false)
    }

    /// Returns the modifications that make the user attributes equal to those of the LDIF entry. The list is empty if
    /// they are equal already.
    ///
    /// With `loosely`, values that differ only in case, in spaces or in the spelling of a DN are equal, because a
    /// server may store another spelling. Values of the RDN are never removed, because servers add them.
    pub fn changes(
        &self,
        entry: &Entry,
        leave_out: &tree::Names,
        aliases: &Aliases,
        loosely: bool,
    ) -> common::Result<Vec<Modification>> {
        let fields: Vec<_> = entry.fields()?.into_iter().filter(|field| !leave_out.has_field(field)).collect();
        let groups = GroupedValues::new(&fields)?;
        let naming: Vec<Vec<u8>> = naming_types(&entry.dn).iter().map(|kind| server_name(kind, aliases)).collect();
        let (mut changes, mut kept) = (Vec::new(), Vec::new());
        for members in &groups.members {
            let description = fields[members[0]].description();
            let key = server_name(description, aliases);
            let ours: Vec<Vec<u8>> = members.iter().map(|&at| groups.values[at].to_vec()).collect();
            let theirs = self.values(&key);
            let fold = if loosely { folded } else { <[u8]>::to_vec };
            if !same(&ours, theirs, fold, naming.contains(&key)) {
                changes.push((description.to_vec(), ours));
            }
            kept.push(key);
        }
        for (key, (description, _)) in &self.attributes {
            let stamp = STAMPS.iter().any(|name| name.as_bytes().eq_ignore_ascii_case(key));
            if !stamp && !kept.contains(key) && !naming.contains(key) {
                changes.push((description.clone(), Vec::new()));
            }
        }
        changes.sort_unstable();
        Ok(changes)
    }

    /// Whether an earlier attempt of this load has added the entry: `changes`, its differences from the LDIF entry, are
    /// only passwords that the server has hashed or does not return.
    pub fn was_added_by_this_load(&self, changes: &[Modification]) -> bool {
        const PASSWORD: &[u8] = b"userpassword";
        let theirs = self.values(PASSWORD);
        let are_hashed = theirs.iter().all(|value| value.starts_with(b"{"));
        changes.iter().all(|(description, values)| {
            let may_differ = are_hashed && (theirs.is_empty() || theirs.len() == values.len());
            description.eq_ignore_ascii_case(PASSWORD) && !values.is_empty() && may_differ
        })
    }

    fn values(&self, key: &[u8]) -> &[Vec<u8>] {
        self.attributes.get(key).map_or(&[][..], |(_, values)| values.as_slice())
    }
}

/// Returns the description in lower case, with the server's name for the attribute type.
fn server_name(description: &[u8], aliases: &Aliases) -> Vec<u8> {
    let lower = description.to_ascii_lowercase();
    let end = lower.iter().position(|&byte| byte == b';').unwrap_or(lower.len());
    let alias = aliases.iter().find(|(alias, _)| alias.as_bytes() == &lower[..end]);
    alias.map_or_else(|| lower.clone(), |(_, name)| [name.as_bytes(), &lower[end..]].concat())
}

/// Whether the values are equal after `fold`, in any order. With `more`, the server may have additional values.
fn same(ours: &[Vec<u8>], theirs: &[Vec<u8>], fold: fn(&[u8]) -> Vec<u8>, more: bool) -> bool {
    let sorted = |values: &[Vec<u8>]| {
        let mut values: Vec<Vec<u8>> = values.iter().map(|value| fold(value)).collect();
        values.sort_unstable();
        values
    };
    let (ours, theirs) = (sorted(ours), sorted(theirs));
    if more { ours.iter().all(|value| theirs.binary_search(value).is_ok()) } else { ours == theirs }
}

/// Normalizes a value: values that differ only in case, in spaces or in the spelling of a DN yield the same bytes.
fn folded(value: &[u8]) -> Vec<u8> {
    let text = if value.contains(&b'=') { ParsedDn::new(value).key().to_vec() } else { value.to_ascii_lowercase() };
    let words = text.split(|&byte| byte == b' ').filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(&b' ')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds an entry as a server returns it.
    fn found(attributes: &[(&str, &[&str])]) -> ServerEntry {
        let owned = |(name, values): &(&str, &[&str])| {
            let values: Vec<_> = values.iter().map(|value| value.as_bytes().to_vec()).collect();
            ((*name).to_owned(), values)
        };
        let attributes: Vec<_> = attributes.iter().map(owned).collect();
        let bytes = crate::messages::entry("cn=one,dc=x", &attributes);
        ServerEntry::read(&Message::read(&bytes).unwrap()).unwrap()
    }

    fn entry(lines: &str) -> Entry {
        Entry::new(0, None, 1, format!("dn: cn=one,dc=x\n{lines}").as_bytes()).unwrap()
    }

    fn changes(found: &ServerEntry, lines: &str, loosely: bool) -> Vec<String> {
        let aliases = vec![("commonname".to_owned(), "cn".to_owned())];
        let changes = found.changes(&entry(lines), &tree::Names::default(), &aliases, loosely);
        let named = |(name, values): &Modification| {
            let values: Vec<_> = values.iter().map(|value| String::from_utf8_lossy(value)).collect();
            format!("{}: {}", String::from_utf8_lossy(name), values.join("|"))
        };
        changes.unwrap().iter().map(named).collect()
    }

    #[test]
    fn equal_entries_need_no_change() {
        let found = found(&[("cn", &["one", "two"]), ("sn", &["a"]), ("entryCSN", &["x"])]);
        let none: [String; 0] = [];
        assert_eq!(changes(&found, "sn: a\ncommonName: two\nCN: one\n", false), none);
        // Servers add the value of the RDN themselves.
        assert_eq!(changes(&found, "sn: a\ncn: two\n", false), none);
    }

    #[test]
    fn different_values_are_replaced_and_others_removed() {
        let found = found(&[("cn", &["one"]), ("sn", &["a"]), ("title", &["t"]), ("l", &["m", "n"])]);
        assert_eq!(
            changes(&found, "cn: one\nsn: b\nl: m\ndescription: d\n", false),
            ["description: d", "l: m", "sn: b", "title: "]
        );
    }

    #[test]
    fn spellings_matter_only_in_a_strict_comparison() {
        let found = found(&[("cn", &["one"]), ("seeAlso", &["cn=A,dc=x"]), ("sn", &["Jo Doe"])]);
        let lines = "cn: one\nseeAlso: CN=a, dc=X\nsn: jo  doe\n";
        assert!(changes(&found, lines, true).is_empty());
        assert_eq!(changes(&found, lines, false).len(), 2);
    }

    #[test]
    fn only_a_hashed_or_hidden_password_may_differ() {
        let password = vec![(b"userPassword".to_vec(), vec![b"secret".to_vec()])];
        assert!(found(&[("userPassword", &["{SSHA}x"])]).was_added_by_this_load(&password));
        assert!(found(&[]).was_added_by_this_load(&password));
        assert!(!found(&[("userPassword", &["other"])]).was_added_by_this_load(&password));
        assert!(!found(&[]).was_added_by_this_load(&[(b"sn".to_vec(), vec![b"a".to_vec()])]));
    }

    #[test]
    fn the_newer_entry_is_decided_by_csn_then_timestamp() {
        let csn = |seconds: u32| format!("202601010000{seconds:02}.000000Z#000000#000#000000");
        let found = found(&[("entryCSN", &[&csn(5)]), ("modifyTimestamp", &["20260101000005Z"])]);
        let newer = |lines: &str| found.is_older_than(&entry(lines)).unwrap();
        assert!(newer(&format!("entryCSN: {}\n", csn(6))));
        assert!(!newer(&format!("entryCSN: {}\n", csn(5))));
        assert!(newer("modifyTimestamp: 20260101000006Z\n"));
        assert!(!newer("modifyTimestamp: 20260101000004Z\n"));
        assert!(!newer("sn: a\n"));
    }
}
