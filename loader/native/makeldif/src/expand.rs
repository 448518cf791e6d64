//! The places where templates are used: one kind of entries each.
//!
//! A template below two others makes two kinds, whose entries share their counters.

use std::collections::HashMap;

use synth::problem::suggestion;

use super::error::{Located, Result, TemplateError};
use super::order::{Level, Order};
use super::syntax::{File, Subordinate};

/// Templates below one another.
const DEEPEST: usize = 100;
/// Kinds, and attribute lines of all of them: templates that use others twice could double them each time.
const MOST_KINDS: usize = 10_000;
const MOST_LINES: usize = 200_000;

#[derive(Debug)]
pub struct Use {
    pub template: usize,
    pub parent: Above,
    /// Entries below each parent; None is what the caller asks for.
    pub count: Option<u64>,
    /// Places of the uses below it.
    below: Vec<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Above {
    Branch(usize),
    Use(usize),
}

/// All uses, parents first.
#[derive(Debug, Default)]
pub struct Uses {
    pub all: Vec<Use>,
    /// Those below branches, in the order of the file; the one without a count last, for it never ends.
    top: Vec<usize>,
    lines: usize,
}

pub fn expand(file: &File) -> Result<Uses> {
    let names = file.templates.iter().enumerate();
    let names =
        names.map(|(place, template)| (template.name.value.to_lowercase(), place)).collect();
    let mut expansion = Expansion { file, names, uses: Uses::default(), path: Vec::new() };
    for (place, branch) in file.branches.iter().enumerate() {
        let made = expansion.below(Above::Branch(place), &branch.below)?;
        expansion.uses.top.extend(made);
    }
    let mut uses = expansion.uses;
    let (endless, counted) =
        uses.top.iter().partition::<Vec<usize>, _>(|&&top| uses.all[top].count.is_none());
    if let Some(second) = endless.get(1) {
        let name = &file.templates[uses.all[*second].template].name;
        let message =
            format!("{} and another have no count; only one may leave it out", name.value);
        return Err(TemplateError::new(name.spot, message));
    }
    uses.top = counted.into_iter().chain(endless).collect();
    Ok(uses)
}

struct Expansion<'a> {
    file: &'a File,
    /// Templates by their names in lower case.
    names: HashMap<String, usize>,
    uses: Uses,
    /// The templates above, from the branch down.
    path: Vec<usize>,
}

impl Expansion<'_> {
    fn below(&mut self, parent: Above, subordinates: &[Subordinate]) -> Result<Vec<usize>> {
        subordinates.iter().map(|subordinate| self.one(parent, subordinate)).collect()
    }

    fn one(&mut self, parent: Above, subordinate: &Subordinate) -> Result<usize> {
        let template = self.checked(parent, subordinate)?;
        let place = self.uses.all.len();
        self.uses.lines += self.file.templates[template].lines.len();
        if place == MOST_KINDS || self.uses.lines > MOST_LINES {
            let message = "templates below templates make too many kinds of entries";
            return Err(TemplateError::new(subordinate.template.spot, message));
        }
        self.uses.all.push(Use { template, parent, count: subordinate.count, below: Vec::new() });
        self.path.push(template);
        let file = self.file;
        self.uses.all[place].below =
            self.below(Above::Use(place), &file.templates[template].below)?;
        self.path.pop();
        Ok(place)
    }

    fn checked(&self, parent: Above, subordinate: &Subordinate) -> Result<usize> {
        let Located { value: name, spot } = &subordinate.template;
        let wrong = |message: String| Err(TemplateError::new(*spot, message));
        let Some(&template) = self.names.get(&name.to_lowercase()) else {
            let known = self.file.templates.iter().map(|template| template.name.value.as_str());
            return wrong(format!("no template is named {name}{}", suggestion(name, known)));
        };
        if self.path.contains(&template) {
            return wrong(format!(
                "{name} lies below itself, without end: {}",
                self.circle(template)
            ));
        }
        if self.path.len() == DEEPEST {
            return wrong(format!("templates lie more than {DEEPEST} deep below one another"));
        }
        if subordinate.count.is_none() && matches!(parent, Above::Use(_)) {
            return wrong(format!(
                "write how many, {name}:10; only below a branch may that be left to -n"
            ));
        }
        Ok(template)
    }

    fn circle(&self, template: usize) -> String {
        let start = self.path.iter().position(|&one| one == template).unwrap_or(0);
        let around = self.path[start..].iter().chain([&template]);
        let names: Vec<&str> =
            around.map(|&one| self.file.templates[one].name.value.as_str()).collect();
        names.join(" > ")
    }
}

impl Uses {
    /// The order of the entries of each use among those of the templates that are counted; None when there are too
    /// many to count.
    pub fn orders(&self, is_counted: impl Fn(usize) -> bool) -> Option<Vec<Order>> {
        let sizes = self.sizes(&is_counted)?;
        // Of the first entry below the first parent.
        let mut firsts = vec![0_u64; self.all.len()];
        let mut begin = 0;
        for &top in &self.top {
            firsts[top] = begin;
            begin = begin.checked_add(self.all[top].count.unwrap_or(0).checked_mul(sizes[top])?)?;
        }
        for (place, one) in self.all.iter().enumerate() {
            let mut begin = firsts[place].checked_add(u64::from(is_counted(one.template)))?;
            for &child in &one.below {
                firsts[child] = begin;
                begin = begin
                    .checked_add(self.all[child].count.unwrap_or(0).checked_mul(sizes[child])?)?;
            }
        }
        let order = |(place, first)| Order::new(first, &self.levels(place, &sizes));
        Some(firsts.into_iter().enumerate().map(order).collect())
    }

    /// How many of the counted one entry of each use and all below it are.
    fn sizes(&self, is_counted: &impl Fn(usize) -> bool) -> Option<Vec<u64>> {
        let mut sizes = vec![0_u64; self.all.len()];
        for (place, one) in self.all.iter().enumerate().rev() {
            let own = u64::from(is_counted(one.template));
            sizes[place] = one.below.iter().try_fold(own, |sum: u64, &child| {
                sum.checked_add(self.all[child].count.unwrap_or(0).checked_mul(sizes[child])?)
            })?;
        }
        Some(sizes)
    }

    /// From the use's own level up.
    fn levels(&self, place: usize, sizes: &[u64]) -> Vec<Level> {
        let mut levels = Vec::new();
        let mut at = Above::Use(place);
        while let Above::Use(one) = at {
            levels.push(Level { count: self.all[one].count.unwrap_or(1), step: sizes[one] });
            at = self.all[one].parent;
        }
        levels
    }
}
