//! Numbers in text, as clients and the fields of dynamic tables write them.

/// A number that is one, as C reads them: decimal, hexadecimal, or endless.
#[must_use]
pub fn float(text: &[u8]) -> Option<f64> {
    let number = std::str::from_utf8(text).ok()?.parse().ok().or_else(|| hexadecimal(text));
    // What is written as a finite number and is too large to be one is refused, as Redis refuses what it cannot hold.
    number.filter(|number: &f64| !number.is_nan() && (number.is_finite() || !text.iter().any(u8::is_ascii_digit)))
}

/// `-0x1.8p3`: hexadecimal digits, and a power of two.
fn hexadecimal(text: &[u8]) -> Option<f64> {
    let (sign, digits) = match text {
        [b'-', rest @ ..] => (-1.0, rest),
        [b'+', rest @ ..] | rest => (1.0, rest),
    };
    let digits = digits.strip_prefix(b"0x").or_else(|| digits.strip_prefix(b"0X"))?;
    let (digits, power) = match digits.iter().position(|byte| byte.eq_ignore_ascii_case(&b'p')) {
        None => (digits, 0),
        Some(at) => (&digits[..at], std::str::from_utf8(&digits[at + 1..]).ok()?.parse::<i32>().ok()?),
    };
    let point = digits.iter().position(|byte| *byte == b'.');
    let (whole, part) = point.map_or((digits, &b""[..]), |at| (&digits[..at], &digits[at + 1..]));
    if whole.is_empty() && part.is_empty() {
        return None;
    }
    let mut number = 0.0;
    for digit in whole.iter().chain(part) {
        number = number * 16.0 + f64::from(char::from(*digit).to_digit(16)?);
    }
    let scale = power.checked_sub(i32::try_from(part.len()).ok()?.checked_mul(4)?)?;
    Some(sign * times_power_of_two(number, scale))
}

/// By steps that are exact, and so the same on every replica. Beyond so many, every number is zero or endless.
fn times_power_of_two(number: f64, power: i32) -> f64 {
    let factor = if power < 0 { 0.5 } else { 2.0 };
    (0..power.unsigned_abs().min(2_200)).fold(number, |number, _| number * factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_read_as_c_reads_them() {
        let texts = [&b"1e3"[..], b".5", b"0x10", b"-0X1.8p3", b"0x.8", b"-inf"];
        let numbers = [1_000.0, 0.5, 16.0, -12.0, 0.5, f64::NEG_INFINITY];
        assert_eq!(texts.map(float), numbers.map(Some));

        for text in [&b"nan"[..], b"1e999", b"", b"x", b"0x", b"0x1p", b"0xg", b" 1", b"1 ", b"\xff"] {
            assert_eq!(float(text), None, "{:?}", String::from_utf8_lossy(text));
        }
    }
}
