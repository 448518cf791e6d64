//! DNs of the entry and of the one above it, whole or in part.

use crate::tags::DnOf;
use synth::EntryRef;
use synth::tags::{EntryContext, Render, Scope};

#[derive(Debug)]
struct Path {
    whose: DnOf,
    parts: i32,
    separator: u8,
    most: u64,
}

pub fn path(whose: DnOf, parts: i32, separator: u8, scope: &Scope<'_>) -> Box<dyn Render> {
    let most = scope.kind.map_or(scope.parent_dn, |kind| scope.kinds[kind].dn);
    Box::new(Path { whose, parts, separator, most })
}

impl Render for Path {
    fn write(&self, at: &mut EntryContext<'_>, out: &mut Vec<u8>) {
        let place = match self.whose {
            DnOf::Entry => EntryRef::Entry { kind: at.kind, index: at.index },
            DnOf::Parent => at.tree.parent(at.kind, at.index),
        };
        let start = out.len();
        at.names.dn(at.tree, place, out);
        let kept = part(&out[start..], self.parts);
        out.truncate(start + kept.end);
        out.drain(start..start + kept.start);
        if self.separator != b',' {
            out[start..]
                .iter_mut()
                .filter(|byte| **byte == b',')
                .for_each(|byte| *byte = self.separator);
        }
    }

    fn most(&self) -> u64 {
        self.most
    }

    fn is_printable(&self) -> bool {
        false
    }
}

/// Where the first or last RDNs of a DN stand in it.
pub fn part(dn: &[u8], parts: i32) -> std::ops::Range<usize> {
    let wanted = parts.unsigned_abs() as usize;
    let commas: Vec<usize> = (0..dn.len()).filter(|&at| is_separator(dn, at)).collect();
    if wanted == 0 || wanted > commas.len() {
        0..dn.len()
    } else if parts > 0 {
        0..commas[wanted - 1]
    } else {
        commas[commas.len() - wanted] + 1..dn.len()
    }
}

fn is_separator(dn: &[u8], at: usize) -> bool {
    let escapes = dn[..at].iter().rev().take_while(|&&byte| byte == b'\\').count();
    dn[at] == b',' && escapes % 2 == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rdns_are_counted_from_either_end() {
        let dn = r"cn=a\,b,ou=c,dc=d";
        for (parts, expected) in [
            (0, dn),
            (1, r"cn=a\,b"),
            (2, r"cn=a\,b,ou=c"),
            (3, dn),
            (9, dn),
            (-1, "dc=d"),
            (-2, "ou=c,dc=d"),
            (-3, dn),
        ] {
            assert_eq!(&dn[part(dn.as_bytes(), parts)], expected, "{parts}");
        }
    }
}
