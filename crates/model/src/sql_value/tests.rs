//! Values of SQL's types: their text, their bytes, and their order.

use proptest::prelude::*;

use super::*;

const MONEY: FieldType = FieldType::Decimal { precision: 10, scale: 2 };
const MOMENT: FieldType = FieldType::Timestamp { digits: 6 };
const CLOCK: FieldType = FieldType::Time { digits: 6 };

fn shown(kind: FieldType, text: &str) -> Option<String> {
    SqlValue::parse(kind, text).map(|value| value.to_string())
}

#[test]
fn texts_are_read_and_shown_in_one_form() {
    for (kind, given, form) in [
        (MONEY, "12.5", "12.50"),
        (MONEY, "-0.01", "-0.01"),
        (MONEY, "+3", "3.00"),
        (MONEY, ".5", "0.50"),
        (MONEY, "7.", "7.00"),
        (MONEY, "-0", "0.00"),
        (MONEY, "99999999.99000000000000000000000000000000000000000000", "99999999.99"),
        (FieldType::Decimal { precision: 38, scale: 0 }, &"9".repeat(38), &"9".repeat(38)),
        (MOMENT, "2026-11-19T19:47:45Z", "2026-11-19T19:47:45Z"),
        (MOMENT, "2026-11-19 19:47:45.123400+00", "2026-11-19T19:47:45.1234Z"),
        (MOMENT, "2026-11-19T23:30:00-02:30", "2026-11-20T02:00:00Z"),
        (MOMENT, "2026-01-01 00:30:00+0100", "2025-12-31T23:30:00Z"),
        (MOMENT, "1969-12-31 23:59:59.999999", "1969-12-31T23:59:59.999999Z"),
        (MOMENT, "0001-01-01 00:00", "0001-01-01T00:00:00Z"),
        (FieldType::Timestamp { digits: 0 }, "9999-12-31T23:59:59.000Z", "9999-12-31T23:59:59Z"),
        (FieldType::Date, "2024-02-29", "2024-02-29"),
        (CLOCK, "00:00", "00:00:00"),
        (CLOCK, "23:59:59.999999", "23:59:59.999999"),
        (FieldType::Uuid, "00112233-4455-6677-8899-AABBCCDDEEFF", "00112233-4455-6677-8899-aabbccddeeff"),
        (FieldType::Uuid, "00112233445566778899aabbccddeeff", "00112233-4455-6677-8899-aabbccddeeff"),
    ] {
        assert_eq!(shown(kind, given).as_deref(), Some(form), "{given}");
    }
}

#[test]
fn what_a_field_would_change_is_refused() {
    for (kind, given) in [
        (MONEY, "0.001"),
        (MONEY, "100000000"),
        (MONEY, "1e3"),
        (MONEY, "NaN"),
        (MONEY, ""),
        (MONEY, "."),
        (MONEY, "1.2.3"),
        (MONEY, " 1"),
        (MOMENT, "2026-02-30T00:00:00Z"),
        (MOMENT, "2026-11-19"),
        (MOMENT, "2026-11-19T24:00:00Z"),
        (MOMENT, "2026-11-19T12:00:60Z"),
        (MOMENT, "2026-11-19T12:00:00.1234567Z"),
        (MOMENT, "2026-11-19T12:00:00 Europe/Kyiv"),
        (MOMENT, "0000-12-31T00:00:00Z"),
        (MOMENT, "0001-01-01T00:00:00+01:00"),
        (MOMENT, "infinity"),
        (FieldType::Timestamp { digits: 3 }, "2026-11-19T12:00:00.1234Z"),
        (FieldType::Date, "2023-02-29"),
        (FieldType::Date, "2023-2-9"),
        (FieldType::Date, "0000-00-00"),
        (CLOCK, "24:00:00"),
        (CLOCK, "-01:00:00"),
        (CLOCK, "12"),
        (FieldType::Time { digits: 0 }, "12:00:00.5"),
        (FieldType::Uuid, "0011223344556677-8899-aabbccddeeff----"),
        (FieldType::Uuid, "+0112233445566778899aabbccddeeff"),
    ] {
        assert_eq!(shown(kind, given), None, "{given}");
    }
}

#[test]
fn days_have_the_numbers_that_everybody_gives_them() {
    for (text, number) in [
        ("1970-01-01", 0),
        ("2000-03-01", 11_017),
        ("1900-02-28", -25_509),
        ("0001-01-01", FIRST_DAY),
        ("9999-12-31", LAST_DAY),
    ] {
        assert_eq!(parse_date(text), Some(number), "{text}");
    }
}

fn any_value() -> impl Strategy<Value = (FieldType, SqlValue)> {
    let decimal = (1..=DECIMAL_DIGITS_MAX, any::<i128>()).prop_flat_map(|(precision, units)| {
        (0..=precision).prop_map(move |scale| {
            let units = units % i128::try_from(power_of_ten(precision)).unwrap();
            (FieldType::Decimal { precision, scale }, SqlValue::Decimal(Decimal { units, scale }))
        })
    });
    let cut = |micros: i64, digits: u8| micros - micros % 10_i64.pow(u32::from(6 - digits));
    let moment = (FIRST_DAY * MICROS_PER_DAY..(LAST_DAY + 1) * MICROS_PER_DAY, 0..=6_u8)
        .prop_map(move |(micros, digits)| (FieldType::Timestamp { digits }, SqlValue::Timestamp(cut(micros, digits))));
    let time = (0..MICROS_PER_DAY, 0..=6_u8).prop_map(move |(micros, digits)| {
        (FieldType::Time { digits }, SqlValue::Time(cut(micros, digits).unsigned_abs()))
    });
    prop_oneof![
        decimal,
        moment,
        time,
        (FIRST_DAY..=LAST_DAY).prop_map(|day| (FieldType::Date, SqlValue::Date(i32::try_from(day).unwrap()))),
        any::<[u8; 16]>().prop_map(|bytes| (FieldType::Uuid, SqlValue::Uuid(bytes))),
    ]
}

proptest! {
    #[test]
    fn every_value_comes_back_from_its_text_and_its_bytes((kind, value) in any_value()) {
        prop_assert!(value.is_of(kind), "{value} is no {}", kind.name());
        prop_assert_eq!(SqlValue::parse(kind, &value.to_string()), Some(value));
        prop_assert_eq!(SqlValue::parse(kind, &value.to_sql_text()), Some(value));

        let mut bytes = vec![value.tag()];
        value.encode(&mut bytes);
        let mut reader = Reader::new(&bytes);
        let tag = reader.u8("tag").unwrap();
        prop_assert_eq!(SqlValue::decode(tag, &mut reader), Ok(value));
        prop_assert!(reader.is_empty());
    }

    #[test]
    fn whatever_is_read_is_of_its_type(text in "[-+0-9T:. Z]{0,30}|\\PC{0,12}") {
        for kind in [MONEY, MOMENT, CLOCK, FieldType::Date, FieldType::Uuid] {
            if let Some(value) = SqlValue::parse(kind, &text) {
                prop_assert!(value.is_of(kind));
                prop_assert_eq!(SqlValue::parse(kind, &value.to_string()), Some(value));
            }
        }
    }

    #[test]
    fn decimals_of_one_scale_order_as_their_units(left in any::<i64>(), right in any::<i64>()) {
        let decimal = |units: i64| Decimal { units: i128::from(units), scale: 3 };
        let as_text = |units: i64| Decimal::parse(&decimal(units).to_string()).and_then(|read| read.at_scale(3)).unwrap();

        prop_assert_eq!(as_text(left).units.cmp(&as_text(right).units), left.cmp(&right));
    }
}
