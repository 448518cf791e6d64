//! The lines of a template as values and attributes of a kind.
//!
//! makeldif makes one line after another, and a line may tell what those before it made. So what another line wants
//! becomes a value, which is drawn once an entry, and its attribute takes it from there.

use crate::model::{self, Condition, Item, Named, Piece as Said, Tag};
use crate::problem::Spot;

use super::facts::Facts;
use super::own::Own;
use super::syntax::{Piece, ValueLine};
use super::text::{Texts, add};
use super::wrong::Result;

/// What the entries of one kind are made of.
#[derive(Debug, Default)]
pub struct Made {
    pub values: Vec<Named>,
    pub attributes: Vec<model::Attribute>,
}

pub fn make(facts: &Facts<'_>, texts: &mut Texts<'_>) -> Result<Made> {
    let mut making = Making { facts, made: Made::default() };
    for (place, line) in facts.template.lines.iter().enumerate() {
        let text = texts.pieces(facts, place)?;
        making.line(place, line, text);
    }
    for name in &facts.template.rdn {
        making.name_by(&name.value, name.spot);
    }
    Ok(making.made)
}

struct Making<'a> {
    facts: &'a Facts<'a>,
    made: Made,
}

impl Making<'_> {
    fn line(&mut self, place: usize, line: &ValueLine, text: model::Text) {
        let spot = line.attribute.spot;
        let Some(conditions) = self.conditions(place, line) else { return };
        let chance = line.pieces.iter().fold(1.0, |chance, piece| match piece.value {
            Piece::Presence(percent) => chance * f64::from(percent) / 100.0,
            _ => chance,
        });
        let is_always = chance >= 1.0 && conditions.is_empty();
        let mut item = Item { spot, text, chance, conditions, count: None };
        if let Some(name) = self.facts.value(place) {
            let told = Item::always(spot, value(&name));
            let there = Condition { name: name.clone(), equals: None, unless: false };
            self.made.values.push(Named { name, item });
            item = Item { conditions: if is_always { Vec::new() } else { vec![there] }, ..told };
        }
        add(self.attribute(&line.attribute.value, spot), item);
    }

    /// The attribute of that name, which stands where its first line does.
    fn attribute(&mut self, description: &str, spot: Spot) -> &mut model::Attribute {
        let all = &mut self.made.attributes;
        let known = all.iter().position(|one| one.description == description);
        let place = known.unwrap_or_else(|| {
            all.push(model::Attribute {
                spot,
                description: description.to_owned(),
                items: Vec::new(),
            });
            all.len() - 1
        });
        &mut all[place]
    }

    /// None when they never hold.
    fn conditions(&mut self, place: usize, line: &ValueLine) -> Option<Vec<Condition>> {
        let mut all = Vec::new();
        for piece in &line.pieces {
            if let Piece::If { attribute, equals, absent } = &piece.value {
                let is_there = equals.is_none() && self.facts.is_there(attribute, place);
                match (is_there, absent) {
                    (true, true) => return None,
                    (true, false) => {}
                    (false, _) => {
                        all.extend(self.condition(place, attribute, equals.as_deref(), *absent));
                    }
                }
            }
        }
        Some(all)
    }

    fn condition(
        &mut self,
        place: usize,
        attribute: &str,
        equals: Option<&str>,
        absent: bool,
    ) -> Vec<Condition> {
        let lines = self.facts.all_of(attribute, place);
        let equals = equals.map(|text| text.as_bytes().to_vec());
        let of = |line: &usize, unless| Condition {
            name: self.facts.name(*line),
            equals: equals.clone(),
            unless,
        };
        match lines.as_slice() {
            [line] if !absent => vec![of(line, false)],
            lines if absent => lines.iter().map(|line| of(line, true)).collect(),
            lines => {
                // All of the conditions of an item must hold. One of several: not none of them.
                let none = lines.iter().map(|line| of(line, true)).collect();
                let name = format!("none#{}", self.made.values.len());
                let item = Item { conditions: none, ..Item::always(Spot::default(), Vec::new()) };
                self.made.values.push(Named { name: name.clone(), item });
                vec![Condition { name, equals: None, unless: true }]
            }
        }
    }

    /// Puts the value that names the entry first among those of its attribute.
    fn name_by(&mut self, attribute: &str, spot: Spot) {
        let lines = self.facts.first_of(attribute, usize::MAX);
        if lines.len() < 2 {
            return;
        }
        let name = format!("{attribute}#rdn");
        let names = lines.iter().map(|&line| self.facts.name(line)).collect();
        let first = Said::Tag(Tag::Makeldif(Own::Cut { names, characters: 0 }));
        self.made.values.push(Named { name: name.clone(), item: Item::always(spot, vec![first]) });
        self.attribute(attribute, spot).items.insert(0, Item::always(spot, value(&name)));
    }
}

fn value(name: &str) -> model::Text {
    vec![Said::Tag(Tag::Value { name: name.to_owned() })]
}
