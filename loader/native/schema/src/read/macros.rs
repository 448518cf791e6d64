//! OID macros (`olcObjectIdentifier`): `name oid` or `name other:suffix`.

use crate::Problem;
use crate::names::Names;

/// The macros in force, expanded.
#[derive(Debug, Default)]
pub struct Macros {
    names: Names,
    oids: Vec<String>,
}

impl Macros {
    pub fn define(&mut self, text: &str) -> Result<(), Problem> {
        let mut words = text.split_ascii_whitespace();
        let (Some(name), Some(oid), None) = (words.next(), words.next(), words.next()) else {
            return Err(Problem::of(text, "an OID macro is a name and an OID"));
        };
        let oid = self.expand(oid).ok_or_else(|| Problem::of(text, "unknown OID macro"))?;
        let id =
            u32::try_from(self.oids.len()).map_err(|_| Problem::of(text, "too many macros"))?;
        match self.names.find(name.as_bytes()) {
            Some(known) if self.oids[known as usize] == oid => return Ok(()),
            Some(_) => return Err(Problem::of(text, "the OID macro has another meaning already")),
            None => self.names.insert(name, id),
        };
        self.oids.push(oid);
        Ok(())
    }

    /// The dotted form of `oid`, which begins with a digit or with a macro (`name` or `name:suffix`).
    pub fn expand(&self, oid: &str) -> Option<String> {
        if oid.starts_with(|first: char| first.is_ascii_digit()) {
            return Some(oid.to_owned());
        }
        let (name, suffix) = oid.split_once(':').unwrap_or((oid, ""));
        let base = &self.oids[self.names.find(name.as_bytes())? as usize];
        Some(if suffix.is_empty() { base.clone() } else { format!("{base}.{suffix}") })
    }
}
