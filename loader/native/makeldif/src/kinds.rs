//! Branches and kinds of a file: where entries stand, and how many there are.

use std::collections::HashMap;

use tree::name::ParsedDn;

use synth::model::{self, Count, Kind, Parent, Pick};
use synth::problem::Location;

use super::branch;
use super::counting::Counting;
use super::dn::Dn;
use super::entry;
use super::error::{Result, TemplateError};
use super::expand::{Above, Uses, expand};
use super::facts::{Facts, MOST_LINKS};
use super::files::Lists;
use super::syntax::{self, File};
use super::text::Texts;

#[derive(Debug)]
pub struct ExpandedTemplate {
    pub suffix: String,
    pub branches: Vec<model::Branch>,
    pub kinds: Vec<Kind>,
}

pub fn make(file: &File, lists: &mut Lists) -> Result<ExpandedTemplate> {
    let (suffix, branches) = branches(file, lists)?;
    let uses = expand(file)?;
    let mut facts: Vec<Facts<'_>> = file.templates.iter().map(Facts::new).collect::<Result<_>>()?;
    let mut links = 0;
    for one in &uses.all {
        facts[one.template].name_entries()?;
        links += facts[one.template].links;
    }
    if links > MOST_LINKS {
        let message = "the lines of all kinds of entries tell too much of one another";
        return Err(TemplateError::new(file.templates[0].name.spot, message));
    }
    let names = names(file, &uses);
    let mut making =
        KindBuilder { uses: &uses, names, counting: Counting::new(file, &uses)?, lists };
    let kinds = uses.all.iter().enumerate();
    let kinds = kinds.map(|(place, one)| making.kind(place, &facts[one.template]));
    Ok(ExpandedTemplate { suffix, branches, kinds: kinds.collect::<Result<_>>()? })
}

/// With the suffix.
fn branches(file: &File, lists: &mut Lists) -> Result<(String, Vec<model::Branch>)> {
    let dns: Vec<Dn> = file.branches.iter().map(parsed).collect::<Result<_>>()?;
    let Some(first) = dns.first() else {
        let message = "a template needs a branch: for its entries to lie below";
        return Err(TemplateError::new(Location::new(1, 1), message));
    };
    parents_first(file, &dns)?;
    let suffix = file.suffix.as_deref().and_then(|text| Dn::parse(text).ok());
    let suffix = suffix.filter(|suffix| first.below(suffix).is_some());
    let suffix = suffix.as_ref().unwrap_or(first).text.clone();
    let mut branches = Vec::new();
    for (said, dn) in file.branches.iter().zip(dns) {
        let attributes = branch::attributes(said, &dn, lists)?;
        let (spot, dn) = (said.dn.spot, dn.text);
        branches.push(model::Branch { spot, dn, below_suffix: false, attributes });
    }
    Ok((suffix, branches))
}

fn parsed(branch: &syntax::Branch) -> Result<Dn> {
    Dn::parse(&branch.dn.value).map_err(|reason| TemplateError::new(branch.dn.spot, reason))
}

/// What lies above the suffix, or was made by a template, is not among the branches, and need not be.
fn parents_first(file: &File, dns: &[Dn]) -> Result<()> {
    let names: Vec<ParsedDn> = dns.iter().map(|dn| ParsedDn::new(dn.text.as_bytes())).collect();
    let places = names.iter().enumerate().map(|(place, name)| (name.key(), place));
    let places: HashMap<&[u8], usize> = places.collect();
    for (place, name) in names.iter().enumerate() {
        if places.get(name.parent()).is_some_and(|&parent| parent > place) {
            let message = format!("{:?}: its parent must stand before it", dns[place].text);
            return Err(TemplateError::new(file.branches[place].dn.spot, message));
        }
    }
    Ok(())
}

/// Kinds on their way.
struct KindBuilder<'a> {
    uses: &'a Uses,
    names: Vec<String>,
    counting: Counting<'a>,
    lists: &'a mut Lists,
}

impl KindBuilder<'_> {
    fn kind(&mut self, place: usize, facts: &Facts<'_>) -> Result<Kind> {
        let template = facts.template;
        let orders = self.counting.orders(template, place)?;
        let all = self.counting.all[place].clone();
        let made = entry::make(facts, &mut Texts { lists: self.lists, orders, all })?;
        Ok(Kind {
            spot: template.name.spot,
            name: self.names[place].clone(),
            count: self.count(place),
            parent: self.parent(place),
            rdn: template.rdn.iter().map(|name| name.value.clone()).collect(),
            may_collide: true,
            structural: None,
            values: made.values,
            attributes: made.attributes,
        })
    }

    fn count(&self, place: usize) -> Count {
        let one = &self.uses.all[place];
        match (one.count, one.parent) {
            (None, _) => Count::Asked,
            (Some(count), Above::Branch(_)) => Count::Fixed(count),
            (Some(count), Above::Use(_)) => Count::Each(count),
        }
    }

    fn parent(&self, place: usize) -> Parent {
        match self.uses.all[place].parent {
            Above::Branch(branch) => Parent::Branch(branch),
            Above::Use(above) => Parent::Kind { name: self.names[above].clone(), pick: Pick::Each },
        }
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
