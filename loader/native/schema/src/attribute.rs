//! Attribute types with inherited properties, and their special cases in slapd's code.

use values::{Normaliser, Order};

use crate::names::Names;
use crate::read::Raw;
use crate::schema::invalid;
use crate::syntax::{Check, Pretty, Syntax};
use crate::{Result, Rule, RuleKind, Settings};

/// Number of an attribute type in its schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttributeId(pub(crate) u32);

impl AttributeId {
    /// Returns the number. Numbers begin at 0 and have no gaps, so they can index tables.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// `X-ORDERED`: values begin with `{n}`, their position among the values or siblings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum XOrdered {
    Values,
    Siblings,
}

/// The kind of normalized form that is stored with a value for comparisons.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Normalise {
    /// No normalized form.
    None,
    Value(Normaliser),
    Dn,
    Rdn,
    NameUid,
    /// Serial number and issuer.
    Certificate,
    /// Issuer and time.
    CertificateList,
    /// Serial number, and the issuer and serial number of the issuer's certificate.
    AttributeCertificate,
    /// The OID of the attribute type that the value names.
    AttributeOid,
    /// The first word within the parentheses or braces, which is an OID.
    FirstOid,
    /// The first word within the parentheses or braces, which is an integer.
    FirstInteger,
    /// slapd cannot normalize any value of the attribute, so no entry can have it.
    Never,
    /// Rules of slapd that are not implemented here: `authzMatch` and `OpenLDAPaciMatch`.
    Unfollowed,
    /// A rule of a module that is not part of OpenLDAP.
    Unproven,
}

/// An attribute type, including the properties that it inherits from its supertypes.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools)] // as in RFC 4512 section 4.1.2
pub struct AttributeType {
    pub id: AttributeId,
    pub oid: String,
    /// The first NAME as spelled in the schema; the OID if there is no NAME.
    pub name: String,
    pub names: Vec<String>,
    /// The supertypes from the top down, then this type: the types whose indexes contain values of this type.
    pub chain: Vec<AttributeId>,
    /// The dotted OID of the syntax, without `{len}`.
    pub syntax_oid: String,
    pub equality: Option<Rule>,
    pub ordering: Option<Rule>,
    pub substrings: Option<Rule>,
    /// Whether the usage is not `userApplications`.
    operational: bool,
    pub single_value: bool,
    pub collective: bool,
    pub obsolete: bool,
    pub ordered: Option<XOrdered>,
    pub normaliser: Normalise,
    /// Order of the values in `id2v`, and of attributes that `sortvals` lists.
    pub order: Order,
    /// Whether the type is compiled into slapd or a module.
    pub builtin: bool,
    pub(crate) syntax: Syntax,
}

impl AttributeType {
    pub fn operational(&self) -> bool {
        self.operational
    }

    /// Returns the equality rule's name or the syntax's OID, if the stored form of values is not implemented here.
    pub fn unsupported_rule(&self) -> Option<&str> {
        let rule = self.equality.as_ref().filter(|_| self.normaliser == Normalise::Unfollowed);
        let syntax = (self.syntax.check == Check::Unfollowed).then_some(&*self.syntax_oid);
        self.of_other_module().or(rule.map(|rule| &*rule.name)).or(syntax)
    }

    /// Returns the name of the equality rule or the OID of the syntax, if it comes from a module that is not part of
    /// OpenLDAP. Such a module may change more than values.
    pub fn of_other_module(&self) -> Option<&str> {
        let rule = self.equality.as_ref().filter(|_| self.normaliser == Normalise::Unproven);
        let syntax = (self.syntax.check == Check::Unproven).then_some(self.syntax_oid.as_str());
        rule.map(|rule| &*rule.name).or(syntax)
    }

    /// Whether descriptions of the type must have the option `;binary`.
    pub fn binary(&self) -> bool {
        self.syntax.binary
    }
}

/// Times in the access log, for which slapo-accesslog replaces the normalizer (`overlays/accesslog.c`).
const LOG_TIMES: [&str; 2] = ["reqStart", "reqEnd"];

/// The attribute whose values slapo-ppolicy looks up in the schema (`overlays/ppolicy.c`).
const PASSWORD_ATTRIBUTE: &str = "pwdAttribute";

/// Attributes compiled into slapd whose values slapd checks as names or OIDs of schema elements (`schema_prep.c`).
const NAMES_OR_OIDS: [&str; 5] =
    ["dITContentRules", "matchingRules", "attributeTypes", "objectClasses", "matchingRuleUse"];

/// Builds the attribute types in the order of their definitions. A supertype may be defined after its subtypes.
pub fn resolve(
    raws: &[Raw<'_>],
    syntaxes: &[Raw<'_>],
    names: &Names,
    settings: &Settings,
) -> Result<Vec<AttributeType>> {
    let mut types: Vec<Option<AttributeType>> = raws.iter().map(|_| None).collect();
    for raw in raws {
        let mut chain = Vec::new();
        let mut next = names.find(raw.oid.as_bytes());
        while let Some(id) = next.filter(|&id| types[id as usize].is_none()) {
            if chain.len() > MAX_CHAIN {
                return Err(invalid(raw.text, "its chain of super-types is too long or a ring"));
            }
            chain.push(id);
            next = sup_of(&raws[id as usize], names)?;
        }
        for id in chain.into_iter().rev() {
            let raw = &raws[id as usize];
            let sup = sup_of(raw, names)?.and_then(|sup| types[sup as usize].as_ref());
            types[id as usize] = Some(build(raw, AttributeId(id), sup, syntaxes, settings)?);
        }
    }
    Ok(types.into_iter().flatten().collect())
}

fn sup_of(raw: &Raw<'_>, names: &Names) -> Result<Option<u32>> {
    let Some(sup) = raw.sups.first() else { return Ok(None) };
    let missing = || invalid(raw.text, &format!("unknown super-type \"{sup}\""));
    names.find(sup.as_bytes()).ok_or_else(missing).map(Some)
}

/// Maximum length of a chain of supertypes, far above that of real schemas. The limit also detects cycles.
const MAX_CHAIN: usize = 100;

fn build(
    raw: &Raw<'_>,
    id: AttributeId,
    sup: Option<&AttributeType>,
    syntaxes: &[Raw<'_>],
    settings: &Settings,
) -> Result<AttributeType> {
    let inherited = |own: Option<&str>, sups: Option<&Rule>| own.map(Rule::find).or(sups.cloned());
    let syntax_oid = raw.syntax.clone().or_else(|| sup.map(|sup| sup.syntax_oid.clone()));
    let syntax_oid = syntax_oid.ok_or_else(|| invalid(raw.text, "it has no syntax"))?;
    let own_syntax = raw.syntax.as_deref().map(|oid| own_syntax(raw.text, oid, syntaxes)).transpose()?;
    let mut chain = sup.map_or_else(Vec::new, |sup| sup.chain.clone());
    if chain.len() > MAX_CHAIN {
        return Err(invalid(raw.text, "its chain of super-types is too long"));
    }
    chain.push(id);
    let mut kind = AttributeType {
        id,
        oid: raw.oid.clone(),
        name: raw.canonical().to_owned(),
        names: raw.names.iter().map(|&name| name.to_owned()).collect(),
        chain,
        syntax: own_syntax.or(sup.map(|sup| sup.syntax)).unwrap_or_else(|| Syntax::from_oid(&syntax_oid)),
        syntax_oid,
        equality: inherited(raw.equality, sup.and_then(|sup| sup.equality.as_ref())),
        ordering: inherited(raw.ordering, sup.and_then(|sup| sup.ordering.as_ref())),
        substrings: inherited(raw.substrings, sup.and_then(|sup| sup.substrings.as_ref())),
        operational: raw.operational,
        single_value: raw.single_value,
        collective: raw.collective,
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

/// Returns slapd's own syntax with this OID, or the syntax that `X-SUBST` substitutes for it. Returns
/// [`Syntax::UNCHECKED`] if the configuration defines the syntax without a substitute.
fn own_syntax(text: &str, oid: &str, syntaxes: &[Raw<'_>]) -> Result<Syntax> {
    let mut oid = oid;
    for _ in 0..MAX_CHAIN {
        let Some(syntax) = syntaxes.iter().find(|syntax| syntax.oid == oid) else {
            return Err(invalid(text, &format!("unknown syntax \"{oid}\"")));
        };
        match syntax.substitute {
            Some(substitute) => oid = substitute,
            None if syntax.builtin => return Ok(Syntax::from_oid(oid)),
            None => return Ok(Syntax::UNCHECKED),
        }
    }
    Err(invalid(text, "its syntax is substituted in a ring"))
}

/// Applies the properties that slapd or a module changes in C code after the definition was parsed.
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
        // slapd gives these types a copy of the rule, and the normalizer fails because it does not know the copy.
        set_normaliser(kind, Normalise::Never);
    } else if is(&LOG_TIMES) {
        kind.syntax.check = Check::Plain(values::Syntax::LogTime);
        set_normaliser(kind, Normalise::Value(Normaliser::LogTime));
    } else if is(&[PASSWORD_ATTRIBUTE]) || settings.password_policy && kind.name == PASSWORD_ATTRIBUTE {
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
