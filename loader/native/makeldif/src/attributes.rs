//! The attributes of an entry on their way: in the order of their first lines, and each value once.

use std::collections::{HashMap, HashSet};

use synth::model::{Attribute, Item, Piece};
use synth::problem::Location;

#[derive(Debug, Default)]
pub struct Attributes {
    pub all: Vec<Attribute>,
    places: HashMap<String, usize>,
    /// Values that are always there, in lower case, with the place of their attribute.
    constants: HashSet<(usize, String)>,
}

impl Attributes {
    pub fn get(&self, description: &str) -> Option<&Attribute> {
        self.places.get(description).map(|&place| &self.all[place])
    }

    /// The place of that attribute, which is made where there is none yet.
    pub fn place(&mut self, description: &str, spot: Location) -> usize {
        if let Some(&place) = self.places.get(description) {
            return place;
        }
        let description = description.to_owned();
        self.places.insert(description.clone(), self.all.len());
        self.all.push(Attribute { spot, description, items: Vec::new() });
        self.all.len() - 1
    }

    /// One more value, unless it is always there already. Case does not count, as when entries are made.
    pub fn add(&mut self, description: &str, item: Item) {
        let place = self.place(description, item.spot);
        if let Some(text) = literal(&item.text) {
            let value = (place, text.to_lowercase());
            if self.constants.contains(&value) {
                return;
            }
            if is_always(&item) {
                self.constants.insert(value);
            }
        }
        self.all[place].items.push(item);
    }
}

/// The value of an item that is the same in every entry.
pub fn constant(item: &Item) -> Option<String> {
    literal(&item.text).filter(|_| is_always(item))
}

fn is_always(item: &Item) -> bool {
    item.chance >= 1.0 && item.conditions.is_empty()
}

fn literal(text: &[Piece]) -> Option<String> {
    let pieces = text.iter().map(|piece| match piece {
        Piece::Literal(bytes) => Some(String::from_utf8_lossy(bytes)),
        Piece::Tag(_) => None,
    });
    pieces.collect()
}
