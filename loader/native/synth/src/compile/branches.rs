//! Single entries: the suffix and what is named below it.

use std::collections::HashSet;

use tree::name::ParsedDn;

use super::{Context, items};
use crate::body::{Attribute, Body, Item};
use crate::branch::{first_of, made};
use crate::draw::Stream;
use crate::model;
use crate::problem::Problem;
use crate::tags::{Scope, Slots};
use crate::tree::Branch;

pub fn compile(context: &Context<'_>) -> Result<Vec<Branch>, Problem> {
    let mut found = Vec::new();
    let mut keys: HashSet<Vec<u8>> = HashSet::new();
    for (place, branch) in context.template.branches.iter().enumerate() {
        let dn = dn_of(branch, context.suffix);
        let name = ParsedDn::new(dn.as_bytes());
        if place > 0 && !keys.contains(name.parent()) {
            let reason = format!("{:?}: its parent must stand before it", branch.dn);
            return Err(context.wrong(branch.spot, reason));
        }
        if !keys.insert(name.key().to_vec()) {
            return Err(context.wrong(branch.spot, format!("{:?} stands twice", branch.dn)));
        }
        found.push(compile_one(context, branch, dn)?);
    }
    Ok(found)
}

fn dn_of(branch: &model::Branch, suffix: &str) -> String {
    if branch.dn.is_empty() { suffix.to_owned() } else { format!("{},{suffix}", branch.dn) }
}

fn compile_one(
    context: &Context<'_>,
    branch: &model::Branch,
    dn: String,
) -> Result<Branch, Problem> {
    let refused = |reason: String| {
        if context.is_given && branch.dn.is_empty() {
            return Problem::asked(&context.template.path, format!("suffix {reason}"));
        }
        context.wrong(branch.spot, reason)
    };
    if branch.attributes.is_empty() {
        let (lines, class) = made(&dn).map_err(refused)?;
        let body = Body { slots: Vec::new(), attributes: constants(&lines) };
        return Ok(Branch { body, structural: Some(class.to_owned()), dn: dn.into_bytes() });
    }
    let naming = dn.split('=').next().unwrap_or_default().trim();
    let is_named = |one: &model::Attribute| one.description.eq_ignore_ascii_case(naming);
    let own = if branch.attributes.iter().any(is_named) {
        Vec::new()
    } else {
        constants(&[first_of(&dn).map_err(refused)?])
    };
    let no_slots = Slots::new();
    let mut attributes = items::attributes(context, &branch.attributes, &no_slots, |names| {
        let stream = context.stream(&[&["branch", dn.as_str()], names].concat());
        scope(context, &no_slots, stream)
    })?;
    attributes.extend(own);
    let body = Body { slots: Vec::new(), attributes };
    Ok(Branch { body, structural: None, dn: dn.into_bytes() })
}

fn scope<'a>(context: &Context<'a>, no_slots: &'a Slots, stream: Stream) -> Scope<'a> {
    Scope {
        stream,
        suffix: context.suffix,
        lists: &context.template.lists,
        learned: &context.template.learned,
        slots: no_slots,
        kinds: &[],
        kind: None,
        in_shape: false,
    }
}

/// Attributes whose values are always the same, those of one attribute together.
fn constants(lines: &[(&str, &str)]) -> Vec<Attribute> {
    let mut found: Vec<(&str, Vec<Item>)> = Vec::new();
    for (description, value) in lines {
        let item = items::constant(value.as_bytes());
        match found.last_mut().filter(|last| last.0 == *description) {
            Some(last) => last.1.push(item),
            None => found.push((description, vec![item])),
        }
    }
    found
        .into_iter()
        .map(|(description, items)| Attribute::new(description, items, false))
        .collect()
}
