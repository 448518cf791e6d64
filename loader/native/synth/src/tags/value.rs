//! Values of the entry, as they are and changed; the suffix.

use unicode_normalization::UnicodeNormalization as _;

use super::{EntryContext, Render, Scope, SlotFacts};

#[derive(Debug)]
struct Value(SlotFacts);

pub fn value(name: &str, scope: &Scope<'_>) -> Result<Box<dyn Render>, String> {
    Ok(Box::new(Value(scope.slot(name)?)))
}

impl Render for Value {
    fn write(&self, at: &mut EntryContext<'_>, out: &mut Vec<u8>) {
        out.extend_from_slice(&at.slots[self.0.at].text);
    }

    fn most(&self) -> u64 {
        self.0.most
    }

    fn is_printable(&self) -> bool {
        self.0.printable
    }
}

#[derive(Debug)]
struct Start {
    slot: SlotFacts,
    characters: usize,
}

pub fn start(name: &str, characters: usize, scope: &Scope<'_>) -> Result<Box<dyn Render>, String> {
    Ok(Box::new(Start { slot: scope.slot(name)?, characters }))
}

impl Render for Start {
    fn write(&self, at: &mut EntryContext<'_>, out: &mut Vec<u8>) {
        out.extend_from_slice(first(&at.slots[self.slot.at].text, self.characters));
    }

    fn most(&self) -> u64 {
        self.slot.most.min(4_u64.saturating_mul(self.characters as u64))
    }

    fn is_printable(&self) -> bool {
        self.slot.printable
    }
}

fn first(text: &[u8], characters: usize) -> &[u8] {
    // A character of UTF-8 begins with any byte but 0b10xx_xxxx.
    let mut starts = (0..text.len()).filter(|&place| text[place] & 0xC0 != 0x80);
    &text[..starts.nth(characters).unwrap_or(text.len())]
}

#[derive(Debug)]
struct Ascii(SlotFacts);

pub fn ascii(name: &str, scope: &Scope<'_>) -> Result<Box<dyn Render>, String> {
    Ok(Box::new(Ascii(scope.slot(name)?)))
}

impl Render for Ascii {
    fn write(&self, at: &mut EntryContext<'_>, out: &mut Vec<u8>) {
        plain(&at.slots[self.0.at].text, out);
    }

    fn most(&self) -> u64 {
        // One letter becomes three at most, such as the sign for 3/4.
        self.0.most.saturating_mul(3)
    }
}

/// "Zoë O'Neil" becomes "zoeoneil".
fn plain(text: &[u8], out: &mut Vec<u8>) {
    if text.is_ascii() {
        let kept = text.iter().filter(|byte| byte.is_ascii_alphanumeric());
        out.extend(kept.map(u8::to_ascii_lowercase));
        return;
    }
    let text = String::from_utf8_lossy(text);
    let kept = text.nfkd().filter(char::is_ascii_alphanumeric);
    out.extend(kept.map(|letter| letter.to_ascii_lowercase() as u8));
}

#[derive(Debug)]
struct Constant(Vec<u8>);

pub fn suffix(scope: &Scope<'_>) -> Box<dyn Render> {
    Box::new(Constant(scope.suffix.as_bytes().to_vec()))
}

impl Render for Constant {
    fn write(&self, _at: &mut EntryContext<'_>, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0);
    }

    fn most(&self) -> u64 {
        self.0.len() as u64
    }

    fn is_printable(&self) -> bool {
        ldif::write::is_printable(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_are_not_cut_apart() {
        for (characters, expected) in [(0, ""), (1, "\u{141}"), (2, "\u{141}u"), (9, "\u{141}uk")] {
            assert_eq!(first("\u{141}uk".as_bytes(), characters), expected.as_bytes());
        }
    }

    #[test]
    fn names_become_fit_for_a_mail_address() {
        for (name, expected) in
            [("Zo\u{eb}", "zoe"), ("O'Brien", "obrien"), ("Smith", "smith"), ("\u{141}uk", "uk")]
        {
            let mut out = Vec::new();
            plain(name.as_bytes(), &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }
}
