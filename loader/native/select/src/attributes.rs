//! Which attributes a consumer stores: `attrs` and `exattrs` of its syncrepl (`init_syncrepl`,
//! `syncrepl_message_to_entry` in `servers/slapd/syncrepl.c`).

use schema::{AttributeId, AttributeType, Description, Result, Schema};
use values::refuse;

/// What syncrepl asks for besides any list.
const ALWAYS: [&str; 3] = ["objectClass", "structuralObjectClass", "entryCSN"];
/// slapd takes it from the sync control when it is not among the attributes.
const IDENTITY: &str = "entryUUID";
/// Not stored: each server computes them, or keeps its own (contextCSN).
const DYNAMIC: [&str; 6] = [
    "entryDN",
    "subschemaSubentry",
    "hasSubordinates",
    "numSubordinates",
    "numAllSubordinates",
    "contextCSN",
];

/// The two lists as they are configured, cut into names.
#[derive(Debug, Clone, Default)]
pub struct AttributeLists {
    pub attrs: Vec<String>,
    pub exattrs: Vec<String>,
}

/// The lists, understood by a schema.
#[derive(Debug)]
pub struct Attributes {
    all_user: bool,
    all_operational: bool,
    listed: Vec<Description>,
    excluded: Vec<AttributeId>,
}

impl Attributes {
    pub fn read(listed: &AttributeLists, schema: &Schema) -> Result<Self> {
        let star = listed.attrs.iter().any(|name| name == "*");
        let plus = listed.attrs.iter().any(|name| name == "+");
        let names = || listed.attrs.iter().filter(|name| *name != "*" && *name != "+");
        let mut found = Vec::new();
        for name in names() {
            found.extend(described("attrs", name, schema)?);
        }
        if found.iter().any(|one: &Description| one.tagged || one.binary) && (star || plus) {
            return refuse("attrs: slapd ends with a list of options and \"*\" or \"+\"");
        }
        if !listed.exattrs.is_empty() && names().any(|name| name.starts_with('@')) {
            return refuse(
                "exattrs beside a class in attrs: slapd's consumer removes some of them at random",
            );
        }
        // Nothing listed is everything.
        let everything = star == plus && found.is_empty();
        Ok(Self {
            all_user: star || everything,
            all_operational: plus || everything,
            listed: found,
            excluded: excluded(&listed.exattrs, schema)?,
        })
    }

    /// What to ask the provider for. Attributes to be excluded come, too.
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

    /// Names of the types that are left out of what comes (`exattrs`).
    pub fn left_out(&self, schema: &Schema) -> Vec<String> {
        self.excluded.iter().map(|id| schema.get(*id).name.clone()).collect()
    }

    /// Does a consumer store values of this description?
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

    /// The same of an attribute that the schema does not know.
    pub fn keep_unknown(&self) -> bool {
        self.all_user
    }
}

/// Is it of the listed attribute: itself, a subtype, or with more options (`is_ad_subtype`)?
pub fn is_of(description: &Description, kind: &AttributeType, listed: &Description) -> bool {
    kind.chain.contains(&listed.attribute)
        && listed
            .options()
            .split(';')
            .filter(|option| !option.is_empty())
            .all(|option| description.options().split(';').any(|own| own == option))
}

/// The attributes that a name of a list stands for: of a class (`@name`) all it requires and allows (RFC 4529).
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
        return refuse(format!("{list}: \"{name}\" is a form that only some slapds take"));
    }
    match schema.describe(name.as_bytes()) {
        Ok(description) if description.text.ends_with('-') => {
            refuse(format!("{list}: a range of options, {name}"))
        }
        Ok(description) => Ok(vec![description]),
        Err(refusal) => refuse(format!("{list}: {}", refusal.0)),
    }
}

/// slapd compares what is listed with the first name of a type, without regard to case: `surname` excludes nothing.
fn excluded(names: &[String], schema: &Schema) -> Result<Vec<AttributeId>> {
    let mut excluded = Vec::new();
    for name in names {
        if ALWAYS.iter().any(|one| one.eq_ignore_ascii_case(name) && one != name) {
            return refuse(format!(
                "exattrs: {name} is needed, and slapd knows that only when it is spelled right"
            ));
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
