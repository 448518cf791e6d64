//! Attribute types out of their definitions: what they inherit, and what slapd changes in code.

use values::{Normaliser, Order};

use crate::names::Names;
use crate::read::{RawAttribute, RawSyntax};
use crate::syntax::{Check, Pretty, Syntax};
use crate::{AttributeId, AttributeType, Normalise, Problem, Rule, RuleKind, Settings};

/// Times whose normaliser slapo-accesslog replaces, so that their definition does not tell
/// (`overlays/accesslog.c`).
const LOG_TIMES: [&str; 2] = ["reqStart", "reqEnd"];

/// The attribute whose values slapo-ppolicy looks up in the schema (`overlays/ppolicy.c`).
const PASSWORD_ATTRIBUTE: &str = "pwdAttribute";

/// Attributes compiled into slapd whose values are names of schema elements (`schema_prep.c`).
const NAMES_OR_OIDS: [&str; 5] =
    ["dITContentRules", "matchingRules", "attributeTypes", "objectClasses", "matchingRuleUse"];

/// Builds the types in the order given; a super-type may stand behind its sub-type.
pub fn resolve(
    raws: &[RawAttribute<'_>],
    syntaxes: &[RawSyntax<'_>],
    names: &Names,
    settings: &Settings,
) -> Result<Vec<AttributeType>, Problem> {
    let mut done: Vec<Option<AttributeType>> = raws.iter().map(|_| None).collect();
    for start in 0..raws.len() {
        for at in pending(raws, names, &done, start)?.into_iter().rev() {
            let sup = sup_of(&raws[at], names)?.and_then(|sup| done[sup].as_ref());
            done[at] = Some(build(&raws[at], index_u32(at), sup, syntaxes, settings)?);
        }
    }
    Ok(done.into_iter().flatten().collect())
}

fn index_u32(index: usize) -> u32 {
    u32::try_from(index).expect("names hold fewer than 2^32 numbers")
}

fn sup_of(raw: &RawAttribute<'_>, names: &Names) -> Result<Option<usize>, Problem> {
    let Some(sup) = raw.sup else { return Ok(None) };
    let found = names.find(sup.as_bytes()).map(|id| id as usize);
    let missing = || Problem::of(raw.text, &format!("unknown super-type \"{sup}\""));
    found.ok_or_else(missing).map(Some)
}

/// The type at `start` and those of its super-types that are not built yet, from the bottom up.
fn pending(
    raws: &[RawAttribute<'_>],
    names: &Names,
    done: &[Option<AttributeType>],
    start: usize,
) -> Result<Vec<usize>, Problem> {
    let mut chain = Vec::new();
    let mut at = Some(start).filter(|&at| done[at].is_none());
    while let Some(index) = at {
        if chain.len() > MAX_CHAIN {
            return Err(Problem::of(
                raws[start].text,
                "its chain of super-types is too long or a ring",
            ));
        }
        chain.push(index);
        at = sup_of(&raws[index], names)?.filter(|&sup| done[sup].is_none());
    }
    Ok(chain)
}

/// Far above any real schema; it also finds rings.
const MAX_CHAIN: usize = 100;

fn build(
    raw: &RawAttribute<'_>,
    id: u32,
    sup: Option<&AttributeType>,
    syntaxes: &[RawSyntax<'_>],
    settings: &Settings,
) -> Result<AttributeType, Problem> {
    let inherited = |own: Option<&str>, sups: Option<&Rule>| own.map(Rule::find).or(sups.cloned());
    let name = raw.canonical().to_owned();
    let syntax_oid = raw.syntax.clone().or_else(|| sup.map(|sup| sup.syntax_oid.clone()));
    let syntax_oid = syntax_oid.ok_or_else(|| Problem::of(raw.text, "it has no syntax"))?;
    let own_syntax =
        raw.syntax.as_deref().map(|oid| own_syntax(raw.text, oid, syntaxes)).transpose()?;
    let mut chain = sup.map_or_else(Vec::new, |sup| sup.chain.clone());
    if chain.len() > MAX_CHAIN {
        return Err(Problem::of(raw.text, "its chain of super-types is too long"));
    }
    chain.push(AttributeId(id));
    let mut kind = AttributeType {
        id: AttributeId(id),
        oid: raw.oid.clone(),
        name,
        names: raw.names.iter().map(|&name| name.to_owned()).collect(),
        chain,
        syntax: own_syntax
            .or(sup.map(|sup| sup.syntax))
            .unwrap_or_else(|| Syntax::from_oid(&syntax_oid)),
        syntax_oid,
        equality: inherited(raw.equality, sup.and_then(|sup| sup.equality.as_ref())),
        ordering: inherited(raw.ordering, sup.and_then(|sup| sup.ordering.as_ref())),
        substrings: inherited(raw.substrings, sup.and_then(|sup| sup.substrings.as_ref())),
        usage: raw.usage,
        single_value: raw.single_value,
        collective: raw.collective,
        no_user_modification: raw.no_user_modification,
        obsolete: raw.obsolete,
        ordered: raw.ordered,
        normaliser: Normalise::None,
        order: Order::Octets,
        builtin: raw.builtin,
    };
    specialise(&mut kind, settings);
    kind.normaliser = kind.equality.as_ref().map_or(Normalise::None, |rule| rule.normalise);
    kind.order = order(&kind);
    Ok(kind)
}

/// The syntax that a definition names: slapd's own, or one defined with `X-SUBST` to be as another,
/// which may stand for a third.
fn own_syntax(text: &str, oid: &str, syntaxes: &[RawSyntax<'_>]) -> Result<Syntax, Problem> {
    let mut oid = oid;
    for _ in 0..MAX_CHAIN {
        let Some(syntax) = syntaxes.iter().find(|syntax| syntax.oid == oid) else {
            return Err(Problem::of(text, &format!("unknown syntax \"{oid}\"")));
        };
        match syntax.substitute {
            Some(substitute) => oid = substitute,
            None if syntax.builtin => return Ok(Syntax::from_oid(oid)),
            None => return Ok(Syntax::UNCHECKED),
        }
    }
    Err(Problem::of(text, "its syntax is substituted in a ring"))
}

/// Replaces what slapd or a module replaces in code after the definition has been read.
fn specialise(kind: &mut AttributeType, settings: &Settings) {
    let is = |names: &[&str]| kind.builtin && names.contains(&kind.name.as_str());
    if is(&["objectClass", "structuralObjectClass"]) {
        kind.syntax.check = Check::OidOrName;
        kind.syntax.pretty = Pretty::ClassName;
        if let Some(rule) = &mut kind.equality {
            rule.kind = RuleKind::ObjectClass;
        }
    } else if is(&NAMES_OR_OIDS) {
        kind.syntax.check = Check::OidOrName;
        // slapd gives them a copy of the rule, which its normaliser does not know again.
        set_normaliser(kind, Normalise::Never);
    } else if is(&LOG_TIMES) {
        kind.syntax.check = Check::Plain(values::Syntax::LogTime);
        set_normaliser(kind, Normalise::Value(Normaliser::LogTime));
    } else if is(&[PASSWORD_ATTRIBUTE])
        || settings.password_policy && kind.name == PASSWORD_ATTRIBUTE
    {
        kind.syntax.pretty = Pretty::AttributeName;
        set_normaliser(kind, Normalise::AttributeOid);
    }
}

fn set_normaliser(kind: &mut AttributeType, normalise: Normalise) {
    if let Some(rule) = &mut kind.equality {
        rule.normalise = normalise;
    }
}

fn order(kind: &AttributeType) -> Order {
    let Some(rule) = &kind.equality else { return Order::Octets };
    match (&*rule.oid, rule.kind) {
        _ if kind.ordered.is_some() => Order::Octets,
        (_, RuleKind::Integer) | ("2.5.13.29", _) => Order::Integer,
        (_, RuleKind::NameUid) => Order::NameUid,
        ("2.5.13.13", _) => Order::Boolean,
        _ => Order::Octets,
    }
}
