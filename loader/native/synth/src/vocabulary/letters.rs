//! A coarse table of which letter follows which, and words generated from it.

use crate::distribution::even;
use crate::draw::{again, below};

/// The letters a to z, one symbol for all two-byte letters, and one for all three-byte letters.
pub const SYMBOLS: usize = 28;
/// One row for the beginning of a word, and one row after each symbol.
pub const ROWS: usize = SYMBOLS + 1;
/// The symbol of two-byte letters.
const TWO: usize = 26;
/// The letters that a word may have for the symbol of two-byte letters.
const TWO_BYTES: [char; 16] = ['à', 'á', 'ä', 'å', 'æ', 'ç', 'è', 'é', 'ê', 'í', 'ñ', 'ó', 'ö', 'ø', 'ú', 'ü'];
/// The first of the letters that a word may have for the symbol of three-byte letters, and the number of these letters.
const THREE_BYTES: u32 = 0x4E00;
const THREE_BYTES_COUNT: u64 = 512;
/// Number of letters that may follow a letter in the last part of a unique word ([`Letters::counted`]).
const FOLLOWERS: usize = 16;
const BASE: u64 = FOLLOWERS as u64;

#[derive(Debug, Clone, PartialEq)]
pub struct Letters {
    /// For each row, the cumulative weights of the next symbol.
    rows: Vec<[u32; SYMBOLS]>,
    /// For each row, the most frequent next letters from a to z, by descending frequency.
    best: Vec<[u8; FOLLOWERS]>,
}

impl Letters {
    /// Parses a table. Its rows have a digit for each possible next symbol: 9 means most frequent, each lower digit
    /// half as frequent, 0 never. Returns None if the table has the wrong size or anything but digits.
    pub fn new(rows: &[&str]) -> Option<Self> {
        if rows.len() != ROWS {
            return None;
        }
        let marks = rows.iter().map(|row| marks(row)).collect::<Option<Vec<_>>>()?;
        let first = marks[0];
        let filled = marks.into_iter().map(|row| filled(row, &first));
        let (rows, best) = filled.map(|row| (cumulated(&row), best(&row))).unzip();
        Some(Self { rows, best })
    }

    /// Appends a word of this many letters, which follow from `bits`. With `ascii`, it has only the letters a to z.
    /// Returns the row of the last letter.
    pub fn walk(&self, bits: u64, letters: u64, ascii: bool, out: &mut Vec<u8>) -> usize {
        let mut row = 0;
        for turn in 0..letters {
            let bits = again(bits, turn + 1);
            let weights = &self.rows[row];
            let drawn = u32::try_from(below(bits, u64::from(weights[SYMBOLS - 1]))).unwrap_or(0);
            let mut symbol = weights.partition_point(|weight| *weight <= drawn);
            if ascii && symbol >= TWO {
                symbol = even(again(bits, 2), TWO);
            }
            push(symbol, again(bits, 1), out);
            row = symbol + 1;
        }
        row
    }

    /// Appends a word of at least this many letters. Its last letters encode `number`, with the most frequent next
    /// letters as digits, so that the words of different numbers below `count` differ.
    pub fn counted(&self, bits: u64, letters: u64, (number, count): (u64, u64), ascii: bool, out: &mut Vec<u8>) {
        let digits = digits(count);
        let mut row = self.walk(bits, letters.saturating_sub(digits), ascii, out);
        let mut rest = number;
        for _ in 0..digits {
            let digit = usize::try_from(rest % BASE).unwrap_or(0);
            let symbol = usize::from(self.best[row][digit]);
            push(symbol, 0, out);
            row = symbol + 1;
            rest /= BASE;
        }
    }
}

/// Returns how many digits of base [`BASE`] distinguish `count` numbers.
fn digits(count: u64) -> u64 {
    let mut digits = 1;
    let mut most = BASE;
    while most < count {
        most = most.saturating_mul(BASE);
        digits += 1;
    }
    digits
}

/// Parses a row.
fn marks(row: &str) -> Option<[u8; SYMBOLS]> {
    let digits: Vec<u8> = row.bytes().filter(u8::is_ascii_digit).map(|digit| digit - b'0').collect();
    if row.len() == SYMBOLS { digits.try_into().ok() } else { None }
}

/// Returns `row` if it has a digit above 0, otherwise `first`, the row for the beginning of a word. If both have only
/// zeros, returns equal weights.
fn filled(row: [u8; SYMBOLS], first: &[u8; SYMBOLS]) -> [u8; SYMBOLS] {
    [row, *first].into_iter().find(|row| row.iter().any(|mark| *mark > 0)).unwrap_or([1; SYMBOLS])
}

/// Returns the cumulative weights of a row.
fn cumulated(row: &[u8; SYMBOLS]) -> [u32; SYMBOLS] {
    let mut sum = 0;
    row.map(|mark| {
        sum += if mark == 0 { 0 } else { 1 << (mark - 1) };
        sum
    })
}

/// Returns the most frequent letters from a to z. Other symbols cannot encode a number, because each stands for many
/// letters.
fn best(row: &[u8; SYMBOLS]) -> [u8; FOLLOWERS] {
    let mut order: Vec<u8> = (0..26).collect();
    order.sort_by_key(|&symbol| std::cmp::Reverse(row[usize::from(symbol)]));
    std::array::from_fn(|at| order[at])
}

/// Appends a letter for the symbol; `bits` select one of several letters.
fn push(symbol: usize, bits: u64, out: &mut Vec<u8>) {
    if symbol < TWO {
        out.push(b'a' + u8::try_from(symbol).unwrap_or(0));
        return;
    }
    let letter = if symbol == TWO {
        TWO_BYTES[even(bits, TWO_BYTES.len())]
    } else {
        let offset = u32::try_from(below(bits, THREE_BYTES_COUNT)).unwrap_or(0);
        char::from_u32(THREE_BYTES + offset).unwrap_or('一')
    };
    out.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
}

/// The table of the shipped words and names, for [`Letters::new`].
pub const LATIN: [&str; ROWS] = [
    "9998888878889778489757805500",
    "4666446560477904097765435300",
    "7400900064060070084074000040",
    "7050700970660080054630000000",
    "8405905080055080086560604000",
    "6466544260075854097725334500",
    "8000986090077080090080000000",
    "8004900770054670080470004040",
    "9000900070056670064670405040",
    "8587847000686955068746030430",
    "9000500000000090000080000070",
    "8000950670070570075070000070",
    "8405963084385380036555306500",
    "9600800080006376005050003040",
    "9579908484600880068960004540",
    "3654065630387966097675635040",
    "8500950760085085076500500500",
    "0000000000000000000090000000",
    "9467907390664783077763306340",
    "8584904680056085007975004040",
    "8050904880064080085870404000",
    "6767746470487806098700045400",
    "9000900090000070050000000000",
    "9000800580000570050000005000",
    "9000700000000000000000000000",
    "9000900060070670007060000000",
    "8700700090000080000000000070",
    "0007078800070800090000700000",
    "0000000000000000000000000000",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counted_words_have_digits_for_all_of_them() {
        assert_eq!((digits(1), digits(16), digits(17), digits(u64::MAX)), (1, 1, 2, 16));
    }

    #[test]
    fn invalid_tables_are_refused() {
        assert!(Letters::new(&LATIN[1..]).is_none());
        let mut rows = LATIN;
        rows[3] = "12345";
        assert!(Letters::new(&rows).is_none());
        let empty = ["0000000000000000000000000000"; ROWS];
        let mut out = Vec::new();
        Letters::new(&empty).unwrap().walk(1, 5, false, &mut out);
        assert!(out.len() >= 5);
    }
}
