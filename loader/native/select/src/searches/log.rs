//! Parses the lines that slapd logs with `loglevel stats` (`servers/slapd/search.c`, `result.c`).

/// The numbers conn and op, which identify an operation.
pub type Operation = (u64, u64);

#[derive(Debug, PartialEq)]
pub enum Line<'l> {
    Search {
        operation: Operation,
        base: &'l str,
        /// The scope: 0 base, 1 one, 2 sub, 3 children.
        scope: u8,
        filter: &'l str,
    },
    /// nentries, and etime in seconds. slapd 2.4 does not log etime.
    Result { operation: Operation, entries: u64, seconds: Option<f64> },
}

/// Parses a line. Returns `None` unless the line logs a search or the result of a search.
pub fn line(text: &str) -> Option<Line<'_>> {
    let begin = text.find("conn=")?;
    let (number, rest) = leading(&text[begin + 5..])?;
    let (op, rest) = leading(rest.strip_prefix(" op=")?)?;
    let operation = (number, op);
    if let Some(rest) = rest.strip_prefix(" SRCH base=\"") {
        let (base, rest) = rest.split_once("\" scope=")?;
        let (scope, rest) = leading(rest)?;
        let (_, filter) = rest.split_once(" filter=\"")?;
        let filter = filter.trim_end().strip_suffix('"')?;
        return Some(Line::Search { operation, base, scope: scope.try_into().ok()?, filter });
    }
    let rest = rest.strip_prefix(" SEARCH RESULT ")?;
    let of = |name: &str| rest.split(' ').find_map(|word| word.strip_prefix(name));
    Some(Line::Result {
        operation,
        entries: of("nentries=")?.parse().ok()?,
        seconds: of("etime=").and_then(|word| word.parse().ok()),
    })
}

fn leading(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|sign: char| !sign.is_ascii_digit()).unwrap_or(text.len());
    Some((text[..end].parse().ok()?, &text[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_and_its_result_are_parsed() {
        let text = "Nov 25 10:00:00 host slapd[7]: conn=1001 op=2 SRCH base=\"dc=x\" scope=2 deref=0 \
                    filter=\"(cn=a\"b)\"";
        let operation = (1001, 2);
        let filter = "(cn=a\"b)";
        assert_eq!(line(text), Some(Line::Search { operation, base: "dc=x", scope: 2, filter }));
        let text = "conn=1001 op=2 SEARCH RESULT tag=101 err=0 qtime=0.000014 etime=0.002100 nentries=7 text=";
        let seconds = Some(0.0021);
        assert_eq!(line(text), Some(Line::Result { operation, entries: 7, seconds }));
        let text = "conn=1001 op=2 SEARCH RESULT tag=101 err=0 nentries=7 text=";
        assert_eq!(line(text), Some(Line::Result { operation, entries: 7, seconds: None }));
    }

    #[test]
    fn other_lines_are_ignored() {
        for text in [
            "",
            "conn=",
            "conn=x op=1 SRCH",
            "conn=1 op=1 SRCH attr=cn",
            "conn=1 op=1 SRCH base=\"dc=x\" scope=2 deref=0 filter=\"(cn=cut",
            "conn=1 op=0 BIND dn=\"\" method=128",
            "conn=99999999999999999999 op=1 SRCH base=\"\" scope=2 deref=0 filter=\"(cn=a)\"",
        ] {
            assert_eq!(line(text), None, "{text}");
        }
    }
}
