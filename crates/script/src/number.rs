//! Numbers as text, as C's `%.17g` and `%.14g` write them.

/// `%.{digits}g` of C.
pub(crate) fn general(number: f64, digits: usize) -> String {
    if number.is_nan() {
        return if number.is_sign_negative() { "-nan".into() } else { "nan".into() };
    }
    if number.is_infinite() {
        return if number < 0.0 { "-inf".into() } else { "inf".into() };
    }
    if number == 0.0 {
        return if number.is_sign_negative() { "-0".into() } else { "0".into() };
    }
    let scientific = format!("{number:.*e}", digits - 1);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if exponent < -4 || exponent >= digits as i32 {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", trimmed(mantissa), exponent.unsigned_abs());
    }
    let decimals = (digits as i32 - 1 - exponent).max(0) as usize;
    trimmed(&format!("{number:.decimals$}")).to_owned()
}

/// Without the zeros at the end, and without a point that nothing follows.
fn trimmed(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

/// As a cast in C makes it on the machines that Redis runs on: what does not fit is the lowest number.
pub(crate) fn to_integer(number: f64) -> i64 {
    let fits = (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&number);
    if fits { number as i64 } else { i64::MIN }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_c_does() {
        let cases = [
            (1.5, "1.5"),
            (1e20, "1e+20"),
            (12_345_678_901_234.0, "12345678901234"),
            (0.1, "0.10000000000000001"),
            (1e-5, "1.0000000000000001e-05"),
            (0.0001, "0.0001"),
            (-3.0, "-3"),
            (9_007_199_254_740_993.0, "9007199254740992"),
            (1e17, "1e+17"),
            (1e16, "10000000000000000"),
            (f64::INFINITY, "inf"),
            (-0.0, "-0"),
        ];
        for (number, text) in cases {
            assert_eq!(general(number, 17), text);
        }
        assert_eq!(general(0.1, 14), "0.1");
        assert_eq!(general(1e14, 14), "1e+14");
        assert_eq!(general(99_999_999_999_999.0, 14), "99999999999999");
    }

    #[test]
    fn what_no_integer_holds_becomes_the_lowest() {
        for number in [1e20, -1e20, f64::NAN, f64::INFINITY, 9_223_372_036_854_775_808.0] {
            assert_eq!(to_integer(number), i64::MIN);
        }
        assert_eq!((to_integer(3.99), to_integer(-3.99)), (3, -3));
    }
}
