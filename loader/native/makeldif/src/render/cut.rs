//! The beginning of a value of the entry.

use synth::tags::{EntryContext, Render, Scope, SlotFacts};

#[derive(Debug)]
struct Cut {
    /// In the order in which they are looked for.
    slots: Vec<SlotFacts>,
    characters: usize,
}

pub fn cut(
    names: &[String],
    characters: usize,
    scope: &Scope<'_>,
) -> Result<Box<dyn Render>, String> {
    let slots = names.iter().map(|name| scope.slot(name)).collect::<Result<_, _>>()?;
    Ok(Box::new(Cut { slots, characters }))
}

impl Render for Cut {
    fn write(&self, at: &mut EntryContext<'_>, out: &mut Vec<u8>) {
        let mut slots = self.slots.iter().map(|facts| &at.slots[facts.at]);
        if let Some(slot) = slots.find(|slot| slot.there) {
            out.extend_from_slice(beginning(&slot.text, self.characters));
        }
    }

    fn most(&self) -> u64 {
        self.slots.iter().map(|slot| slot.most).max().unwrap_or(0)
    }

    fn is_printable(&self) -> bool {
        self.slots.iter().all(|slot| slot.printable)
    }
}

/// So many characters of UTF-8 text; all of it when that is 0.
fn beginning(text: &[u8], characters: usize) -> &[u8] {
    if characters == 0 || text.len() <= characters {
        return text;
    }
    let mut starts = (0..text.len()).filter(|&at| text[at] & 0xC0 != 0x80);
    &text[..starts.nth(characters).unwrap_or(text.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_are_not_cut_in_two() {
        let text = "Zo\u{eb}".as_bytes();
        for (characters, bytes) in [(0, 4), (1, 1), (2, 2), (3, 4), (9, 4)] {
            assert_eq!(beginning(text, characters).len(), bytes);
        }
    }
}
