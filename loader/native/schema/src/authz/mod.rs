//! Authorization rules: values of `authzTo` and `authzFrom` (`authzPrettyNormal` in
//! `servers/slapd/saslauthz.c`; slapd.conf(5), `authz-policy`).

mod filter;
mod url;

use crate::dn::DnForm;
use crate::{InvalidValue, Schema, refuse};

/// slapd copies `u:` rules into a buffer of this size.
const LONGEST_USER: usize = 8192;

/// Which DNs a rule speaks of, as it is written, and in the form that slapd keeps.
const SCOPES: [(&[u8], &[u8]); 4] = [
    (b"exact:", b"dn:"),
    (b"children:", b"dn.children:"),
    (b"subtree:", b"dn.subtree:"),
    (b"onelevel:", b"dn.onelevel:"),
];

/// What follows `head`, whatever the case of its letters.
fn after<'a>(text: &'a [u8], head: &[u8]) -> Option<&'a [u8]> {
    let (start, rest) = text.split_at_checked(head.len())?;
    start.eq_ignore_ascii_case(head).then_some(rest)
}

impl Schema {
    /// Appends a rule in one form. slapd writes DNs, names of classes and attributes, and filters
    /// anew, and leaves patterns and user names as they are.
    pub(crate) fn rewrite_authz(
        &self,
        value: &[u8],
        form: DnForm,
        depth: u32,
        out: &mut Vec<u8>,
    ) -> Result<(), InvalidValue> {
        if let Some(rest) = after(value, b"dn") {
            return self.dn_rule(rest, form, depth, out);
        }
        match value {
            [b'u' | b'U', b':' | b'/' | b'.', ..] => user_rule(value, out),
            _ => match after(value, b"group") {
                Some(rest) if rest.contains(&b':') => self.group_rule(rest, form, depth, out),
                Some(_) => self.exact(value, form, depth, out),
                None => match url::parse(value)? {
                    Some(url) => self.url_rule(&url, form, depth, out),
                    None => self.exact(value, form, depth, out),
                },
            },
        }
    }

    /// `dn:DN`, `dn.SCOPE:DN`, `dn.regex:PATTERN`, from behind the `dn`.
    fn dn_rule(
        &self,
        rest: &[u8],
        form: DnForm,
        depth: u32,
        out: &mut Vec<u8>,
    ) -> Result<(), InvalidValue> {
        let Some(scoped) = rest.strip_prefix(b".") else {
            let Some(dn) = rest.strip_prefix(b":") else {
                return refuse("a rule that begins with \"dn\" goes on with \":\" or \".\"");
            };
            return self.exact(skip_spaces(dn), form, depth, out);
        };
        if let Some(pattern) = after(scoped, b"regex:") {
            let pattern = skip_spaces(pattern);
            let prefix: &[u8] = if pattern == b"*" { b"dn:" } else { b"dn.regex:" };
            out.extend([prefix, pattern].concat());
            return Ok(());
        }
        let found = SCOPES.iter().find_map(|(name, kept)| Some((after(scoped, name)?, *kept)));
        let Some((dn, prefix)) = found else { return refuse("an unknown scope after \"dn.\"") };
        self.scoped(prefix, skip_spaces(dn), form, depth, out)
    }

    fn exact(
        &self,
        dn: &[u8],
        form: DnForm,
        depth: u32,
        out: &mut Vec<u8>,
    ) -> Result<(), InvalidValue> {
        self.scoped(b"dn:", dn, form, depth, out)
    }

    /// A single star means any DN, whatever the scope.
    fn scoped(
        &self,
        prefix: &[u8],
        dn: &[u8],
        form: DnForm,
        depth: u32,
        out: &mut Vec<u8>,
    ) -> Result<(), InvalidValue> {
        if dn == b"*" {
            out.extend_from_slice(b"dn:*");
            return Ok(());
        }
        out.extend_from_slice(prefix);
        self.rewrite_dn(dn, form, depth, out)
    }

    /// `group[/CLASS[/ATTRIBUTE]]:DN`, from behind the `group`.
    fn group_rule(
        &self,
        rest: &[u8],
        form: DnForm,
        depth: u32,
        out: &mut Vec<u8>,
    ) -> Result<(), InvalidValue> {
        let colon = rest.iter().position(|&byte| byte == b':').unwrap_or(rest.len());
        out.extend_from_slice(b"group");
        if let Some(kinds) = rest[..colon].strip_prefix(b"/") {
            self.push_kinds(kinds, out)?;
        }
        out.push(b':');
        self.rewrite_dn(&rest[colon + 1..], form, depth, out)
    }

    /// `CLASS[/ATTRIBUTE]` with a slash before each, by their canonical names.
    pub(crate) fn push_kinds(&self, kinds: &[u8], out: &mut Vec<u8>) -> Result<(), InvalidValue> {
        let mut parts = kinds.splitn(2, |&byte| byte == b'/');
        let Some(class) = self.class(parts.next().unwrap_or_default()) else {
            return refuse("an unknown object class");
        };
        out.push(b'/');
        out.extend_from_slice(self.object_class(class).name.as_bytes());
        if let Some(member) = parts.next() {
            out.push(b'/');
            out.extend_from_slice(self.describe(member)?.text.as_bytes());
        }
        Ok(())
    }

    /// `ldap:///BASE??SCOPE?FILTER`
    fn url_rule(
        &self,
        url: &url::Url,
        form: DnForm,
        depth: u32,
        out: &mut Vec<u8>,
    ) -> Result<(), InvalidValue> {
        let mut dn = Vec::new();
        self.rewrite_dn(&url.base, form, depth, &mut dn)?;
        let filter = url.filter.as_deref().map(|text| self.normal_filter(text)).transpose()?;
        url::write(&dn, url.scope, filter.as_deref(), out);
        Ok(())
    }
}

fn skip_spaces(text: &[u8]) -> &[u8] {
    &text[text.iter().take_while(|&&byte| byte == b' ').count()..]
}

/// `u[.MECHANISM[/REALM]]:USER`, kept as it is.
fn user_rule(value: &[u8], out: &mut Vec<u8>) -> Result<(), InvalidValue> {
    if value.len() >= LONGEST_USER || !value.contains(&b':') || value[1] == b'/' {
        return refuse("not of the form u[.mechanism[/realm]]:user");
    }
    out.extend_from_slice(value);
    Ok(())
}
