//! Branches and kinds of a file: where entries stand, how many there are, and in which order they are counted.

use std::collections::HashMap;
use std::sync::Arc;

use crate::model::{self, Count, Kind, Parent, Pick};
use crate::problem::Spot;

use super::branch;
use super::dn::Dn;
use super::entry::make as make_entry;
use super::expand::{Above, Uses, expand};
use super::facts::Facts;
use super::files::Lists;
use super::order::Order;
use super::syntax::{Access, File, Piece, Template, ValueLine};
use super::text::Texts;
use super::wrong::{Result, Wrong};

#[derive(Debug)]
pub struct Made {
    pub suffix: String,
    pub branches: Vec<model::Branch>,
    pub kinds: Vec<Kind>,
}

pub fn make(file: &File, lists: &mut Lists) -> Result<Made> {
    let Some(first) = file.branches.first() else {
        return Err(Wrong::new(
            Spot::new(1, 1),
            "a template needs a branch: for its entries to lie below",
        ));
    };
    let suffix = parsed(first)?;
    let mut branches = Vec::new();
    for one in &file.branches {
        branches.push(branch_of(one, &suffix, lists)?);
    }
    let uses = expand(file)?;
    let mut facts: Vec<Facts<'_>> = file.templates.iter().map(Facts::new).collect::<Result<_>>()?;
    for one in &uses.all {
        facts[one.template].name_entries()?;
    }
    let mut counting = Counting::new(file, &uses)?;
    let names = names(file, &uses);
    let mut kinds = Vec::new();
    for place in 0..uses.all.len() {
        let facts = &facts[uses.all[place].template];
        let mut texts = Texts {
            lists,
            orders: counting.orders(facts.template, place)?,
            all: counting.all[place].clone(),
        };
        let made = make_entry(facts, &mut texts)?;
        kinds.push(Kind {
            spot: facts.template.name.spot,
            name: names[place].clone(),
            count: count(&uses, place),
            parent: parent(&uses, place, &names),
            rdn: facts.template.rdn.iter().map(|name| name.value.clone()).collect(),
            may_collide: true,
            structural: None,
            values: made.values,
            attributes: made.attributes,
        });
    }
    Ok(Made { suffix: suffix.text, branches, kinds })
}

fn parsed(branch: &super::syntax::Branch) -> Result<Dn> {
    Dn::parse(&branch.dn.value).map_err(|reason| Wrong::new(branch.dn.spot, reason))
}

fn branch_of(
    said: &super::syntax::Branch,
    suffix: &Dn,
    lists: &mut Lists,
) -> Result<model::Branch> {
    let dn = parsed(said)?;
    let attributes = branch::attributes(said, &dn, lists)?;
    let spot = said.dn.spot;
    if dn.below(&dn).is_none() && dn.text == suffix.text {
        return Ok(model::Branch { spot, dn: String::new(), below_suffix: true, attributes });
    }
    Ok(match dn.below(suffix) {
        Some(below) => model::Branch { spot, dn: below.to_owned(), below_suffix: true, attributes },
        None => model::Branch { spot, dn: dn.text, below_suffix: false, attributes },
    })
}

fn count(uses: &Uses, place: usize) -> Count {
    let one = &uses.all[place];
    match (one.count, one.parent) {
        (None, _) => Count::Asked,
        (Some(count), Above::Branch(_)) => Count::Fixed(count),
        (Some(count), Above::Use(_)) => Count::Each(count),
    }
}

fn parent(uses: &Uses, place: usize, names: &[String]) -> Parent {
    match uses.all[place].parent {
        Above::Branch(branch) => Parent::Branch(branch),
        Above::Use(above) => Parent::Kind { name: names[above].clone(), pick: Pick::Each },
    }
}

/// The name of its template for the first use, with a number behind it for others.
fn names(file: &File, uses: &Uses) -> Vec<String> {
    let mut seen: HashMap<usize, usize> = HashMap::new();
    let name = |one: &super::expand::Use| {
        let times = seen.entry(one.template).or_default();
        *times += 1;
        let name = &file.templates[one.template].name.value;
        if *times == 1 { name.clone() } else { format!("{name} ({times})") }
    };
    uses.all.iter().map(name).collect()
}

/// Orders of entries, made once for all lines that the same templates have.
struct Counting<'a> {
    uses: &'a Uses,
    /// The templates that have a line, by where the line is kept.
    holders: HashMap<*const ValueLine, Vec<usize>>,
    made: HashMap<Vec<usize>, Vec<Order>>,
    all: Vec<Order>,
}

impl<'a> Counting<'a> {
    fn new(file: &File, uses: &'a Uses) -> Result<Self> {
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
    fn orders(&mut self, template: &Template, place: usize) -> Result<Vec<Option<Order>>> {
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

    fn of(&mut self, holders: &[usize], spot: Spot) -> Result<&[Order]> {
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

fn too_many(spot: Spot) -> Wrong {
    Wrong::new(spot, "these are more entries than can be counted")
}
