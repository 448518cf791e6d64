//! Access control items: values of `OpenLDAPaci` (`OpenLDAPaciPrettyNormal` in
//! `servers/slapd/aci.c`): `OID#SCOPE#RIGHTS#TYPE#SUBJECT`.

use crate::dn::DnForm;
use crate::normalise::is_oid;
use crate::{InvalidValue, Schema, refuse};

const SCOPES: [&str; 3] = ["entry", "children", "subtree"];
const GRANTS: [&str; 2] = ["grant", "deny"];
/// Types whose subject is a DN, with a class and an attribute that may follow.
const GROUPS: [&str; 2] = ["group", "role"];
/// Those that have nothing but a DN.
const NAMES: [&str; 4] = ["access-id", "subtree", "onelevel", "children"];
/// Those whose subject is dropped.
const SUBJECTLESS: [&str; 3] = ["public", "users", "self"];
const SETS: [&str; 2] = ["set", "set-ref"];
const ALL: &[u8] = b"[all]";
/// Pseudo attributes as OpenLDAP 2.1 wrote them.
const OLD: [(&[u8], &[u8]); 2] = [(b"[entry]", b"entry"), (b"[children]", b"children")];

/// The word as `words` spell it, whatever its case here.
fn canonical(word: &[u8], words: &[&'static str]) -> Option<&'static str> {
    words.iter().copied().find(|known| known.as_bytes().eq_ignore_ascii_case(word))
}

/// The parts between separators, without the spaces around them (`acl_get_part`).
fn parts(text: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    text.split(move |&byte| byte == separator).map(trim)
}

fn trim(mut text: &[u8]) -> &[u8] {
    while let [b' ', rest @ ..] | [rest @ .., b' '] = text {
        text = rest;
    }
    text
}

impl Schema {
    /// Appends an item in one form; the two differ in the DN of the subject alone.
    pub(crate) fn rewrite_aci(
        &self,
        value: &[u8],
        form: DnForm,
        depth: u32,
        out: &mut Vec<u8>,
    ) -> Result<(), InvalidValue> {
        let fields: Vec<&[u8]> = value.splitn(5, |&byte| byte == b'#').collect();
        let &[oid, scope, rights, kind, subject] = fields.as_slice() else {
            return refuse("not of the form OID#scope#rights#type#subject");
        };
        let (oid, scope, rights) = (trim(oid), trim(scope), trim(rights));
        let Some(scope) = canonical(scope, &SCOPES).filter(|_| is_oid(oid)) else {
            return refuse("an access control item without OID or scope");
        };
        if kind.ends_with(b" ") {
            return refuse("an access control item with spaces behind its type");
        }
        let kind = trim(kind);
        out.extend([oid, b"#", scope.as_bytes(), b"#"].concat());
        for (number, right) in parts(rights, b'$').enumerate() {
            if number > 0 {
                out.push(b'$');
            }
            self.right(right, out)?;
        }
        out.push(b'#');
        self.subject(kind, subject, form, depth, out)
    }

    /// `grant;PERMISSIONS;ATTRIBUTES[;...]`
    fn right(&self, right: &[u8], out: &mut Vec<u8>) -> Result<(), InvalidValue> {
        let mut fields = parts(right, b';');
        let Some(action) = fields.next().and_then(|word| canonical(word, &GRANTS)) else {
            return refuse("a right that is neither granted nor denied");
        };
        out.extend_from_slice(action.as_bytes());
        let fields: Vec<&[u8]> = fields.collect();
        if fields.is_empty() || fields.len() % 2 == 1 {
            return refuse("permissions and attributes do not stand in pairs");
        }
        for pair in fields.chunks_exact(2) {
            if !are_permissions(pair[0]) {
                return refuse("an unknown permission");
            }
            out.extend([b";", pair[0], b";"].concat());
            self.targets(pair[1], out)?;
        }
        Ok(())
    }

    /// Attributes by their canonical names, without the values that may follow; `[all]` hides the others.
    fn targets(&self, list: &[u8], out: &mut Vec<u8>) -> Result<(), InvalidValue> {
        let start = out.len();
        for attribute in parts(list, b',') {
            if attribute.eq_ignore_ascii_case(ALL) {
                out.truncate(start);
                out.extend_from_slice(ALL);
                return Ok(());
            }
            if out.len() > start {
                out.push(b',');
            }
            let old = OLD.iter().find(|(old, _)| attribute.eq_ignore_ascii_case(old));
            match (old, attribute.split(|&byte| byte == b'=').next()) {
                (Some((_, name)), _) => out.extend_from_slice(name),
                (None, name) => {
                    let named = self.describe(trim(name.unwrap_or_default()))?;
                    out.extend_from_slice(named.text.as_bytes());
                }
            }
        }
        Ok(())
    }

    fn subject(
        &self,
        kind: &[u8],
        subject: &[u8],
        form: DnForm,
        depth: u32,
        out: &mut Vec<u8>,
    ) -> Result<(), InvalidValue> {
        let (name, kinds) = match kind.iter().position(|&byte| byte == b'/') {
            Some(at) => (trim(&kind[..at]), Some(&kind[at + 1..])),
            None => (kind, None),
        };
        if let Some(name) = canonical(name, &GROUPS) {
            out.extend_from_slice(name.as_bytes());
            kinds.map(|kinds| self.push_kinds(kinds, out)).transpose()?;
            out.push(b'#');
            return self.rewrite_dn(subject, form, depth, out);
        }
        if kinds.is_some() {
            return refuse("a type that takes no class");
        }
        let mut push = |name: &str, rest: &[u8]| out.extend([name.as_bytes(), b"#", rest].concat());
        if let Some(name) = canonical(name, &NAMES) {
            push(name, b"");
            self.rewrite_dn(subject, form, depth, out)?;
        } else if let Some(name) = canonical(name, &SUBJECTLESS) {
            push(name, b"");
        } else if let Some(name) = canonical(name, &SETS) {
            push(name, subject);
        } else if name.eq_ignore_ascii_case(b"dnattr") {
            push("dnattr", self.dn_attribute(subject)?.as_bytes());
        } else {
            return refuse("an unknown type of subject");
        }
        Ok(())
    }

    /// The canonical name of an attribute whose values are DNs.
    fn dn_attribute(&self, name: &[u8]) -> Result<String, InvalidValue> {
        const DN_SYNTAX: &str = "1.3.6.1.4.1.1466.115.121.1.12";
        let described = self.describe(name)?;
        if self.get(described.attribute).syntax_oid != DN_SYNTAX {
            return refuse("the attribute of dnattr does not hold DNs");
        }
        Ok(described.text)
    }
}

/// Letters between commas, with spaces around those; a comma may stand at the end.
fn are_permissions(text: &[u8]) -> bool {
    let known = |letter: &[u8]| matches!(letter, [b'x' | b'd' | b'c' | b's' | b'r' | b'w']);
    let listed = text.strip_suffix(b",").filter(|rest| !rest.is_empty()).unwrap_or(text);
    listed.is_empty() || listed.split(|&byte| byte == b',').map(trim).all(known)
}
