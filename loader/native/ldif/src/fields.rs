//! The lines of one record: they are unfolded, split at the colon, and decoded on demand.

use std::borrow::Cow;
use std::ops::Range;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use memchr::{memchr, memchr3};

use crate::outflow::MARK;
use crate::{Code, Error, Record, Result, url};

/// A record whose `dn:` line has been parsed: the DN, and the unparsed attribute lines.
pub struct Entry<'a> {
    pub dn: Cow<'a, [u8]>,
    /// Range of the `dn:` line in the record.
    pub dn_span: Range<usize>,
    /// Whether the record has `changetype: add`, which slapadd does not accept.
    pub change: bool,
    pub fields: Fields<'a>,
}

/// An attribute line.
#[derive(Debug, Clone)]
pub struct Field<'a> {
    text: Cow<'a, [u8]>,
    /// Length of the attribute description.
    end: usize,
    value_at: usize,
    kind: Kind,
    /// Number of the first line of the field in the input.
    pub line: u64,
    /// Range in the record, including folds and the line end.
    pub span: Range<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Plain,
    Base64,
    Url,
}

/// The beginning of a plain line: a description and `: `.
pub struct LineHead {
    text: Box<[u8]>,
    /// The first 16 bytes, and a mask that selects the bytes of the head.
    word: u128,
    mask: u128,
    /// The last 16 bytes, if the head is longer than 16.
    last: Option<u128>,
}

impl LineHead {
    pub fn new(description: &[u8]) -> Self {
        let text = [description, b": "].concat().into_boxed_slice();
        let (mut word, mut mask) = ([0; 16], [0; 16]);
        word.iter_mut().zip(&text).for_each(|(to, from)| *to = *from);
        mask.iter_mut().zip(&text).for_each(|(to, _)| *to = 0xff);
        let (word, mask) = (u128::from_le_bytes(word), u128::from_le_bytes(mask));
        let last = text.last_chunk().filter(|_| text.len() > 16).copied().map(u128::from_le_bytes);
        Self { text, word, mask, last }
    }

    pub fn description(&self) -> &[u8] {
        &self.text[..self.text.len() - 2]
    }

    /// Returns the text after this head, if the line begins with it.
    #[inline]
    fn strip<'a>(&self, line: &'a [u8]) -> Option<&'a [u8]> {
        let Some(first) = line.first_chunk() else { return line.strip_prefix(&*self.text) };
        if u128::from_le_bytes(*first) & self.mask != self.word {
            return None;
        }
        let (head, value) = line.split_at_checked(self.text.len())?;
        let is_last = |last: u128| head.last_chunk() == Some(&last.to_le_bytes());
        let is_same = self.last.is_none_or(is_last) && (head.len() <= 32 || *head == *self.text);
        is_same.then_some(value)
    }
}

#[derive(Debug, Clone)]
pub struct Fields<'a> {
    bytes: &'a [u8],
    position: usize,
    line: u64,
    urls: bool,
}

impl<'a> Record<'a> {
    /// Returns all lines of the record, from the `dn:` line on.
    pub fn fields(&self) -> Fields<'a> {
        Fields { bytes: self.bytes, position: 0, line: self.line, urls: false }
    }

    /// Parses the head of the record: the `dn:` line, and a `changetype: add` if there is one.
    pub fn entry(&self) -> Result<Entry<'a>> {
        let mut fields = self.fields();
        let plain = fields.plain_value(self.bytes.strip_prefix(b"dn: "), 4);
        let dn = plain.map_or_else(|| self.dn(&mut fields), |dn| Ok(Cow::Borrowed(dn)))?;
        let dn_span = 0..fields.position;
        let change = skip_changetype(&mut fields).map_err(|error| error.of_entry(Some(&dn)))?;
        Ok(Entry { dn, dn_span, change, fields })
    }

    /// Parses the `dn:` line.
    fn dn(&self, fields: &mut Fields<'a>) -> Result<Cow<'a, [u8]>> {
        match fields.next() {
            Some(Ok(field)) if is_dn(field.description()) => field.into_value(),
            Some(Err(error)) if starts_with_dn(self.bytes) => Err(error),
            _ if self.bytes.starts_with(MARK) => {
                let message = "the program that wrote the LDIF failed before the end";
                Err(Error::new(Code::Truncated, message).at(self.line))
            }
            _ => Err(syntax(why_no_record(self.bytes), self.line)),
        }
    }
}

impl<'a> Field<'a> {
    /// Returns the attribute description as written, with its options.
    pub fn description(&self) -> &[u8] {
        &self.text[..self.end]
    }

    /// Returns the attribute description without its options.
    pub fn base(&self) -> &[u8] {
        let description = self.description();
        memchr(b';', description).map_or(description, |options| &description[..options])
    }

    pub fn is(&self, base: &str) -> bool {
        self.base().eq_ignore_ascii_case(base.as_bytes())
    }

    /// Returns the value, decoded from base64 if necessary.
    pub fn value(&self) -> Result<Cow<'_, [u8]>> {
        match self.kind {
            Kind::Plain => Ok(Cow::Borrowed(&self.text[self.value_at..])),
            Kind::Base64 => self.decode().map(Cow::Owned),
            Kind::Url => self.read_file().map(Cow::Owned),
        }
    }

    /// Whether the value is base64 that ends too early.
    pub(crate) fn lacks_base64(&self) -> bool {
        let text = self.text[self.value_at..].trim_ascii_end();
        self.kind == Kind::Base64
            && text.len() % 4 != 0
            && text.iter().all(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(byte))
    }

    fn into_value(self) -> Result<Cow<'a, [u8]>> {
        if self.kind != Kind::Plain {
            return self.value().map(|value| Cow::Owned(value.into_owned()));
        }
        Ok(match self.text {
            Cow::Borrowed(text) => Cow::Borrowed(&text[self.value_at..]),
            Cow::Owned(mut text) => Cow::Owned(text.split_off(self.value_at)),
        })
    }

    /// Reads the file that a line `attribute:< file:///path` names.
    fn read_file(&self) -> Result<Vec<u8>> {
        let url = String::from_utf8_lossy(&self.text[self.value_at..]);
        url::read(&url).map_err(|error| {
            let message = format!("{url}: {}", error.message);
            Error { code: Code::Url, message, ..error }.at(self.line)
        })
    }

    fn decode(&self) -> Result<Vec<u8>> {
        let text = self.text[self.value_at..].trim_ascii_end();
        STANDARD.decode(text).map_err(|error| {
            let name = String::from_utf8_lossy(self.description());
            syntax(format!("the base64 value of {name} does not decode: {error}"), self.line)
        })
    }
}

impl<'a> Fields<'a> {
    /// Makes the iterator accept `attribute:< file:///path`; [`Field::value`] then reads the file.
    #[must_use]
    pub const fn with_urls(mut self) -> Self {
        self.urls = true;
        self
    }

    /// Returns the value of the next line if the line is plain: it begins with `head`, is neither base64 nor folded,
    /// and its value has no leading space, no NUL and no CR. [`Iterator::next`] parses any other line.
    #[inline]
    pub fn next_plain(&mut self, head: &LineHead) -> Option<&'a [u8]> {
        self.plain_value(head.strip(&self.bytes[self.position..]), head.text.len())
    }

    /// Like [`Self::next_plain`], but also returns the value of a line in base64 that is not folded, in `decoded`.
    #[inline]
    pub fn next_value<'v>(&mut self, head: &LineHead, decoded: &'v mut Vec<u8>) -> Option<&'v [u8]>
    where
        'a: 'v,
    {
        let plain = self.next_plain(head);
        if plain.is_some() {
            return plain;
        }
        let text = self.bytes[self.position..].strip_prefix(head.description())?.strip_prefix(b":: ")?;
        let end = memchr(b'\n', text).filter(|end| text.get(end + 1) != Some(&b' '))?;
        decoded.clear();
        STANDARD.decode_vec(&text[..end], decoded).ok()?;
        self.pass(head, b":".len() + end);
        Some(decoded)
    }

    /// Skips the next line if it begins with `head` and has a value that [`Self::next_plain`] returned earlier.
    #[inline]
    pub fn pass_value(&mut self, head: &LineHead, value: &[u8]) -> bool {
        let text = head.strip(&self.bytes[self.position..]);
        let rest = text.and_then(|text| text.strip_prefix(value));
        let is_end = |rest: &[u8]| rest.first() == Some(&b'\n') && rest.get(1) != Some(&b' ');
        let is_same = rest.is_some_and(is_end);
        if is_same {
            self.pass(head, value.len());
        }
        is_same
    }

    /// Skips the next `lines` lines if their text is `text` and no continuation follows.
    #[inline]
    pub fn pass_text(&mut self, text: &[u8], lines: usize) -> bool {
        let rest = self.bytes[self.position..].strip_prefix(text);
        let is_same = rest.is_some_and(|rest| rest.first() != Some(&b' '));
        if is_same {
            self.position += text.len();
            self.line += lines as u64;
        }
        is_same
    }

    /// If the next line begins with `head`, returns the text from the last byte of `head` on, which is a space.
    #[inline]
    pub fn behind(&self, head: &LineHead) -> Option<&'a [u8]> {
        let text = &self.bytes[self.position..];
        head.strip(text).map(|_| &text[head.text.len() - 1..])
    }

    /// Skips the next line, whose value has `length` bytes after `head`.
    #[inline]
    pub fn pass(&mut self, head: &LineHead, length: usize) {
        self.position += head.text.len() + length + 1;
        self.line += 1;
    }

    /// Implements [`Self::next_plain`]. `value` is the text after a head of `length` bytes, with all further lines.
    #[inline]
    fn plain_value(&mut self, value: Option<&'a [u8]>, length: usize) -> Option<&'a [u8]> {
        let value = value.filter(|value| !matches!(value.first(), None | Some(b' ' | b'\t'..=b'\r')))?;
        let end = memchr3(b'\n', b'\r', 0, value)?;
        if value[end] != b'\n' || value.get(end + 1) == Some(&b' ') {
            return None;
        }
        self.position += length + end + 1;
        self.line += 1;
        Some(&value[..end])
    }

    /// Whether all lines of the record are consumed.
    pub fn is_at_end(&self) -> bool {
        self.position == self.bytes.len()
    }

    fn physical_line(&mut self) -> &'a [u8] {
        let rest = &self.bytes[self.position..];
        let end = memchr(b'\n', rest).map_or(rest.len(), |newline| newline + 1);
        self.position += end;
        self.line += 1;
        strip_line_end(&rest[..end])
    }

    fn is_folded(&self) -> bool {
        self.bytes.get(self.position) == Some(&b' ')
    }

    fn logical_line(&mut self) -> Cow<'a, [u8]> {
        let mut text = Cow::Borrowed(self.physical_line());
        while self.is_folded() {
            let continuation = &self.physical_line()[1..];
            text.to_mut().extend_from_slice(continuation);
        }
        text
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<Field<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.bytes.get(self.position) == Some(&b'#') {
            self.logical_line();
        }
        if self.is_at_end() {
            return None;
        }
        let (start, line) = (self.position, self.line);
        let text = self.logical_line();
        Some(field(text, line, start..self.position, self.urls))
    }
}

fn field(mut text: Cow<'_, [u8]>, line: u64, span: Range<usize>, urls: bool) -> Result<Field<'_>> {
    let (end, colon) = end_of_description(&text).map_err(|message| syntax(message, line))?;
    if span.start > 0 && is_dn(&text[..end]) {
        let message = "\"dn:\" begins a record: the blank line before it is missing";
        return Err(syntax(message, line));
    }
    if memchr(b'\r', &text).is_some() {
        text.to_mut().retain(|byte| *byte != b'\r'); // as slapd's tools do (ldif_parse_line2)
    }
    let (kind, mark) = match text.get(colon + 1) {
        Some(b':') => (Kind::Base64, 2),
        Some(b'<') if urls => (Kind::Url, 2),
        Some(b'<') => return Err(url_refused(&text[..end], line)),
        _ => (Kind::Plain, 1),
    };
    let value_at = skip_spaces(&text, colon + mark);
    if kind == Kind::Plain && memchr(0, &text[value_at..]).is_some() {
        return Err(nul_in_value(&text[..end], line));
    }
    Ok(Field { text, end, value_at, kind, line, span })
}

/// Returns the end of the description and the position of the colon; like slapd's tools, it allows spaces between them.
fn end_of_description(text: &[u8]) -> std::result::Result<(usize, usize), &'static str> {
    let end = text.iter().position(|&byte| !DESCRIPTION[usize::from(byte)]).unwrap_or(text.len());
    let colon = skip_spaces(text, end);
    match text.get(colon) {
        Some(b':') if end > 0 => Ok((end, colon)),
        _ if text.contains(&b':') => Err("the text before the colon is not an attribute"),
        _ => Err("a line without a colon; a continuation line begins with a space"),
    }
}

fn is_dn(description: &[u8]) -> bool {
    description.eq_ignore_ascii_case(b"dn")
}

fn starts_with_dn(record: &[u8]) -> bool {
    record.get(..3).is_some_and(|head| head.eq_ignore_ascii_case(b"dn:"))
}

/// Returns the reason why no record begins with this text.
fn why_no_record(text: &[u8]) -> &'static str {
    let line = strip_line_end(text.split_inclusive(|&byte| byte == b'\n').next().unwrap_or(text));
    let name = line.split(|&byte| byte == b':').next().unwrap_or(line);
    match line.trim_ascii_start() {
        [b'<', ..] => "this is HTML or XML, not LDIF",
        [b'{' | b'[', ..] => "this is JSON, not LDIF",
        [DOS_END, ..] => "the file ends with a Ctrl-Z (0x1A), as files of DOS do: remove it",
        _ if matches!(name, b"search" | b"result") => {
            "ldapsearch writes this after the entries: use its option -LLL, which omits it"
        }
        _ if name == b"changetype" => "a change without the DN of its entry",
        _ if name.len() == line.len() && line.iter().any(|byte| b",;\t".contains(byte)) => {
            "this is not LDIF; it looks like a table (CSV)"
        }
        _ => "a record begins with \"dn:\"",
    }
}

/// Ctrl-Z, the end of a text file in CP/M and DOS.
const DOS_END: u8 = 0x1a;

/// Characters of attribute descriptions (RFC 4512); some servers also accept `_`.
const DESCRIPTION: [bool; 256] = {
    let letters = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-;._";
    let mut table = [false; 256];
    let mut at = 0;
    while at < letters.len() {
        table[letters[at] as usize] = true;
        at += 1;
    }
    table
};

/// Skips spaces after the colon. RFC 2849 allows only spaces, but slapd's tools skip all characters for which C's
/// isspace is true, and never write a value that begins with one.
fn skip_spaces(text: &[u8], from: usize) -> usize {
    from + text[from..].iter().take_while(|&&byte| matches!(byte, b' ' | b'\t'..=b'\r')).count()
}

fn strip_line_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Returns whether the record has `changetype: add`; any other change is an error.
fn skip_changetype(fields: &mut Fields<'_>) -> Result<bool> {
    if !may_be_change(&fields.bytes[fields.position..]) {
        return Ok(false);
    }
    let Some(first) = fields.clone().next().transpose()? else {
        return Ok(false);
    };
    if first.is("control") {
        return Err(
            Error::new(Code::ChangeType, "a control belongs to a change, which is for ldapmodify").at(first.line)
        );
    }
    if !first.is("changetype") {
        return Ok(false);
    }
    let kind = first.value()?;
    if !kind.trim_ascii().eq_ignore_ascii_case(b"add") {
        let kind = String::from_utf8_lossy(&kind);
        let message = format!("`changetype: {kind}` makes this a change, which is for ldapmodify");
        return Err(Error::new(Code::ChangeType, message).at(first.line));
    }
    fields.next();
    Ok(true)
}

/// Whether the line may be a `changetype` or `control` line, or a comment before it: a cheap check before parsing.
fn may_be_change(line: &[u8]) -> bool {
    matches!(line, [b'#', ..] | [b'c' | b'C', b'h' | b'H' | b'o' | b'O', ..])
}

fn url_refused(description: &[u8], line: u64) -> Error {
    let name = String::from_utf8_lossy(description);
    let advice = "put the value itself, or use `ditseed build --allow-file-urls`";
    Error::new(Code::Url, format!("the value of {name} is a URL; {advice}")).at(line)
}

/// Returns the error for a NUL in a value: slapadd ends the line at the NUL, and continues it with the next line.
fn nul_in_value(description: &[u8], line: u64) -> Error {
    let name = String::from_utf8_lossy(description);
    syntax(format!("the value of {name} contains a NUL, which LDIF requires in base64"), line)
}

fn syntax(message: impl Into<String>, line: u64) -> Error {
    Error::new(Code::Syntax, message).at(line)
}
