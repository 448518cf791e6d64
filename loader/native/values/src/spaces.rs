//! Insignificant spaces; only byte 0x20 is one (`servers/slapd/schema_init.c`).

/// Trims both ends of `out[start..]` and makes one of each run of spaces. Nothing but spaces
/// becomes no byte at all.
pub fn collapse_spaces(out: &mut Vec<u8>, start: usize) {
    if is_tidy(&out[start..]) {
        return;
    }
    let mut end = start;
    let mut after_space = true;
    for at in start..out.len() {
        let byte = out[at];
        let space = byte == b' ';
        if !(space && after_space) {
            out[end] = byte;
            end += 1;
        }
        after_space = space;
    }
    if end > start && out[end - 1] == b' ' {
        end -= 1;
    }
    out.truncate(end);
}

/// Folded instead of searched, because that compiles to vector instructions.
fn is_tidy(text: &[u8]) -> bool {
    let [first, .., last] = text else { return text != b" " };
    let pairs = text.iter().zip(&text[1..]);
    let doubled = pairs.fold(0, |seen, (&a, &b)| seen | u8::from((a | b) == b' ' && a == b));
    *first != b' ' && *last != b' ' && doubled == 0
}
