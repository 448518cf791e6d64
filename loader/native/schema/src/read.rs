//! Parses the definitions in cn=config (RFC 4512, section 4.1; as leniently as libldap's `schema.c`). References
//! between definitions are resolved elsewhere.

use crate::names::Names;
use crate::schema::invalid;
use crate::{ClassKind, Result, XOrdered};

/// A schema definition: a value in cn=config.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Definition {
    pub kind: Kind,
    /// The text of the value. A leading `{n}` is ignored.
    pub text: String,
    /// Whether the value is in the entry `cn=schema,cn=config`, because it is compiled into slapd or a module.
    pub builtin: bool,
}

/// The kind of a definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// `olcObjectIdentifier`
    Macro,
    /// `olcLdapSyntaxes`
    Syntax,
    /// `olcAttributeTypes`
    AttributeType,
    /// `olcObjectClasses`
    ObjectClass,
    /// `olcDitContentRules`
    ContentRule,
}

/// Other settings in cn=config that decide which attributes an entry may have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Values of `olcAttributeOptions`. A value that ends in `-` or `=` is a prefix of option names.
    pub attribute_options: Vec<String>,
    /// Whether the database has the overlay `dds`, without which slapd refuses dynamic objects.
    pub dynamic_objects: bool,
    /// Whether some database has the overlay `ppolicy`. Up to slapd 2.4, the overlay and not the module changes the
    /// handling of `pwdAttribute`.
    pub password_policy: bool,
}

impl Default for Settings {
    /// slapd's defaults: the option `lang-`, no dynamic objects.
    fn default() -> Self {
        Self { attribute_options: vec!["lang-".into()], dynamic_objects: false, password_policy: false }
    }
}

impl Definition {
    /// Returns the definition without its position `{n}`, and whether it is compiled into slapd or a module. A
    /// compiled-in definition has no `{n}`.
    fn unnumbered(&self) -> (&str, bool) {
        let text = self.text.trim();
        let numbered = text.strip_prefix('{').and_then(|rest| rest.split_once('}'));
        match numbered {
            Some((number, rest)) if number.bytes().all(|byte| byte.is_ascii_digit()) => (rest.trim_start(), false),
            _ => (text, self.builtin),
        }
    }
}

/// OID macros with the OIDs that they stand for.
#[derive(Debug, Default)]
pub struct Macros {
    names: Names,
    oids: Vec<String>,
}

impl Macros {
    /// Reads the macros. Macros of slapd.conf may refer to compiled-in macros, which come later in cn=config.
    pub fn read(definitions: &[Definition]) -> Result<Self> {
        let mut macros = Self::default();
        for builtin in [true, false] {
            for definition in definitions.iter().filter(|definition| definition.kind == Kind::Macro) {
                let (text, is_builtin) = definition.unnumbered();
                if is_builtin == builtin {
                    macros.define(text).map_err(|reason| invalid(text, &reason))?;
                }
            }
        }
        Ok(macros)
    }

    fn define(&mut self, text: &str) -> Result<(), String> {
        let mut words = text.split_ascii_whitespace();
        let (Some(name), Some(oid), None) = (words.next(), words.next(), words.next()) else {
            return Err("an OID macro is a name and an OID".into());
        };
        let oid = self.expand(oid).ok_or("unknown OID macro")?;
        let id = u32::try_from(self.oids.len()).map_err(|_| "too many macros")?;
        match self.names.find(name.as_bytes()) {
            Some(known) if self.oids[known as usize] == oid => return Ok(()),
            Some(_) => return Err("the OID macro has another meaning already".into()),
            None => self.names.insert(name, id),
        };
        self.oids.push(oid);
        Ok(())
    }

    /// Expands `oid` to dotted form. An `oid` that does not begin with a digit is a macro, `name` or `name:suffix`.
    fn expand(&self, oid: &str) -> Option<String> {
        if oid.starts_with(|first: char| first.is_ascii_digit()) {
            return Some(oid.to_owned());
        }
        let (name, suffix) = oid.split_once(':').unwrap_or((oid, ""));
        let base = &self.oids[self.names.find(name.as_bytes())? as usize];
        Some(if suffix.is_empty() { base.clone() } else { format!("{base}.{suffix}") })
    }

    fn oid(&self, oid: &str) -> Result<String, String> {
        self.expand(oid).ok_or_else(|| format!("unknown OID macro \"{oid}\""))
    }
}

/// A parsed definition with unresolved references. Each kind of definition uses some of the fields.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools)] // as in RFC 4512 section 4.1.2
pub struct Raw<'a> {
    pub text: &'a str,
    pub builtin: bool,
    pub oid: String,
    pub names: Vec<&'a str>,
    pub obsolete: bool,
    /// Superiors; an attribute type has at most one.
    pub sups: Vec<&'a str>,
    pub equality: Option<&'a str>,
    pub ordering: Option<&'a str>,
    pub substrings: Option<&'a str>,
    /// The dotted OID of the syntax, without `{len}`.
    pub syntax: Option<String>,
    pub operational: bool,
    pub single_value: bool,
    pub collective: bool,
    pub ordered: Option<XOrdered>,
    pub class: ClassKind,
    pub must: Vec<&'a str>,
    pub may: Vec<&'a str>,
    pub auxiliary: Vec<&'a str>,
    pub not: Vec<&'a str>,
    /// `X-SUBST`: the syntax that slapd uses instead.
    pub substitute: Option<&'a str>,
}

impl<'a> Raw<'a> {
    pub fn read(definition: &'a Definition, macros: &Macros) -> Result<Self> {
        let (text, builtin) = definition.unnumbered();
        let mut raw = Self { text, builtin, ..Self::default() };
        raw.fill(definition.kind, macros).map_err(|reason| invalid(text, &reason))?;
        Ok(raw)
    }

    /// Returns slapd's canonical name of the definition: its first name, or its OID if it has no name.
    pub fn canonical(&self) -> &str {
        self.names.first().copied().unwrap_or(&self.oid)
    }

    /// Parses a definition from `( oid` up to the closing parenthesis.
    fn fill(&mut self, kind: Kind, macros: &Macros) -> Result<(), String> {
        let mut tokens = Tokens { rest: self.text };
        let (Token::Open, Token::Bare(oid)) = (tokens.next()?, tokens.next()?) else {
            return Err("a definition begins with \"(\" and an OID".into());
        };
        self.oid = macros.oid(oid)?;
        loop {
            match tokens.next()? {
                Token::Close => return Ok(()),
                Token::Bare(word) => self.keyword(kind, &word.to_ascii_uppercase(), &mut tokens, macros)?,
                Token::End => return Err("the closing parenthesis is missing".into()),
                Token::Open | Token::Dollar | Token::Quoted(_) => return Err("a keyword was expected".into()),
            }
        }
    }

    fn keyword(&mut self, kind: Kind, word: &str, tokens: &mut Tokens<'a>, macros: &Macros) -> Result<(), String> {
        use Kind::{AttributeType, ContentRule, ObjectClass, Syntax};
        match (kind, word) {
            (_, "NAME") => self.names = tokens.words(word)?,
            (_, "DESC") => drop(tokens.word(word)?),
            (Syntax, "X-SUBST") => self.substitute = tokens.words(word)?.first().copied(),
            (AttributeType | ObjectClass | ContentRule, "OBSOLETE") => self.obsolete = true,
            (AttributeType, "SUP") => self.sups = vec![tokens.word(word)?],
            (AttributeType, "EQUALITY") => self.equality = Some(tokens.word(word)?),
            (AttributeType, "ORDERING") => self.ordering = Some(tokens.word(word)?),
            (AttributeType, "SUBSTR") => self.substrings = Some(tokens.word(word)?),
            (AttributeType, "SYNTAX") => {
                // The length in `oid{len}` is a recommendation that slapd ignores.
                let oid = tokens.word(word)?.split('{').next().unwrap_or_default();
                self.syntax = Some(macros.oid(oid)?);
            }
            (AttributeType, "USAGE") => self.operational = is_operational(tokens.word(word)?)?,
            (AttributeType, "SINGLE-VALUE") => self.single_value = true,
            (AttributeType, "COLLECTIVE") => self.collective = true,
            (AttributeType, "NO-USER-MODIFICATION") => {}
            (AttributeType, "X-ORDERED") => self.ordered = self.ordered.or(ordered(&tokens.words(word)?)),
            (ObjectClass, "SUP") => self.sups = tokens.words(word)?,
            (ObjectClass, "ABSTRACT") => self.class = ClassKind::Abstract,
            (ObjectClass, "STRUCTURAL") => self.class = ClassKind::Structural,
            (ObjectClass, "AUXILIARY") => self.class = ClassKind::Auxiliary,
            (ObjectClass | ContentRule, "MUST") => self.must = tokens.words(word)?,
            (ObjectClass | ContentRule, "MAY") => self.may = tokens.words(word)?,
            (ContentRule, "AUX") => self.auxiliary = tokens.words(word)?,
            (ContentRule, "NOT") => self.not = tokens.words(word)?,
            _ if word.starts_with("X-") => drop(tokens.words(word)?),
            _ => return Err(format!("unknown keyword \"{word}\"")),
        }
        Ok(())
    }
}

fn is_operational(usage: &str) -> Result<bool, String> {
    match usage.to_ascii_lowercase().as_str() {
        "userapplications" => Ok(false),
        "directoryoperation" | "distributedoperation" | "dsaoperation" => Ok(true),
        _ => Err(format!("unknown usage \"{usage}\"")),
    }
}

fn ordered(words: &[&str]) -> Option<XOrdered> {
    match words.first()?.to_ascii_uppercase().as_str() {
        "VALUES" => Some(XOrdered::Values),
        "SIBLINGS" => Some(XOrdered::Siblings),
        _ => None,
    }
}

/// A word or a special character of a definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token<'a> {
    Open,
    Close,
    Dollar,
    Quoted(&'a str),
    Bare(&'a str),
    End,
}

/// Splits a definition into tokens.
#[derive(Debug, Clone)]
struct Tokens<'a> {
    rest: &'a str,
}

impl<'a> Tokens<'a> {
    fn next(&mut self) -> Result<Token<'a>, String> {
        self.rest = self.rest.trim_start();
        let Some(first) = self.rest.bytes().next() else { return Ok(Token::End) };
        match first {
            b'(' => Ok(self.sign(Token::Open)),
            b')' => Ok(self.sign(Token::Close)),
            b'$' => Ok(self.sign(Token::Dollar)),
            b'\'' => self.quoted(),
            _ => Ok(self.bare()),
        }
    }

    /// Returns the word after `keyword`, which must be a name or an OID.
    fn word(&mut self, keyword: &str) -> Result<&'a str, String> {
        match self.next()? {
            Token::Bare(word) | Token::Quoted(word) => Ok(word),
            _ => Err(format!("{keyword} must be followed by a name or an OID")),
        }
    }

    /// Returns the word after `keyword`, or the words in the parentheses after it. A `$` between words is optional.
    fn words(&mut self, keyword: &str) -> Result<Vec<&'a str>, String> {
        match self.next()? {
            Token::Bare(word) | Token::Quoted(word) => Ok(vec![word]),
            Token::Open => self.list(keyword),
            _ => Err(format!("{keyword} must be followed by a name or a list of names")),
        }
    }

    fn list(&mut self, keyword: &str) -> Result<Vec<&'a str>, String> {
        let mut words = Vec::new();
        loop {
            match self.next()? {
                Token::Bare(word) | Token::Quoted(word) => words.push(word),
                Token::Dollar => {}
                Token::Close => return Ok(words),
                Token::Open | Token::End => return Err(format!("the list after {keyword} does not end")),
            }
        }
    }

    fn sign(&mut self, token: Token<'a>) -> Token<'a> {
        self.rest = &self.rest[1..];
        token
    }

    fn quoted(&mut self) -> Result<Token<'a>, String> {
        let (word, rest) = self.rest[1..].split_once('\'').ok_or("a quote does not end")?;
        self.rest = rest;
        Ok(Token::Quoted(word))
    }

    fn bare(&mut self) -> Token<'a> {
        let ends = |sign: char| sign.is_ascii_whitespace() || "()$'".contains(sign);
        let (word, rest) = self.rest.split_at(self.rest.find(ends).unwrap_or(self.rest.len()));
        self.rest = rest;
        Token::Bare(word)
    }
}
