//! A branch: one entry, of which nearly all is known before anything is drawn.

use synth::model::{self, Item, Piece as Said, Tag, Text};

use super::attributes::{Attributes, constant};
use super::dn::Dn;
use super::error::{Located, Result, TemplateError};
use super::files::Lists;
use super::names::canonical;
use super::syntax::{Access, Branch, Piece, ValueLine};
use super::text::{literal_of, random_of};

/// The attributes of the entry: those of its name, then its lines.
pub fn attributes(branch: &Branch, dn: &Dn, lists: &mut Lists) -> Result<Vec<model::Attribute>> {
    let mut making = BranchBuilder { dn, lists, found: Attributes::default() };
    for (attribute, value) in dn.assertions() {
        let item = Item::always(branch.dn.spot, vec![literal_of(&value)]);
        making.found.add(&canonical(&attribute), item);
    }
    for line in &branch.lines {
        making.line(line)?;
    }
    if making.found.get("objectClass").is_none() {
        making.classes(branch);
    }
    Ok(making.found.all)
}

struct BranchBuilder<'a> {
    dn: &'a Dn,
    lists: &'a mut Lists,
    found: Attributes,
}

impl BranchBuilder<'_> {
    /// Object classes where no line tells any, as makeldif's manual promises and its program once did.
    fn classes(&mut self, branch: &Branch) {
        let Ok((lines, _)) = synth::made(self.dn.part(1)) else { return };
        for (attribute, value) in lines {
            let is_class = attribute == "objectClass";
            if is_class || self.found.get(attribute).is_none() {
                let item = Item::always(branch.dn.spot, vec![literal_of(value)]);
                self.found.add(attribute, item);
            }
        }
    }

    fn line(&mut self, line: &ValueLine) -> Result<()> {
        let mut item = Item::always(line.attribute.spot, Text::new());
        for piece in &line.pieces {
            match &piece.value {
                Piece::If { attribute, equals, absent } => {
                    let values = self.known(attribute, piece)?;
                    let is_there = equals.as_ref().is_none_or(|text| values.contains(text));
                    if is_there == *absent {
                        return Ok(());
                    }
                }
                Piece::Presence(percent) => item.chance *= f64::from(*percent) / 100.0,
                _ => self.piece(piece, &mut item.text)?,
            }
        }
        self.found.add(&line.attribute.value, item);
        Ok(())
    }

    fn piece(&mut self, piece: &Located<Piece>, text: &mut Text) -> Result<()> {
        let told = |reason: String| TemplateError::new(piece.spot, reason);
        match &piece.value {
            Piece::Text(literal) => text.push(literal_of(literal)),
            Piece::Attribute { name, characters } => {
                let value = self.known(name, piece)?.swap_remove(0);
                let cut = if *characters == 0 { usize::MAX } else { *characters };
                text.push(literal_of(&value.chars().take(cut).collect::<String>()));
            }
            Piece::Dn { parts, separator } => {
                let dn = self.dn.part(*parts).replace(',', &separator.to_string());
                text.push(literal_of(&dn));
            }
            Piece::Rdn => text.push(literal_of(self.dn.part(1))),
            Piece::Sequential { start } => text.push(literal_of(&start.to_string())),
            Piece::Guid => text.push(Said::Tag(Tag::Uuid)),
            Piece::List(values) => {
                text.push(Said::Tag(Tag::Pick { list: self.lists.weighted(values) }));
            }
            Piece::Random(random) => random_of(random, self.lists, text),
            Piece::File { path, order } => {
                let list = self.lists.file(path).map_err(told)?.0;
                text.push(match order {
                    Access::Random => Said::Tag(Tag::Pick { list }),
                    Access::Sequential => self.first_line(&list),
                });
            }
            Piece::FirstName | Piece::LastName | Piece::ParentDn { .. } => {
                return Err(told("a branch cannot have this tag".to_owned()));
            }
            Piece::If { .. } | Piece::Presence(_) => {}
        }
        Ok(())
    }

    fn first_line(&self, list: &str) -> Said {
        let found = self.lists.found.iter().find(|one| one.name == list);
        Said::Literal(found.map_or_else(Vec::new, |list| list.value(0).to_vec()))
    }

    /// The values of an attribute, at least one; they must not hang on chance.
    fn known(&self, name: &str, piece: &Located<Piece>) -> Result<Vec<String>> {
        let Some(attribute) = self.found.get(name) else {
            let known = self.found.all.iter().map(|one| one.description.as_str());
            let hint = synth::problem::suggestion(name, known);
            let message = format!("no line before this one makes {name}{hint}");
            return Err(TemplateError::new(piece.spot, message));
        };
        let values: Option<Vec<String>> = attribute.items.iter().map(constant).collect();
        values.ok_or_else(|| {
            let message =
                format!("{name} hangs on chance, and what does can be told only once in a branch");
            TemplateError::new(piece.spot, message)
        })
    }
}
