//! What the lines of a template tell of one another. A line can only tell of those before it.

use std::collections::{BTreeSet, HashMap};

use synth::problem::suggestion;

use super::error::{Located, Result, TemplateError};
use super::syntax::{Piece, Template, ValueLine};

#[derive(Debug)]
pub struct Facts<'a> {
    pub template: &'a Template,
    /// Places of the lines of each attribute, in their order.
    of: HashMap<&'a str, Vec<usize>>,
    /// Lines that another one tells of, or that name the entry.
    told: BTreeSet<usize>,
    /// How often one line tells of another.
    pub links: usize,
}

/// Lines that are told of, attributes, and links: what is more than that is no template that somebody wrote.
const MOST: usize = 2_000;
pub const MOST_LINKS: usize = 200_000;

impl<'a> Facts<'a> {
    pub fn new(template: &'a Template) -> Result<Self> {
        let mut facts = Self { template, of: HashMap::new(), told: BTreeSet::new(), links: 0 };
        for (place, line) in template.lines.iter().enumerate() {
            for piece in &line.pieces {
                facts.tell(piece)?;
            }
            facts.of.entry(line.attribute.value.as_str()).or_default().push(place);
            if facts.of.len().max(facts.told.len()) > MOST || facts.links > MOST_LINKS {
                let message = format!("{place} lines tell too much of one another");
                return Err(TemplateError::new(line.attribute.spot, message));
            }
        }
        Ok(facts)
    }

    /// Checks what names the entries; templates that no entry is made by may go without.
    pub fn name_entries(&mut self) -> Result<()> {
        let Located { value, spot } = &self.template.name;
        if self.template.rdn.is_empty() {
            let message = format!("template {value} has no rdnAttr, so its entries have no name");
            return Err(TemplateError::new(*spot, message));
        }
        for name in &self.template.rdn {
            let naming = self.naming(name)?.to_vec();
            self.told.extend(naming);
        }
        Ok(())
    }

    fn tell(&mut self, piece: &Located<Piece>) -> Result<()> {
        let (name, lines) = match &piece.value {
            Piece::Attribute { name, .. } => (name, self.first_of(name, usize::MAX).to_vec()),
            Piece::If { attribute, .. } => (attribute, self.all_of(attribute, usize::MAX).to_vec()),
            _ => return Ok(()),
        };
        if lines.is_empty() {
            let hint = suggestion(name, self.known());
            let message = format!("no line before this one makes {name}{hint}");
            return Err(TemplateError::new(piece.spot, message));
        }
        self.links += lines.len();
        self.told.extend(lines);
        Ok(())
    }

    fn known(&self) -> Vec<&str> {
        let mut known: Vec<&str> = self.of.keys().copied().collect();
        known.sort_unstable();
        known
    }

    /// The lines that may name an entry: those up to the first that is always there.
    fn naming(&self, name: &Located<String>) -> Result<&[usize]> {
        let Located { value, spot } = name;
        let lines = self.first_of(value, usize::MAX);
        let Some(&last) = lines.last() else {
            let hint = suggestion(value, self.known());
            let message = format!("rdnAttr {value}: the template has no line for it{hint}");
            return Err(TemplateError::new(*spot, message));
        };
        if !is_always(&self.template.lines[last]) {
            let message = format!("rdnAttr {value}: an entry without {value} would have no name");
            return Err(TemplateError::new(*spot, message));
        }
        Ok(lines)
    }

    /// Lines of an attribute before a place.
    pub fn all_of(&self, name: &str, before: usize) -> &[usize] {
        let all = self.of.get(name).map(Vec::as_slice).unwrap_or_default();
        &all[..all.partition_point(|&line| line < before)]
    }

    /// The same up to the first that is always there: the first value of the attribute is of one of them.
    pub fn first_of(&self, name: &str, before: usize) -> &[usize] {
        let lines = self.all_of(name, before);
        let always = lines.iter().position(|&line| is_always(&self.template.lines[line]));
        always.map_or(lines, |always| &lines[..=always])
    }

    /// Whether an attribute is there in every entry by then.
    pub fn is_there(&self, name: &str, before: usize) -> bool {
        let last = self.first_of(name, before).last();
        last.is_some_and(|&line| is_always(&self.template.lines[line]))
    }

    /// Whether the entry has its name by then.
    pub fn is_named(&self, before: usize) -> bool {
        self.template.rdn.iter().all(|name| self.is_there(&name.value, before))
    }

    /// The value that holds what a line makes, if others want it.
    pub fn value(&self, line: usize) -> Option<String> {
        self.told.contains(&line).then(|| self.name(line))
    }

    /// The attribute's name for its first line; no name has the sign behind it that others get.
    pub fn name(&self, line: usize) -> String {
        let attribute = &self.template.lines[line].attribute.value;
        match self.all_of(attribute, line).len() {
            0 => attribute.clone(),
            before => format!("{attribute}#{}", before + 1),
        }
    }
}

fn is_always(line: &ValueLine) -> bool {
    !line.pieces.iter().any(|piece| match piece.value {
        Piece::If { .. } => true,
        Piece::Presence(percent) => percent < 100,
        _ => false,
    })
}
