//! The pieces of a line, as the model has them.

use synth::model::{Piece as Said, Tag, Text};

use super::error::{Located, Result, TemplateError};
use super::facts::Facts;
use super::files::Lists;
use super::order::Order;
use super::syntax::{Access, Piece, Random};
use super::tags::{DnOf, MakeldifTag, PersonName};

const DIGITS: &str = "0123456789";
/// Digits that one tag of the model makes.
const MOST_DIGITS: usize = 18;

/// Makes the texts of one kind.
pub struct Texts<'a> {
    pub lists: &'a mut Lists,
    /// Of the entries that have a line, by its place; of lines in which something is counted.
    pub orders: Vec<Option<Order>>,
    /// Of the entries of all kinds.
    pub all: Order,
}

impl Texts<'_> {
    pub fn pieces(&mut self, facts: &Facts<'_>, line: usize) -> Result<Text> {
        let mut text = Text::new();
        for piece in &facts.template.lines[line].pieces {
            match &piece.value {
                Piece::If { .. } | Piece::Presence(_) => {}
                Piece::Text(literal) => text.push(literal_of(literal)),
                Piece::Random(random) => random_of(random, self.lists, &mut text),
                // What has no name yet tells none.
                Piece::Dn { .. } | Piece::Rdn if !facts.is_named(line) => {}
                _ => text.push(Said::Tag(self.tag(facts, line, piece)?)),
            }
        }
        Ok(text)
    }

    fn tag(&mut self, facts: &Facts<'_>, line: usize, piece: &Located<Piece>) -> Result<Tag> {
        Ok(match &piece.value {
            Piece::Attribute { name, characters } => {
                let lines = facts.first_of(name, line);
                let mut names: Vec<String> = lines.iter().map(|&line| facts.name(line)).collect();
                if names.len() == 1 && *characters == 0 {
                    return Ok(Tag::Value { name: names.remove(0) });
                }
                Tag::from(MakeldifTag::Cut { names, characters: *characters })
            }
            Piece::Dn { parts, separator } => path(DnOf::Entry, *parts, *separator),
            Piece::Rdn => path(DnOf::Entry, 1, ','),
            Piece::ParentDn { separator: ',' } => Tag::ParentDn,
            Piece::ParentDn { separator } => path(DnOf::Parent, 0, *separator),
            Piece::FirstName => {
                self.name(false).map_err(|reason| TemplateError::new(piece.spot, reason))?
            }
            Piece::LastName => {
                self.name(true).map_err(|reason| TemplateError::new(piece.spot, reason))?
            }
            Piece::Guid => Tag::Uuid,
            Piece::List(values) => Tag::Pick { list: self.lists.weighted(values) },
            Piece::Sequential { start } => {
                Tag::from(MakeldifTag::Sequence { start: *start, order: self.order(line) })
            }
            Piece::File { path, order } => {
                let list = self
                    .lists
                    .file(path)
                    .map_err(|reason| TemplateError::new(piece.spot, reason))?
                    .0;
                match order {
                    Access::Random => Tag::Pick { list },
                    Access::Sequential => {
                        Tag::from(MakeldifTag::Line { list, order: self.order(line) })
                    }
                }
            }
            Piece::Text(_) | Piece::Random(_) | Piece::If { .. } | Piece::Presence(_) => {
                unreachable!("made in another way")
            }
        })
    }

    fn order(&self, line: usize) -> Order {
        self.orders[line].clone().unwrap_or_else(|| self.all.clone())
    }

    fn name(&mut self, is_last: bool) -> std::result::Result<Tag, String> {
        let (firsts, first_is_ours) = self.lists.file("first.names")?;
        let (lasts, last_is_ours) = self.lists.file("last.names")?;
        let all_again = first_is_ours && last_is_ours;
        let order = self.all.clone();
        Ok(Tag::from(MakeldifTag::Name(PersonName { firsts, lasts, is_last, all_again, order })))
    }
}

pub fn literal_of(text: &str) -> Said {
    Said::Literal(text.as_bytes().to_vec())
}

fn path(whose: DnOf, parts: i32, separator: char) -> Tag {
    let separator = u8::try_from(separator).unwrap_or(b',');
    Tag::from(MakeldifTag::Path { whose, parts, separator })
}

/// Appends what stands for a random tag.
pub fn random_of(random: &Random, lists: &mut Lists, text: &mut Text) {
    let digits = |width| Said::Tag(Tag::Digits(width));
    match random {
        Random::Characters { most: 0, .. } => {}
        Random::Characters { of, least, most }
            if of == DIGITS && least == most && *most <= MOST_DIGITS =>
        {
            text.push(digits(*most));
        }
        Random::Characters { of, least, most } => {
            let own = MakeldifTag::Characters { of: of.clone(), least: *least, most: *most };
            text.push(Said::Tag(Tag::from(own)));
        }
        Random::Number { low, high, format } => {
            let own = MakeldifTag::Number { low: *low, high: *high, format: format.clone() };
            text.push(Said::Tag(Tag::from(own)));
        }
        Random::Month { longest } => {
            text.push(Said::Tag(Tag::Pick { list: lists.months(*longest) }));
        }
        Random::Uuid => text.push(Said::Tag(Tag::Uuid)),
        // A number of North America: area, exchange, subscriber.
        Random::Telephone => text.extend([
            literal_of("+1 "),
            digits(3),
            literal_of(" "),
            digits(3),
            literal_of(" "),
            digits(4),
        ]),
    }
}
