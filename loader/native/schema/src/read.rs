//! Definitions as they stand in cn=config (RFC 4512 section 4.1, with the leniency of libldap's
//! `schema.c`), still without regard to one another.

use crate::names::Names;
use crate::{ClassKind, Problem, Usage, XOrdered};

/// One value of cn=config.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Definition {
    pub kind: Kind,
    /// The value; a leading `{n}` is skipped.
    pub text: String,
    /// It stands in the entry `cn=schema,cn=config` itself, so it is compiled into slapd or a module.
    pub builtin: bool,
}

/// What a definition defines.
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

/// What else in cn=config decides what an entry may hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Values of `olcAttributeOptions`; an option that ends in `-` (or `=`) stands for all that begin so.
    pub attribute_options: Vec<String>,
    /// The database has the overlay `dds`, without which slapd refuses dynamic objects.
    pub dynamic_objects: bool,
    /// Some database has the overlay `ppolicy`. Until 2.4 that, not the module, makes slapd treat
    /// `pwdAttribute` in a way of its own.
    pub password_policy: bool,
}

impl Default for Settings {
    /// As slapd without configuration: the option `lang-`, no dynamic objects.
    fn default() -> Self {
        Self {
            attribute_options: vec!["lang-".into()],
            dynamic_objects: false,
            password_policy: false,
        }
    }
}

impl Definition {
    /// The definition without the `{n}` that orders it among its siblings, and whether it is
    /// compiled in: what is compiled in has no number.
    pub(crate) fn unnumbered(&self) -> (&str, bool) {
        let text = self.text.trim();
        let numbered = text.strip_prefix('{').and_then(|rest| rest.split_once('}'));
        match numbered {
            Some((number, rest)) if number.bytes().all(|byte| byte.is_ascii_digit()) => {
                (rest.trim_start(), false)
            }
            _ => (text, self.builtin),
        }
    }
}

/// The macros in force, expanded.
#[derive(Debug, Default)]
pub struct Macros {
    names: Names,
    oids: Vec<String>,
}

impl Macros {
    pub fn define(&mut self, text: &str) -> Result<(), Problem> {
        let mut words = text.split_ascii_whitespace();
        let (Some(name), Some(oid), None) = (words.next(), words.next(), words.next()) else {
            return Err(Problem::of(text, "an OID macro is a name and an OID"));
        };
        let oid = self.expand(oid).ok_or_else(|| Problem::of(text, "unknown OID macro"))?;
        let id =
            u32::try_from(self.oids.len()).map_err(|_| Problem::of(text, "too many macros"))?;
        match self.names.find(name.as_bytes()) {
            Some(known) if self.oids[known as usize] == oid => return Ok(()),
            Some(_) => return Err(Problem::of(text, "the OID macro has another meaning already")),
            None => self.names.insert(name, id),
        };
        self.oids.push(oid);
        Ok(())
    }

    /// The dotted form of `oid`, which begins with a digit or with a macro (`name` or `name:suffix`).
    pub fn expand(&self, oid: &str) -> Option<String> {
        if oid.starts_with(|first: char| first.is_ascii_digit()) {
            return Some(oid.to_owned());
        }
        let (name, suffix) = oid.split_once(':').unwrap_or((oid, ""));
        let base = &self.oids[self.names.find(name.as_bytes())? as usize];
        Some(if suffix.is_empty() { base.clone() } else { format!("{base}.{suffix}") })
    }
}

#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools)] // as in RFC 4512 section 4.1.2
pub struct RawAttribute<'a> {
    pub text: &'a str,
    pub oid: String,
    pub names: Vec<&'a str>,
    pub sup: Option<&'a str>,
    pub equality: Option<&'a str>,
    pub ordering: Option<&'a str>,
    pub substrings: Option<&'a str>,
    /// Dotted, without `{len}`.
    pub syntax: Option<String>,
    pub usage: Usage,
    pub obsolete: bool,
    pub single_value: bool,
    pub collective: bool,
    pub no_user_modification: bool,
    pub ordered: Option<XOrdered>,
    pub builtin: bool,
}

#[derive(Debug, Default)]
pub struct RawClass<'a> {
    pub text: &'a str,
    pub oid: String,
    pub names: Vec<&'a str>,
    pub sups: Vec<&'a str>,
    pub kind: ClassKind,
    pub obsolete: bool,
    pub must: Vec<&'a str>,
    pub may: Vec<&'a str>,
    pub builtin: bool,
}

#[derive(Debug, Default)]
pub struct RawRule<'a> {
    pub text: &'a str,
    pub oid: String,
    pub names: Vec<&'a str>,
    pub obsolete: bool,
    pub auxiliary: Vec<&'a str>,
    pub must: Vec<&'a str>,
    pub may: Vec<&'a str>,
    pub not: Vec<&'a str>,
}

#[derive(Debug, Default)]
pub struct RawSyntax<'a> {
    pub oid: String,
    /// `X-SUBST`: the syntax to be treated as.
    pub substitute: Option<&'a str>,
    pub builtin: bool,
}

/// Reads `( oid ...`, then hands each keyword to `keyword` until the closing parenthesis.
fn each_keyword<'a>(
    text: &'a str,
    macros: &Macros,
    mut keyword: impl FnMut(&str, &mut Tokens<'a>) -> Result<(), String>,
) -> Result<String, Problem> {
    let mut tokens = Tokens::new(text);
    let mut read = || {
        let (Token::Open, Token::Bare(oid)) = (tokens.next()?, tokens.next()?) else {
            return Err("a definition begins with \"(\" and an OID".into());
        };
        let oid = macros.expand(oid).ok_or_else(|| format!("unknown OID macro \"{oid}\""))?;
        loop {
            match tokens.next()? {
                Token::Close => return Ok(oid),
                Token::Bare(word) => keyword(&word.to_ascii_uppercase(), &mut tokens)?,
                Token::End => return Err("the closing parenthesis is missing".into()),
                Token::Open | Token::Dollar | Token::Quoted(_) => {
                    return Err("a keyword was expected".into());
                }
            }
        }
    };
    read().map_err(|what: String| Problem::of(text, &what))
}

/// `DESC` and extensions, which all kinds of definition may have.
fn common(word: &str, tokens: &mut Tokens<'_>) -> Result<(), String> {
    match word {
        "DESC" => tokens.word(word).map(drop),
        _ if word.starts_with("X-") => tokens.words(word).map(drop),
        _ => Err(format!("unknown keyword \"{word}\"")),
    }
}

impl<'a> RawAttribute<'a> {
    pub fn read(text: &'a str, builtin: bool, macros: &Macros) -> Result<Self, Problem> {
        let mut raw = Self { text, builtin, ..Self::default() };
        raw.oid = each_keyword(text, macros, |word, tokens| raw.keyword(word, tokens, macros))?;
        Ok(raw)
    }

    /// First name, or the OID: what slapd calls the type.
    pub fn canonical(&self) -> &str {
        self.names.first().copied().unwrap_or(&self.oid)
    }

    fn keyword(
        &mut self,
        word: &str,
        tokens: &mut Tokens<'a>,
        macros: &Macros,
    ) -> Result<(), String> {
        match word {
            "NAME" => self.names = tokens.words(word)?,
            "SUP" => self.sup = Some(tokens.word(word)?),
            "EQUALITY" => self.equality = Some(tokens.word(word)?),
            "ORDERING" => self.ordering = Some(tokens.word(word)?),
            "SUBSTR" => self.substrings = Some(tokens.word(word)?),
            "SYNTAX" => self.syntax = Some(syntax_oid(tokens.word(word)?, macros)?),
            "USAGE" => self.usage = usage(tokens.word(word)?)?,
            "OBSOLETE" => self.obsolete = true,
            "SINGLE-VALUE" => self.single_value = true,
            "COLLECTIVE" => self.collective = true,
            "NO-USER-MODIFICATION" => self.no_user_modification = true,
            "X-ORDERED" => self.ordered = self.ordered.or(ordered(&tokens.words(word)?)),
            _ => common(word, tokens)?,
        }
        Ok(())
    }
}

/// `oid{len}` or `macro:suffix{len}`; the length is advice and slapd ignores it.
fn syntax_oid(word: &str, macros: &Macros) -> Result<String, String> {
    let oid = word.split_once('{').map_or(word, |(oid, _)| oid);
    macros.expand(oid).ok_or_else(|| format!("unknown OID macro \"{oid}\""))
}

fn usage(word: &str) -> Result<Usage, String> {
    match word.to_ascii_lowercase().as_str() {
        "userapplications" => Ok(Usage::UserApplications),
        "directoryoperation" => Ok(Usage::DirectoryOperation),
        "distributedoperation" => Ok(Usage::DistributedOperation),
        "dsaoperation" => Ok(Usage::DsaOperation),
        _ => Err(format!("unknown usage \"{word}\"")),
    }
}

fn ordered(words: &[&str]) -> Option<XOrdered> {
    match words.first()?.to_ascii_uppercase().as_str() {
        "VALUES" => Some(XOrdered::Values),
        "SIBLINGS" => Some(XOrdered::Siblings),
        _ => None,
    }
}

impl<'a> RawClass<'a> {
    pub fn read(text: &'a str, builtin: bool, macros: &Macros) -> Result<Self, Problem> {
        let mut raw = Self { text, builtin, ..Self::default() };
        raw.oid = each_keyword(text, macros, |word, tokens| raw.keyword(word, tokens))?;
        Ok(raw)
    }

    fn keyword(&mut self, word: &str, tokens: &mut Tokens<'a>) -> Result<(), String> {
        match word {
            "NAME" => self.names = tokens.words(word)?,
            "SUP" => self.sups = tokens.words(word)?,
            "MUST" => self.must = tokens.words(word)?,
            "MAY" => self.may = tokens.words(word)?,
            "ABSTRACT" => self.kind = ClassKind::Abstract,
            "STRUCTURAL" => self.kind = ClassKind::Structural,
            "AUXILIARY" => self.kind = ClassKind::Auxiliary,
            "OBSOLETE" => self.obsolete = true,
            _ => common(word, tokens)?,
        }
        Ok(())
    }
}

impl<'a> RawRule<'a> {
    pub fn read(text: &'a str, macros: &Macros) -> Result<Self, Problem> {
        let mut raw = Self { text, ..Self::default() };
        raw.oid = each_keyword(text, macros, |word, tokens| raw.keyword(word, tokens))?;
        Ok(raw)
    }

    fn keyword(&mut self, word: &str, tokens: &mut Tokens<'a>) -> Result<(), String> {
        match word {
            "NAME" => self.names = tokens.words(word)?,
            "AUX" => self.auxiliary = tokens.words(word)?,
            "MUST" => self.must = tokens.words(word)?,
            "MAY" => self.may = tokens.words(word)?,
            "NOT" => self.not = tokens.words(word)?,
            "OBSOLETE" => self.obsolete = true,
            _ => common(word, tokens)?,
        }
        Ok(())
    }
}

impl<'a> RawSyntax<'a> {
    pub fn read(text: &'a str, builtin: bool, macros: &Macros) -> Result<Self, Problem> {
        let mut raw = Self { builtin, ..Self::default() };
        raw.oid = each_keyword(text, macros, |word, tokens| raw.keyword(word, tokens))?;
        Ok(raw)
    }

    fn keyword(&mut self, word: &str, tokens: &mut Tokens<'a>) -> Result<(), String> {
        match word {
            "X-SUBST" => self.substitute = tokens.words(word)?.first().copied(),
            "NAME" => tokens.words(word).map(drop)?,
            _ => common(word, tokens)?,
        }
        Ok(())
    }
}

/// A word, or a sign of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Token<'a> {
    Open,
    Close,
    Dollar,
    Quoted(&'a str),
    Bare(&'a str),
    End,
}

/// Cuts a definition into words.
#[derive(Debug, Clone)]
pub struct Tokens<'a> {
    rest: &'a str,
}

impl<'a> Tokens<'a> {
    pub fn new(text: &'a str) -> Self {
        Self { rest: text }
    }

    /// The next word; an error tells what is wrong with it.
    pub fn next(&mut self) -> Result<Token<'a>, String> {
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

    /// The next word, which must be a name or an OID.
    pub fn word(&mut self, what: &str) -> Result<&'a str, String> {
        match self.next()? {
            Token::Bare(word) | Token::Quoted(word) => Ok(word),
            _ => Err(format!("{what} must be followed by a name or an OID")),
        }
    }

    /// One word, or several in parentheses, with `$` between them or not.
    pub fn words(&mut self, what: &str) -> Result<Vec<&'a str>, String> {
        match self.next()? {
            Token::Bare(word) | Token::Quoted(word) => Ok(vec![word]),
            Token::Open => self.list(what),
            _ => Err(format!("{what} must be followed by a name or a list of names")),
        }
    }

    fn list(&mut self, what: &str) -> Result<Vec<&'a str>, String> {
        let mut words = Vec::new();
        loop {
            match self.next()? {
                Token::Bare(word) | Token::Quoted(word) => words.push(word),
                Token::Dollar => {}
                Token::Close => return Ok(words),
                Token::Open | Token::End => {
                    return Err(format!("the list after {what} does not end"));
                }
            }
        }
    }

    fn sign(&mut self, token: Token<'a>) -> Token<'a> {
        self.rest = &self.rest[1..];
        token
    }

    fn quoted(&mut self) -> Result<Token<'a>, String> {
        let (word, rest) =
            self.rest[1..].split_once('\'').ok_or_else(|| "a quote does not end".to_owned())?;
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
