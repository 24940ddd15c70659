//! Values that SQL has beside numbers, text and bytes: decimals, moments, dates, times of day, UUIDs. Each has one text form,
//! the same at every door and in `docs/sql.md`, and one stored form.
//!
//! Days are those of the Gregorian calendar, also before there was one, as in SQL. Moments are in UTC and know no leap seconds.

use std::fmt;

use crate::codec::{DecodeError, Reader, put_bytes, put_signed, put_varint};
use crate::value::{DECIMAL_DIGITS_MAX, FieldType, SECOND_DIGITS_MAX};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SqlValue {
    Decimal(Decimal),
    /// Microseconds since 1970 began, in UTC.
    Timestamp(i64),
    /// Days since 1970-01-01.
    Date(i32),
    /// Microseconds since midnight.
    Time(u64),
    Uuid([u8; 16]),
}

/// `units` with the point `scale` digits from their end: -12.50 is -1250 at 2. In a field the scale is the field's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decimal {
    pub units: i128,
    pub scale: u8,
}

const MICROS_PER_SECOND: i64 = 1_000_000;
const SECONDS_PER_DAY: i64 = 86_400;
const MICROS_PER_DAY: i64 = SECONDS_PER_DAY * MICROS_PER_SECOND;
/// 0001-01-01 and 9999-12-31, between which all databases and RFC 3339 agree on what a day is called.
const FIRST_DAY: i64 = -719_162;
const LAST_DAY: i64 = 2_932_896;

impl SqlValue {
    /// The narrowest type that holds it.
    #[must_use]
    pub fn field_type(self) -> FieldType {
        match self {
            Self::Decimal(value) => FieldType::Decimal { precision: DECIMAL_DIGITS_MAX, scale: value.scale },
            Self::Timestamp(_) => FieldType::Timestamp { digits: SECOND_DIGITS_MAX },
            Self::Date(_) => FieldType::Date,
            Self::Time(_) => FieldType::Time { digits: SECOND_DIGITS_MAX },
            Self::Uuid(_) => FieldType::Uuid,
        }
    }

    #[must_use]
    pub fn kind_name(self) -> &'static str {
        match self {
            Self::Decimal(_) => "decimal",
            Self::Timestamp(_) => "timestamp",
            Self::Date(_) => "date",
            Self::Time(_) => "time",
            Self::Uuid(_) => "uuid",
        }
    }

    /// Whether a field of this type may hold it as it is.
    #[must_use]
    pub fn is_of(self, kind: FieldType) -> bool {
        match (self, kind) {
            (Self::Decimal(value), FieldType::Decimal { precision, scale }) => {
                value.scale == scale && value.units.unsigned_abs() < power_of_ten(precision)
            }
            (Self::Timestamp(micros), FieldType::Timestamp { digits }) => {
                (FIRST_DAY..=LAST_DAY).contains(&micros.div_euclid(MICROS_PER_DAY)) && has_digits(micros, digits)
            }
            (Self::Date(days), FieldType::Date) => (FIRST_DAY..=LAST_DAY).contains(&i64::from(days)),
            (Self::Time(micros), FieldType::Time { digits }) => {
                i64::try_from(micros).is_ok_and(|micros| micros < MICROS_PER_DAY && has_digits(micros, digits))
            }
            (Self::Uuid(_), FieldType::Uuid) => true,
            (_, _) => false,
        }
    }

    /// The one that comes first, of two of one type that has an order; a UUID has none that databases agree on.
    #[must_use]
    pub fn smaller(self, other: Self) -> Option<Self> {
        self.rank(other).map(|(left, right)| if right < left { other } else { self })
    }

    #[must_use]
    pub fn larger(self, other: Self) -> Option<Self> {
        self.rank(other).map(|(left, right)| if right > left { other } else { self })
    }

    fn rank(self, other: Self) -> Option<(i128, i128)> {
        match (self, other) {
            (Self::Decimal(left), Self::Decimal(right)) if left.scale == right.scale => Some((left.units, right.units)),
            (Self::Timestamp(left), Self::Timestamp(right)) => Some((i128::from(left), i128::from(right))),
            (Self::Date(left), Self::Date(right)) => Some((i128::from(left), i128::from(right))),
            (Self::Time(left), Self::Time(right)) => Some((i128::from(left), i128::from(right))),
            (_, _) => None,
        }
    }

    /// The value as a field of this type holds it; `None` if it cannot without changing.
    #[must_use]
    pub fn fitted(self, kind: FieldType) -> Option<Self> {
        let fitted = match (self, kind) {
            (Self::Decimal(value), FieldType::Decimal { scale, .. }) => Self::Decimal(value.at_scale(scale)?),
            (value, _) => value,
        };
        fitted.is_of(kind).then_some(fitted)
    }

    /// Reads the text form, for a field of this type; `None` if it is not of the type, or if the field would change it.
    #[must_use]
    pub fn parse(kind: FieldType, text: &str) -> Option<Self> {
        let parsed = match kind {
            FieldType::Decimal { .. } => Self::Decimal(Decimal::parse(text)?),
            FieldType::Timestamp { .. } => Self::Timestamp(parse_timestamp(text)?),
            FieldType::Date => Self::Date(i32::try_from(parse_date(text)?).ok()?),
            FieldType::Time { .. } => Self::Time(u64::try_from(parse_time(text)?).ok()?),
            FieldType::Uuid => Self::Uuid(parse_uuid(text)?),
            FieldType::Int64 | FieldType::Uint64 | FieldType::Float64 | FieldType::String => return None,
            FieldType::Blob | FieldType::Bool | FieldType::Json => return None,
        };
        parsed.fitted(kind)
    }

    /// A moment as SQL's own literals have it, without a zone: `2026-11-19 19:47:45.5`. Everything else as everywhere.
    #[must_use]
    pub fn to_sql_text(self) -> String {
        match self {
            Self::Timestamp(micros) => self.shown(micros, ' ', ""),
            other => other.to_string(),
        }
    }

    fn shown(self, micros: i64, between: char, zone: &str) -> String {
        let (day, time) = (micros.div_euclid(MICROS_PER_DAY), micros.rem_euclid(MICROS_PER_DAY));
        format!("{}{between}{}{zone}", Day(day), TimeOfDay(time))
    }

    pub(crate) fn tag(self) -> u8 {
        match self {
            Self::Decimal(_) => 8,
            Self::Timestamp(_) => 9,
            Self::Date(_) => 10,
            Self::Time(_) => 11,
            Self::Uuid(_) => 12,
        }
    }

    /// What follows the tag.
    pub(crate) fn encode(self, out: &mut Vec<u8>) {
        match self {
            Self::Decimal(value) => {
                put_varint(out, u64::from(value.scale));
                put_bytes(out, shortest(&value.units.to_be_bytes()));
            }
            Self::Timestamp(micros) => put_signed(out, micros),
            Self::Date(days) => put_signed(out, i64::from(days)),
            Self::Time(micros) => put_varint(out, micros),
            Self::Uuid(bytes) => out.extend_from_slice(&bytes),
        }
    }

    pub(crate) fn decode(tag: u8, reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match tag {
            8 => decode_decimal(reader).map(Self::Decimal),
            9 => reader.signed("timestamp").map(Self::Timestamp),
            10 => {
                let days = reader.signed("date")?;
                let odd = DecodeError::Unknown { what: "date", value: days.unsigned_abs() };
                i32::try_from(days).map(Self::Date).map_err(|_| odd)
            }
            11 => match reader.varint("time")? {
                micros if micros < MICROS_PER_DAY.unsigned_abs() => Ok(Self::Time(micros)),
                value => Err(DecodeError::Unknown { what: "time", value }),
            },
            12 => {
                let bytes = reader.take(16, "uuid")?;
                let bytes = bytes.try_into().map_err(|_| DecodeError::Truncated { what: "uuid" })?;
                Ok(Self::Uuid(bytes))
            }
            tag => Err(DecodeError::Unknown { what: "value type", value: u64::from(tag) }),
        }
    }
}

fn decode_decimal(reader: &mut Reader<'_>) -> Result<Decimal, DecodeError> {
    let scale = reader.varint("digits behind the point")?;
    let bytes = reader.bytes("decimal")?;
    let odd = |value: usize| DecodeError::Unknown { what: "decimal", value: value as u64 };
    let scale = u8::try_from(scale).ok().filter(|scale| *scale <= DECIMAL_DIGITS_MAX);
    let scale = scale.ok_or(DecodeError::Unknown { what: "digits behind the point", value: bytes.len() as u64 })?;
    if bytes.is_empty() || bytes.len() > 16 || shortest(bytes).len() < bytes.len() {
        return Err(odd(bytes.len()));
    }
    let sign = if bytes[0] & 0x80 == 0 { 0 } else { -1 };
    let units = bytes.iter().fold(sign, |units: i128, byte| units << 8 | i128::from(*byte));
    if units.unsigned_abs() >= power_of_ten(DECIMAL_DIGITS_MAX) {
        return Err(odd(bytes.len()));
    }
    Ok(Decimal { units, scale })
}

/// Two's complement without the bytes in front that only repeat the sign.
fn shortest(bytes: &[u8]) -> &[u8] {
    let mut rest = bytes;
    while let [first, next, ..] = rest {
        let repeats = (*first == 0 && next & 0x80 == 0) || (*first == 0xff && next & 0x80 != 0);
        if !repeats {
            break;
        }
        rest = &rest[1..];
    }
    rest
}

fn power_of_ten(digits: u8) -> u128 {
    10_u128.pow(u32::from(digits.min(DECIMAL_DIGITS_MAX)))
}

fn has_digits(micros: i64, digits: u8) -> bool {
    micros % 10_i64.pow(u32::from(SECOND_DIGITS_MAX.saturating_sub(digits))) == 0
}

impl Decimal {
    /// `-12.50`, `+3`, `.5`: digits with at most one point, as SQL's literals have them; no exponent.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (is_negative, digits) = match text.as_bytes() {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] | rest => (false, rest),
        };
        let point = digits.iter().position(|byte| *byte == b'.');
        let (whole, part) = point.map_or((digits, &b""[..]), |at| (&digits[..at], &digits[at + 1..]));
        let is_all_digits = |text: &[u8]| text.iter().all(u8::is_ascii_digit);
        if (whole.is_empty() && part.is_empty()) || !is_all_digits(whole) || !is_all_digits(part) {
            return None;
        }
        // Zeros at the end say nothing that the field does not say, and may be more than there is room for.
        let kept = part.len() - part.iter().rev().take_while(|byte| **byte == b'0').count();
        let mut units: i128 = 0;
        for digit in whole.iter().chain(&part[..kept]) {
            units = units.checked_mul(10)?.checked_add(i128::from(digit - b'0'))?;
        }
        let units = if is_negative { -units } else { units };
        let decimal = Self { units, scale: u8::try_from(kept).ok()? };
        (decimal.scale <= DECIMAL_DIGITS_MAX && units.unsigned_abs() < power_of_ten(DECIMAL_DIGITS_MAX))
            .then_some(decimal)
    }

    /// The same number with so many digits behind the point; `None` if it has more, or no room.
    #[must_use]
    pub fn at_scale(self, scale: u8) -> Option<Self> {
        let units = if scale >= self.scale {
            self.units.checked_mul(i128::try_from(power_of_ten(scale - self.scale)).ok()?)?
        } else {
            let cut = i128::try_from(power_of_ten(self.scale - scale)).ok()?;
            (self.units % cut == 0).then_some(self.units / cut)?
        };
        (units.unsigned_abs() < power_of_ten(DECIMAL_DIGITS_MAX)).then_some(Self { units, scale })
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sign, scale) = (if self.units < 0 { "-" } else { "" }, usize::from(self.scale));
        let digits = format!("{:0>width$}", self.units.unsigned_abs(), width = scale + 1);
        let (whole, part) = digits.split_at(digits.len() - scale);
        if part.is_empty() { write!(out, "{sign}{whole}") } else { write!(out, "{sign}{whole}.{part}") }
    }
}

impl fmt::Display for SqlValue {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Decimal(value) => value.fmt(out),
            Self::Timestamp(micros) => out.write_str(&self.shown(micros, 'T', "Z")),
            Self::Date(days) => Day(i64::from(days)).fmt(out),
            Self::Time(micros) => TimeOfDay(micros.cast_signed()).fmt(out),
            Self::Uuid(bytes) => {
                for (place, byte) in bytes.iter().enumerate() {
                    let hyphen = if [4, 6, 8, 10].contains(&place) { "-" } else { "" };
                    write!(out, "{hyphen}{byte:02x}")?;
                }
                Ok(())
            }
        }
    }
}

/// A day by its number, as the calendar names it.
struct Day(i64);

impl fmt::Display for Day {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = civil(self.0);
        write!(out, "{year:04}-{month:02}-{day:02}")
    }
}

/// Microseconds since midnight, with as many digits of a second as say something.
struct TimeOfDay(i64);

impl fmt::Display for TimeOfDay {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, micros) = (self.0 / MICROS_PER_SECOND, self.0 % MICROS_PER_SECOND);
        write!(out, "{:02}:{:02}:{:02}", seconds / 3_600, seconds / 60 % 60, seconds % 60)?;
        if micros == 0 { Ok(()) } else { write!(out, ".{}", format!("{micros:06}").trim_end_matches('0')) }
    }
}

/// Year, month and day of a day's number, by eras of 400 years that begin in March, so that leap days come last.
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let (day, month) = (day_of_year - (153 * march_month + 2) / 5 + 1, (march_month + 2) % 12 + 1);
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// The number of a day; what it is given may be a day that no calendar has.
fn day_number(year: i64, month: i64, day: i64) -> i64 {
    let (year, march_month) = (year - i64::from(month <= 2), (month + 9) % 12);
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * march_month + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// Takes so many digits off a text.
fn digits(text: &str, count: usize) -> Option<(i64, &str)> {
    let head = text.get(..count).filter(|head| head.bytes().all(|byte| byte.is_ascii_digit()))?;
    Some((head.parse().ok()?, &text[count..]))
}

fn parse_date(text: &str) -> Option<i64> {
    let (year, rest) = digits(text, 4)?;
    let (month, rest) = digits(rest.strip_prefix('-')?, 2)?;
    let (day, rest) = digits(rest.strip_prefix('-')?, 2)?;
    let number = day_number(year, month, day);
    // Only what the calendar knows comes back as it was: no 30th of February.
    (rest.is_empty() && (1..=12).contains(&month) && civil(number) == (year, month, day)).then_some(number)
}

/// `19:47`, `19:47:45` or `19:47:45.5`, in microseconds.
fn parse_time(text: &str) -> Option<i64> {
    let (hours, rest) = digits(text, 2)?;
    let (minutes, rest) = digits(rest.strip_prefix(':')?, 2)?;
    let (seconds, rest) = if rest.is_empty() { (0, rest) } else { digits(rest.strip_prefix(':')?, 2)? };
    if hours > 23 || minutes > 59 || seconds > 59 {
        return None;
    }
    let micros = match rest.strip_prefix('.') {
        None if rest.is_empty() => 0,
        None => return None,
        Some(part) => {
            // More digits than six are no loss if they are zeros.
            let said = part.trim_end_matches('0');
            if part.is_empty() || said.len() > 6 || !part.bytes().all(|byte| byte.is_ascii_digit()) {
                return None;
            }
            format!("{said:0<6}").parse().ok()?
        }
    };
    Some((hours * 3_600 + minutes * 60 + seconds) * MICROS_PER_SECOND + micros)
}

/// A date and a time with `T` or a blank between, and a zone: `Z`, `+02:00`, `+0200`, `+02`, or none for UTC.
fn parse_timestamp(text: &str) -> Option<i64> {
    let (date, rest) = text.split_at_checked(10)?;
    let rest = rest.strip_prefix(['T', 't', ' '])?;
    let (time, zone) = match rest.find(['Z', 'z', '+', '-']) {
        Some(at) => rest.split_at(at),
        None => (rest, ""),
    };
    let micros = parse_date(date)? * MICROS_PER_DAY + parse_time(time)?;
    Some(micros - offset_seconds(zone)? * MICROS_PER_SECOND)
}

fn offset_seconds(zone: &str) -> Option<i64> {
    let (sign, text) = match zone.as_bytes() {
        [] | [b'Z' | b'z'] => return Some(0),
        [b'+', ..] => (1, &zone[1..]),
        [b'-', ..] => (-1, &zone[1..]),
        _ => return None,
    };
    let (hours, rest) = digits(text, 2)?;
    let (minutes, rest) = match rest.strip_prefix(':').unwrap_or(rest) {
        "" if rest.is_empty() => (0, ""),
        rest => digits(rest, 2)?,
    };
    (rest.is_empty() && hours < 24 && minutes < 60).then_some(sign * (hours * 3_600 + minutes * 60))
}

/// With its hyphens or without.
fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    let bare = match text.len() {
        32 => text.to_owned(),
        36 if [8, 13, 18, 23].iter().all(|at| text.as_bytes()[*at] == b'-') => text.replace('-', ""),
        _ => return None,
    };
    if bare.len() != 32 || !bare.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    u128::from_str_radix(&bare, 16).ok().map(u128::to_be_bytes)
}

#[cfg(test)]
mod tests;
