use super::Key;

/// Days before each month of a year that is no leap year.
const MONTHS: [i64; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];

/// The key of generalizedTimeMatch and `CSNMatch`: five bytes for a second (`libraries/liblutil/utils.c`).
/// Fractions and the rest of a CSN do not count.
///
/// `None` if a normal form does not begin with a time, as slapd then makes no key either.
pub fn time(normalised: &[u8]) -> Option<Key> {
    let [year, month, day, hour, minute, second] = read(normalised)?;
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let before = year - 1;
    let leap_days = if year > 0 { before / 4 - before / 100 + before / 400 + 1 } else { 0 };
    let days = year * 365
        + leap_days
        + MONTHS[usize::try_from(month).ok()? - 1]
        + i64::from(leap && month > 2)
        + day
        - 1;
    // 675 is a day's 86 400 seconds by 128.
    let units = days * 675;
    let high = (units >> 25 & 0x7F) ^ 0x40;
    let low = ((units & 0x1FF_FFFF) << 7) + (hour * 60 + minute) * 60 + second;
    let bits = high << 32 | low & 0xFFFF_FFFF;
    Some(Key::new(&bits.to_be_bytes()[3..]))
}

/// As [`time`], of slapd 2.4: its days are counted from 1970 in 32 bits, and every fourth year is a leap year.
pub fn time_of_2_4(normalised: &[u8]) -> Option<Key> {
    let parts = read(normalised)?;
    if parts == [0, 1, 1, 0, 0, 0] {
        return Some(Key::new(&[0; 5]));
    }
    let [year, month, day, hour, minute, second] = parts;
    let leap = year % 4 == 0 && month > 2;
    let days = (year - 1970) * 365
        + ((year - 1969) >> 2)
        + MONTHS[usize::try_from(month).ok()? - 1]
        + i64::from(leap)
        + day
        - 1;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "slapd has 32 bits")]
    let (units, seconds) = ((days * 675) as u32, ((hour * 60 + minute) * 60 + second) as u32);
    let [high, ..] = (units >> 25 << 24).to_be_bytes();
    let [a, b, c, d] = ((units & 0x1FF_FFFF) << 7).wrapping_add(seconds).to_be_bytes();
    Some(Key::new(&[high, a, b, c, d]))
}

fn read(text: &[u8]) -> Option<[i64; 6]> {
    let (text, rest) = text.split_first_chunk::<14>()?;
    let digits = text.map(|byte| byte.wrapping_sub(b'0'));
    let fraction = rest.strip_prefix(b".").unwrap_or(rest);
    let zone = fraction.iter().find(|byte| !byte.is_ascii_digit());
    if digits.iter().any(|digit| *digit > 9) || zone != Some(&b'Z') {
        return None;
    }
    let number = |at: usize| i64::from(digits[at] * 10 + digits[at + 1]);
    let year = number(0) * 100 + number(2);
    let parts = [year, number(4), number(6), number(8), number(10), number(12)];
    let [_, month, day, hour, minute, second] = parts;
    let valid = (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && hour < 24
        && minute < 60
        && second < 62;
    valid.then_some(parts)
}
