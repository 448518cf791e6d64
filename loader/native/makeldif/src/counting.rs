//! The order of entries as far as each line counts them, made once for all lines that the same templates have.

use std::collections::HashMap;
use std::sync::Arc;

use synth::problem::Location;

use super::error::{Result, TemplateError};
use super::expand::Uses;
use super::order::Order;
use super::syntax::{Access, File, Piece, Template, ValueLine};

#[derive(Debug)]
pub struct Counting<'a> {
    uses: &'a Uses,
    /// The templates that have a line, by where the line is kept.
    holders: HashMap<*const ValueLine, Vec<usize>>,
    made: HashMap<Vec<usize>, Vec<Order>>,
    /// Of the entries of all templates.
    pub all: Vec<Order>,
}

impl<'a> Counting<'a> {
    pub fn new(file: &File, uses: &'a Uses) -> Result<Self> {
        let mut holders: HashMap<*const ValueLine, Vec<usize>> = HashMap::new();
        for (place, template) in file.templates.iter().enumerate() {
            for line in template.lines.iter().filter(|line| counts(line)) {
                holders.entry(Arc::as_ptr(line)).or_default().push(place);
            }
        }
        let spot = file.branches.first().map(|branch| branch.dn.spot).unwrap_or_default();
        let all = uses.orders(|_| true).ok_or_else(|| too_many(spot))?;
        Ok(Self { uses, holders, made: HashMap::new(), all })
    }

    /// By the places of a template's lines, for one of its uses.
    pub fn orders(&mut self, template: &Template, place: usize) -> Result<Vec<Option<Order>>> {
        let mut found = Vec::new();
        for line in &template.lines {
            let holders = self.holders.get(&Arc::as_ptr(line)).cloned();
            found.push(match holders {
                Some(holders) => Some(self.of(&holders, line.attribute.spot)?[place].clone()),
                None => None,
            });
        }
        Ok(found)
    }

    fn of(&mut self, holders: &[usize], spot: Location) -> Result<&[Order]> {
        if !self.made.contains_key(holders) {
            let orders = self.uses.orders(|template| holders.contains(&template));
            self.made.insert(holders.to_vec(), orders.ok_or_else(|| too_many(spot))?);
        }
        Ok(&self.made[holders])
    }
}

fn counts(line: &ValueLine) -> bool {
    line.pieces.iter().any(|piece| {
        matches!(
            piece.value,
            Piece::Sequential { .. } | Piece::File { order: Access::Sequential, .. }
        )
    })
}

fn too_many(spot: Location) -> TemplateError {
    TemplateError::new(spot, "these are more entries than can be counted")
}
