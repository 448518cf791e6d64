//! Determines the class of an attribute's values: text, DNs, passwords, times or Booleans.

use rustc_hash::FxHashMap;

use crate::histogram::Histogram;
use crate::position::Position;
use crate::schemes::scheme;

/// A class is chosen if at least this percentage of the values belongs to it.
const NEARLY_ALL: usize = 95;
/// Maximum number of distinct paths of DN values that are counted.
const MOST_PATHS: usize = 100;

#[derive(Debug, Clone, PartialEq)]
pub enum ValueKind {
    /// Text that belongs to no other class.
    Text,
    /// DNs: their paths ([`Position::path`]) with counts, by descending count.
    Dn(Vec<(String, usize)>),
    Password {
        scheme: &'static str,
    },
    /// Values of generalizedTime in the years `first` to `last`.
    Time {
        first: u32,
        last: u32,
    },
    /// `yes` is the number of values TRUE per 1,000 values.
    Boolean {
        yes: usize,
    },
}

/// Returns the class of the values. `root` is the path of the suffix.
pub fn sort(values: &[&str], root: &str) -> ValueKind {
    let nearly_all = |fits: usize| !values.is_empty() && fits * 100 >= values.len() * NEARLY_ALL;
    let count = |fits: fn(&str) -> bool| values.iter().filter(|value| fits(value)).count();
    if nearly_all(count(|value| matches!(value, "TRUE" | "FALSE"))) {
        return ValueKind::Boolean { yes: count(|value| value == "TRUE") * 1000 / values.len() };
    }
    if nearly_all(count(is_time)) {
        return time(values);
    }
    if nearly_all(count(|value| scheme(value).is_some())) {
        return password(values);
    }
    let (mut paths, mut all): (Vec<(String, usize)>, _) = (Vec::new(), 0);
    for path in values.iter().filter_map(|value| dn(value, root)) {
        all += 1;
        match paths.iter().position(|(known, _)| *known == path) {
            Some(index) => paths[index].1 += 1,
            None if paths.len() < MOST_PATHS => paths.push((path, 1)),
            None => {}
        }
    }
    if !nearly_all(all) {
        return ValueKind::Text;
    }
    paths.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    ValueKind::Dn(paths)
}

fn is_time(value: &str) -> bool {
    let digits = value.bytes().take_while(u8::is_ascii_digit).count();
    let rest = &value.as_bytes()[digits..];
    digits == 14 && (rest == b"Z" || (rest.starts_with(b".") && rest.ends_with(b"Z")))
}

fn time(values: &[&str]) -> ValueKind {
    let mut years: Vec<u32> =
        values.iter().filter(|value| is_time(value)).filter_map(|value| value[..4].parse().ok()).collect();
    years.retain(|year| (1970..=2200).contains(year));
    years.sort_unstable();
    // The lowest percent and the highest percent of the years are ignored.
    let outside = years.len() / 100;
    let first = years.get(outside).copied().unwrap_or(2020);
    let last = years.get(years.len().saturating_sub(outside + 1)).copied().unwrap_or(first);
    ValueKind::Time { first, last }
}

fn password(values: &[&str]) -> ValueKind {
    let mut counts: FxHashMap<&'static str, usize> = FxHashMap::default();
    for (name, _) in values.iter().filter_map(|value| scheme(value)) {
        *counts.entry(name).or_default() += 1;
    }
    let most = counts.into_iter().max_by_key(|(name, count)| (*count, *name));
    ValueKind::Password { scheme: most.map_or("SSHA", |(name, _)| name) }
}

/// Returns the lengths of the hashes in hashed passwords, without the schemes.
pub fn hash_lengths(values: &[&str]) -> Histogram {
    let mut lengths = Histogram::default();
    for (_, hash) in values.iter().filter_map(|value| scheme(value)) {
        lengths.add(hash.len() as u64);
    }
    lengths
}

/// Returns the path of a DN, or None if the value is no DN: a DN must have several RDNs, or the types of the suffix.
fn dn(value: &str, root: &str) -> Option<String> {
    if !value.contains('=') {
        return None;
    }
    let position = Position::new(value.as_bytes());
    let path = String::from_utf8_lossy(&position.path).into_owned();
    let named = path.split([',', '+']).all(|kind| {
        !kind.is_empty() && kind.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.'))
    });
    let equals = value.bytes().filter(|byte| *byte == b'=').count();
    (named && equals >= position.name.depth() && (position.name.depth() > 1 || path == root)).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_classified() {
        assert_eq!(sort(&["TRUE", "FALSE", "FALSE", "FALSE"], "dc"), ValueKind::Boolean { yes: 250 });
        assert_eq!(
            sort(&["20200101000000Z", "20240101000000.123Z"], "dc"),
            ValueKind::Time { first: 2020, last: 2024 }
        );
        assert_eq!(sort(&["{SSHA}x", "{ssha}y"], "dc"), ValueKind::Password { scheme: "SSHA" });
        assert_eq!(
            sort(&["uid=a,ou=people,dc=x", "UID=b,ou=y,dc=x"], "dc"),
            ValueKind::Dn(vec![("uid,ou,dc".to_owned(), 2)])
        );
        for text in ["plain", "a=b", "http://x/?a=b,c", "20200101", "{odd}x"] {
            assert_eq!(sort(&[text], "dc"), ValueKind::Text, "{text}");
        }
    }
}
