//! The lines of a template as values and attributes of a kind.
//!
//! makeldif makes one line after another, and a line may tell what those before it made. So what another line wants
//! becomes a value, which is drawn once an entry, and its attribute takes it from there.

use synth::model::{self, Condition, Item, Named, Piece as Said, Tag};
use synth::problem::Location;

use super::attributes::Attributes;
use super::error::Result;
use super::facts::Facts;
use super::syntax::{Piece, ValueLine};
use super::tags::MakeldifTag;
use super::text::Texts;

/// What the entries of one kind are made of.
#[derive(Debug, Default)]
pub struct EntryTemplate {
    pub values: Vec<Named>,
    pub attributes: Vec<model::Attribute>,
}

pub fn make(facts: &Facts<'_>, texts: &mut Texts<'_>) -> Result<EntryTemplate> {
    let mut making = EntryBuilder { facts, values: Vec::new(), attributes: Attributes::default() };
    for (place, line) in facts.template.lines.iter().enumerate() {
        let text = texts.pieces(facts, place)?;
        making.line(place, line, text);
    }
    for name in &facts.template.rdn {
        making.name_by(&name.value, name.spot);
    }
    Ok(EntryTemplate { values: making.values, attributes: making.attributes.all })
}

struct EntryBuilder<'a> {
    facts: &'a Facts<'a>,
    values: Vec<Named>,
    attributes: Attributes,
}

impl EntryBuilder<'_> {
    fn line(&mut self, place: usize, line: &ValueLine, text: model::Text) {
        let (spot, description) = (line.attribute.spot, &line.attribute.value);
        let item = self.item(place, line, text);
        let is_always = item.chance >= 1.0 && item.conditions.is_empty();
        let Some(name) = self.facts.value(place) else {
            if item.chance > 0.0 {
                self.attributes.add(description, item);
            }
            return;
        };
        let there = Condition { name: name.clone(), equals: None, unless: false };
        let told = Item::always(spot, value(&name));
        self.values.push(Named { name, item });
        let conditions = if is_always { Vec::new() } else { vec![there] };
        self.attributes.add(description, Item { conditions, ..told });
    }

    fn item(&mut self, place: usize, line: &ValueLine, text: model::Text) -> Item {
        let spot = line.attribute.spot;
        let Some(conditions) = self.conditions(place, line) else {
            return Item { chance: 0.0, ..Item::always(spot, text) };
        };
        let chance = line.pieces.iter().fold(1.0, |chance, piece| match piece.value {
            Piece::Presence(percent) => chance * f64::from(percent) / 100.0,
            _ => chance,
        });
        Item { chance, conditions, ..Item::always(spot, text) }
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
        match lines {
            [line] if !absent => vec![of(line, false)],
            lines if absent => lines.iter().map(|line| of(line, true)).collect(),
            lines => {
                // All of the conditions of an item must hold. One of several: not none of them.
                let none = lines.iter().map(|line| of(line, true)).collect();
                let name = format!("none#{}", self.values.len());
                let item =
                    Item { conditions: none, ..Item::always(Location::default(), Vec::new()) };
                self.values.push(Named { name: name.clone(), item });
                vec![Condition { name, equals: None, unless: true }]
            }
        }
    }

    /// Puts the value that names the entry first among those of its attribute.
    fn name_by(&mut self, attribute: &str, spot: Location) {
        let lines = self.facts.first_of(attribute, usize::MAX);
        if lines.len() < 2 {
            return;
        }
        let name = format!("{attribute}#rdn");
        let names = lines.iter().map(|&line| self.facts.name(line)).collect();
        let first = Said::Tag(Tag::from(MakeldifTag::Cut { names, characters: 0 }));
        self.values.push(Named { name: name.clone(), item: Item::always(spot, vec![first]) });
        let place = self.attributes.place(attribute, spot);
        self.attributes.all[place].items.insert(0, Item::always(spot, value(&name)));
    }
}

fn value(name: &str) -> model::Text {
    vec![Said::Tag(Tag::Value { name: name.to_owned() })]
}
