//! How a number is written: the patterns of java.text.DecimalFormat, as far as whole numbers need them.

/// Digits after the point that a pattern may ask for.
const MOST_DIGITS: usize = 340;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Format {
    before: String,
    after: String,
    /// Around numbers below 0; None is a minus sign before the rest.
    negative: Option<(String, String)>,
    /// Digits between two commas; 0 for none.
    group: usize,
    /// Digits there are at least.
    whole: usize,
    fraction: usize,
    /// 100 for percent, 1000 for per mille.
    times: i128,
}

impl Format {
    pub fn parse(pattern: &str) -> Result<Self, String> {
        let wrong = |reason: &str| format!("{pattern:?} is no pattern for a number: {reason}");
        let mut parts = split(pattern).map_err(wrong)?.into_iter();
        let [before, digits, after] = parts.next().unwrap_or_default();
        let times = if format!("{before}{after}").contains('%') { 100 } else { 1 };
        let mut format = Self { times, ..Self::default() };
        format.digits(&digits).map_err(wrong)?;
        format.negative = parts.next().map(|[before, _, after]| (plain(&before), plain(&after)));
        (format.before, format.after) = (plain(&before), plain(&after));
        if parts.next().is_some() || format.whole + format.fraction > MOST_DIGITS {
            return Err(wrong("it is too long"));
        }
        Ok(format)
    }

    fn digits(&mut self, digits: &str) -> Result<(), &'static str> {
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        if whole.trim_start_matches(['#', ',']).contains('#')
            || fraction.trim_start_matches('0').contains(['0', ',', '.'])
        {
            return Err("# stands outside of 0");
        }
        if digits.is_empty() {
            return Err("it has neither # nor 0");
        }
        self.group = whole.rsplit_once(',').map_or(0, |(_, group)| group.len());
        if whole.ends_with(',') {
            return Err("a comma needs digits behind it");
        }
        self.whole = whole.matches('0').count();
        self.fraction = fraction.matches('0').count();
        Ok(())
    }

    pub fn is_printable(&self) -> bool {
        let (low_before, low_after) = self.negative.clone().unwrap_or_default();
        let around = [&self.before, &self.after, &low_before, &low_after];
        around.iter().all(|text| ldif::write::is_printable(text.as_bytes()))
    }

    pub fn write(&self, number: i64, out: &mut Vec<u8>) {
        let minus = format!("-{}", self.before);
        let (before, after) = match &self.negative {
            _ if number >= 0 => (&self.before, &self.after),
            Some((before, after)) => (before, after),
            None => (&minus, &self.after),
        };
        let scaled = (i128::from(number) * self.times).unsigned_abs();
        out.extend_from_slice(before.as_bytes());
        self.write_digits(scaled, out);
        out.extend_from_slice(after.as_bytes());
    }

    fn write_digits(&self, number: u128, out: &mut Vec<u8>) {
        // A zero that no place asks for is not written, unless there would be nothing.
        let is_left_out = number == 0 && self.whole == 0 && self.fraction > 0;
        let digits = if is_left_out {
            String::new()
        } else {
            format!("{number:0width$}", width = self.whole)
        };
        for (place, digit) in digits.bytes().enumerate() {
            let rest = digits.len() - place;
            if place > 0 && self.group > 0 && rest % self.group == 0 {
                out.push(b',');
            }
            out.push(digit);
        }
        if self.fraction > 0 {
            out.push(b'.');
            out.extend(std::iter::repeat_n(b'0', self.fraction));
        }
    }
}

/// The positive and the negative part, each as what stands before the digits, the digits, and what stands behind.
/// Quotes stay, so that signs between them are told from signs that mean something.
fn split(pattern: &str) -> Result<Vec<[String; 3]>, &'static str> {
    let mut parts: Vec<[String; 3]> = vec![Default::default()];
    let (mut at, mut quoted) = (0, false);
    for letter in pattern.chars() {
        quoted ^= letter == '\'';
        let is_digit = !quoted && matches!(letter, '#' | '0' | ',' | '.');
        match letter {
            ';' if !quoted => {
                parts.push(Default::default());
                at = 0;
                continue;
            }
            'E' if !quoted && at == 1 => return Err("exponents are not known here"),
            '\u{a4}' | '\u{2030}' if !quoted => {
                return Err("currencies and per mille are not known here");
            }
            _ if is_digit && at == 2 => return Err("digits stand in two places"),
            _ if is_digit => at = 1,
            _ if at == 1 => at = 2,
            _ => {}
        }
        if let Some(part) = parts.last_mut() {
            part[at].push(letter);
        }
    }
    if quoted { Err("a quote is not closed") } else { Ok(parts) }
}

/// Without quotes; two of them are one.
fn plain(text: &str) -> String {
    text.replace("''", "\0").replace('\'', "").replace('\0', "'")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What Java 17 makes of them.
    #[test]
    fn numbers_look_as_in_java() {
        let cases = [
            ("#,##0", 12_345, "12,345"),
            ("00000", 12, "00012"),
            ("000.00'x'", -7, "-007.00x"),
            ("0.0#", 1, "1.0"),
            ("##%", 5, "500%"),
            ("$#,###.00;(#)", 1_234_567, "$1,234,567.00"),
            ("#,###;(#)", -1234, "(1,234)"),
            ("abc000def", 7, "abc007def"),
            ("#", 0, "0"),
            ("#.00", 0, ".00"),
            ("#,##0.00", 0, "0.00"),
            ("#,#0", 1_234_567, "1,23,45,67"),
            ("#", i64::MIN, "-9223372036854775808"),
        ];
        for (pattern, number, expected) in cases {
            let mut out = Vec::new();
            Format::parse(pattern).unwrap().write(number, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expected, "{pattern}");
        }
    }

    #[test]
    fn what_is_no_pattern_is_told() {
        for pattern in ["0#", "x", "0E0", "0x0", "'0", "0,", "0.#0", ""] {
            assert!(Format::parse(pattern).is_err(), "{pattern}");
        }
    }
}
