//! The words of a definition.

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
