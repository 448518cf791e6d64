//! Attribute types, object classes, content rules and syntaxes as written: names not looked up yet.

use super::Macros;
use super::tokens::{Token, Tokens};
use crate::{ClassKind, Problem, Usage, XOrdered};

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
