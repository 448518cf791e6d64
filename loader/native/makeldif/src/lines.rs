//! The lines of a template file, with the spot in the file that each character of them came from.
//!
//! A line that begins with a space goes on the one before it, as in LDIF; text that a define brought
//! in has the spot of the bracket that named it.

use std::ops::Range;

use synth::problem::Location;

/// A line, continued ones joined.
#[derive(Clone, Debug, Default)]
pub struct Line {
    pub text: String,
    origins: Vec<Origin>,
}

/// From `offset` on, the text stands at `spot`; only what was copied moves on with each character.
#[derive(Clone, Copy, Debug, Default)]
struct Origin {
    offset: usize,
    spot: Location,
    copied: bool,
}

impl Line {
    fn push(&mut self, text: &str, spot: Location, copied: bool) {
        self.origins.push(Origin { offset: self.text.len(), spot, copied });
        self.text.push_str(text);
    }

    /// Where the character at `offset` (in bytes) stands in the file.
    pub fn spot(&self, offset: usize) -> Location {
        let origin = self.origin(offset);
        self.moved(origin.offset, origin.spot, offset)
    }

    /// The same, quicker, when the spot of a character before it is known.
    pub fn spot_behind(&self, known: usize, spot: Location, offset: usize) -> Location {
        if self.origin(known).offset == self.origin(offset).offset {
            return self.moved(known, spot, offset);
        }
        self.spot(offset)
    }

    fn moved(&self, from: usize, spot: Location, offset: usize) -> Location {
        if !self.origin(from).copied {
            return spot;
        }
        let between = self.text.get(from..offset).unwrap_or_default().chars().count();
        let moved = u32::try_from(between).unwrap_or(u32::MAX);
        Location::new(spot.line, spot.column.saturating_add(moved))
    }

    fn origin(&self, offset: usize) -> Origin {
        self.origins[..self.after(offset)].last().copied().unwrap_or_default()
    }

    /// The place of the first origin behind an offset.
    fn after(&self, offset: usize) -> usize {
        self.origins.partition_point(|origin| origin.offset <= offset)
    }

    /// The line with ranges of it, in order, replaced.
    pub fn replaced(&self, changes: &[(Range<usize>, &str)]) -> Self {
        let mut made = Self::default();
        let mut at = 0;
        for (range, text) in changes {
            self.copy(at..range.start, &mut made);
            made.push(text, self.spot(range.start), false);
            at = range.end;
        }
        self.copy(at..self.text.len(), &mut made);
        made
    }

    fn copy(&self, range: Range<usize>, into: &mut Self) {
        let mut at = range.start;
        while at < range.end {
            let next = self.origins.get(self.after(at)).map(|origin| origin.offset);
            let end = next.map_or(range.end, |next| next.min(range.end));
            into.push(&self.text[at..end], self.spot(at), self.origin(at).copied);
            at = end;
        }
    }
}

/// The lines of a file, continued ones joined. Empty ones stay, for they end a block.
///
/// The error is the spot of a continuation that has nothing before it.
pub fn lines(text: &str) -> Result<Vec<Line>, Location> {
    let mut found: Vec<Line> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let number = u32::try_from(index + 1).unwrap_or(u32::MAX);
        if let Some(rest) = line.strip_prefix(' ') {
            let last = found.last_mut().filter(|last| !last.text.is_empty());
            last.ok_or(Location::new(number, 1))?.push(rest, Location::new(number, 2), true);
        } else {
            let mut begun = Line::default();
            begun.push(line, Location::new(number, 1), true);
            found.push(begun);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_space_goes_on_the_line_before() {
        let found = lines("ab\n cd\n\nef").unwrap();
        let texts: Vec<&str> = found.iter().map(|line| line.text.as_str()).collect();
        assert_eq!(texts, ["abcd", "", "ef"]);
        assert_eq!(found[0].spot(1), Location::new(1, 2));
        assert_eq!(found[0].spot(3), Location::new(2, 3));
        assert_eq!(lines("a\n\n b").unwrap_err(), Location::new(3, 1));
    }

    #[test]
    fn what_is_replaced_keeps_the_spots_of_the_rest() {
        let line = &lines("x[a]\u{e9}[b]z\n w").unwrap()[0];
        let made = line.replaced(&[(1..4, "long"), (6..9, "")]);
        assert_eq!(made.text, "xlong\u{e9}zw");
        let spots = [(0, 1, 1), (1, 1, 2), (4, 1, 2), (5, 1, 5), (7, 1, 9), (8, 2, 2)];
        for (offset, row, column) in spots {
            assert_eq!(made.spot(offset), Location::new(row, column), "{offset}");
        }
    }
}
