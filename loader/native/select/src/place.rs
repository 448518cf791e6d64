//! Decides whether entries are in the scope of the search, and maps their DNs to the consumer.

use common::Scope;
use rustc_hash::FxHashMap;
use schema::{Result, Schema};
use tree::name::is_within;
use values::InvalidValue;

/// The search base at the provider, and the DN that replaces it at the consumer (`suffixmassage`).
pub struct Suffixes {
    base: Vec<u8>,
    pub(crate) scope: Scope,
    massaged: Option<Vec<u8>>,
}

/// The DN of an entry at the consumer: in normal form, and as text.
pub struct ConsumerDn {
    pub normal: Vec<u8>,
    pub dn: Vec<u8>,
}

/// Maximum number of cached parent DNs. Beyond that, the cache is emptied.
const PARENTS: usize = 4096;

/// Characters that are special in `libraries/librewrite`, which implements suffixmassage in slapd.
const SPECIAL: &[u8] = b"*+?()[]{}|^$\\%";

impl Suffixes {
    pub fn read(base: &str, scope: Scope, massage: Option<&str>, schema: &Schema) -> Result<Self> {
        let normal = |text: &str| schema.dn(text.as_bytes()).map(|dn| dn.normal());
        let (base, massaged) = (normal(base)?, massage.map(normal).transpose()?);
        let special = |text: &[u8]| text.is_empty() || text.iter().any(|byte| SPECIAL.contains(byte));
        if massaged.as_ref().is_some_and(|massaged| special(&base) || special(massaged)) {
            return Err(InvalidValue("suffixmassage with an empty suffix, or with one of *+?()[]{}|^$\\%".into()));
        }
        Ok(Self { base, scope, massaged })
    }

    fn covers(&self, normal: &[u8]) -> bool {
        let is_base = normal == self.base;
        match self.scope {
            Scope::Base => is_base,
            Scope::One => !is_base && parent(normal) == self.base,
            Scope::Subtree => is_within(normal, &self.base),
            Scope::Children => !is_base && is_within(normal, &self.base),
        }
    }

    pub fn has_suffixmassage(&self) -> bool {
        self.massaged.is_some()
    }

    /// Returns the DN at the consumer, in the form of `dn`. A DN that does not end in the base is unchanged. In slapd,
    /// the base is a regular expression that ignores case, and in which a dot matches any character.
    pub fn rewrite_suffix<'a>(&self, dn: &'a [u8]) -> std::borrow::Cow<'a, [u8]> {
        let same = |(own, base): (&u8, &u8)| *base == b'.' || own.eq_ignore_ascii_case(base);
        match (&self.massaged, dn.len().checked_sub(self.base.len())) {
            (Some(massaged), Some(at)) if dn[at..].iter().zip(&self.base).all(same) => {
                [&dn[..at], massaged].concat().into()
            }
            _ => dn.into(),
        }
    }
}

/// Returns the parent of a normalized DN, in which commas in values are escaped as hexadecimal digits.
pub fn parent(normal: &[u8]) -> &[u8] {
    normal.iter().position(|&byte| byte == b',').map_or(b"", |comma| &normal[comma + 1..])
}

/// Normalizes DNs, and caches their parents, because consecutive entries often have the same parent.
pub struct DnNormaliser<'a> {
    schema: &'a Schema,
    known: FxHashMap<Box<[u8]>, Vec<u8>>,
}

impl<'a> DnNormaliser<'a> {
    pub fn new(schema: &'a Schema) -> Self {
        Self { schema, known: FxHashMap::default() }
    }

    pub fn normal(&mut self, text: &[u8]) -> Result<Vec<u8>> {
        let (leaf, above) = schema::split_leaf(text).unwrap_or((text, b""));
        if above.is_empty() {
            return self.schema.dn(text).map(|dn| dn.normal());
        }
        let mut normal = self.schema.rdn(leaf)?.normal;
        normal.push(b',');
        if let Some(known) = self.known.get(above) {
            normal.extend_from_slice(known);
            return Ok(normal);
        }
        let parent = self.schema.dn(above)?.normal();
        normal.extend_from_slice(&parent);
        if self.known.len() >= PARENTS {
            self.known.clear();
        }
        self.known.insert(above.into(), parent);
        Ok(normal)
    }

    /// Returns the entry's DN at the consumer, or `None` if the entry is out of scope.
    pub fn place(&mut self, suffixes: &Suffixes, text: &[u8]) -> Result<Option<ConsumerDn>> {
        let normal = self.normal(text)?;
        if !suffixes.covers(&normal) {
            return Ok(None);
        }
        if !suffixes.has_suffixmassage() {
            return Ok(Some(ConsumerDn { normal, dn: text.to_vec() }));
        }
        let pretty = self.schema.dn(text)?.pretty();
        let dn = suffixes.rewrite_suffix(&pretty).into_owned();
        Ok(Some(ConsumerDn { normal: suffixes.rewrite_suffix(&normal).into_owned(), dn }))
    }
}
