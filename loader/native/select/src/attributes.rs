//! The attributes that a consumer stores, as decided by `attrs` and `exattrs` of its syncrepl (`init_syncrepl`,
//! `syncrepl_message_to_entry` in `servers/slapd/syncrepl.c`).

use schema::{AttributeId, AttributeType, Description, Result, Schema};
use values::refuse;

/// Attributes that syncrepl always requests.
const ALWAYS: [&str; 3] = ["objectClass", "structuralObjectClass", "entryCSN"];
/// The attribute that every consumer stores. If it is not requested, slapd takes the value from the sync control.
const IDENTITY: &str = "entryUUID";
/// Attributes that a consumer does not store. Each server computes them itself, or has its own values (contextCSN).
const DYNAMIC: [&str; 6] =
    ["entryDN", "subschemaSubentry", "hasSubordinates", "numSubordinates", "numAllSubordinates", "contextCSN"];

/// `attrs` and `exattrs`, resolved with a schema.
pub struct Attributes {
    pub(crate) all_user: bool,
    all_operational: bool,
    listed: Vec<Description>,
    excluded: Vec<AttributeId>,
}

impl Attributes {
    pub fn read(attrs: &[String], exattrs: &[String], schema: &Schema) -> Result<Self> {
        let star = attrs.iter().any(|name| name == "*");
        let plus = attrs.iter().any(|name| name == "+");
        let names = || attrs.iter().filter(|name| *name != "*" && *name != "+");
        let mut listed = Vec::new();
        for name in names() {
            listed.extend(described("attrs", name, schema)?);
        }
        if listed.iter().any(|one: &Description| one.tagged || one.binary) && (star || plus) {
            return refuse("attrs: slapd terminates on a list of options and \"*\" or \"+\"");
        }
        if !exattrs.is_empty() && names().any(|name| name.starts_with('@')) {
            return refuse("exattrs and a class in attrs: slapd's consumer removes random ones of them");
        }
        // Empty lists request all attributes.
        let everything = star == plus && listed.is_empty();
        Ok(Self {
            all_user: star || everything,
            all_operational: plus || everything,
            listed,
            excluded: excluded(exattrs, schema)?,
        })
    }

    /// Returns the attributes to request from the provider, including those that the consumer removes.
    pub fn request(&self) -> Vec<String> {
        if self.all_user && self.all_operational {
            return vec!["*".into(), "+".into()];
        }
        let mut names: Vec<String> = self.listed.iter().map(|one| one.text.clone()).collect();
        names.extend(ALWAYS.map(str::to_owned));
        names.extend(self.all_user.then(|| "*".to_owned()));
        names.extend(self.all_operational.then(|| "+".to_owned()));
        names
    }

    /// Returns the names of the attribute types that the consumer removes from received entries (`exattrs`).
    pub fn left_out(&self, schema: &Schema) -> Vec<String> {
        self.excluded.iter().map(|id| schema.get(*id).name.clone()).collect()
    }

    /// Whether the consumer stores values with this description.
    pub fn keep(&self, description: &Description, schema: &Schema) -> bool {
        let kind = schema.get(description.attribute);
        if DYNAMIC.contains(&kind.name.as_str()) {
            return false;
        }
        if ALWAYS.contains(&kind.name.as_str()) || kind.name == IDENTITY {
            return true;
        }
        let all = if kind.operational() { self.all_operational } else { self.all_user };
        (all || self.listed.iter().any(|listed| is_of(description, kind, listed)))
            && !self.excluded.contains(&description.attribute)
    }
}

/// Whether `description` equals `listed`, or is more specific: a subtype, or more options (`is_ad_subtype`).
pub fn is_of(description: &Description, kind: &AttributeType, listed: &Description) -> bool {
    kind.chain.contains(&listed.attribute)
        && listed
            .options()
            .split(';')
            .filter(|option| !option.is_empty())
            .all(|option| description.options().split(';').any(|own| own == option))
}

/// Returns the attributes for a name in a list. A class (`@name`) stands for all its attributes (RFC 4529).
fn described(list: &str, name: &str, schema: &Schema) -> Result<Vec<Description>> {
    if let Some(class) = name.strip_prefix('@') {
        let Some(class) = schema.class(class.as_bytes()) else {
            return refuse(format!("{list}: object class {class} is not in the schema"));
        };
        let class = schema.object_class(class);
        let of = |id: &AttributeId| schema.describe(schema.get(*id).name.as_bytes());
        return class.must.iter().chain(&class.may).map(of).collect();
    }
    if name.starts_with(['!', '-', '+']) {
        return refuse(format!("{list}: \"{name}\" is a form that not every slapd accepts"));
    }
    match schema.describe(name.as_bytes()) {
        Ok(description) if description.text.ends_with('-') => refuse(format!("{list}: a range of options, {name}")),
        Ok(description) => Ok(vec![description]),
        Err(refusal) => refuse(format!("{list}: {}", refusal.0)),
    }
}

/// Resolves `exattrs`. Like slapd, ignores case but knows only the first name of a type, so `surname` has no effect.
fn excluded(names: &[String], schema: &Schema) -> Result<Vec<AttributeId>> {
    let mut excluded = Vec::new();
    for name in names {
        if ALWAYS.iter().any(|one| one.eq_ignore_ascii_case(name) && one != name) {
            return refuse(format!("exattrs: {name} is required, which slapd sees only in its canonical spelling"));
        }
        for one in described("exattrs", name, schema)? {
            let kind = schema.get(one.attribute);
            if name.starts_with('@') || kind.name.eq_ignore_ascii_case(name) {
                excluded.push(one.attribute);
            }
        }
    }
    Ok(excluded)
}
