//! UTF-8 as libldap sees it (`libraries/libldap/utf-8.c`): up to six bytes a character, no overlong
//! forms, surrogates allowed.

/// Length in bytes of the character at the start of `text`; 0 if there is none.
pub fn char_len(text: &[u8]) -> usize {
    let Some(&first) = text.first() else { return 0 };
    let (len, least) = match first {
        0..=0x7f => return 1,
        0xc2..=0xdf => (2, 0x80),
        0xe0..=0xef => (3, if first == 0xe0 { 0xa0 } else { 0x80 }),
        0xf0..=0xf7 => (4, if first == 0xf0 { 0x90 } else { 0x80 }),
        0xf8..=0xfb => (5, if first == 0xf8 { 0x88 } else { 0x80 }),
        0xfc..=0xfd => (6, if first == 0xfc { 0x84 } else { 0x80 }),
        _ => return 0,
    };
    let tail = text.get(1..len).unwrap_or_default();
    let continued = tail.iter().all(|byte| byte & 0xc0 == 0x80);
    if tail.len() == len - 1 && continued && tail[0] >= least { len } else { 0 }
}
