//! Numbers compared by value, from their digits.
//!
//! With `arbitrary_precision` a JSON number can be larger or finer than any Rust number; a bound or an `enum` must
//! still decide it right.

use std::cmp::Ordering;

use serde_json::Number;

/// `0.d₁d₂… × 10^exponent`, without zeros at either end; zero has no digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Decimal {
    negative: bool,
    digits: Vec<u8>,
    exponent: i64,
}

impl Decimal {
    pub(crate) fn of(number: &Number) -> Self {
        let text = number.to_string();
        let (negative, text) = text.strip_prefix('-').map_or((false, text.as_str()), |rest| (true, rest));
        let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        // An exponent beyond `i64` is as good as the largest one: no document has a bound there.
        let beyond = if exponent.starts_with('-') { i64::MIN / 4 } else { i64::MAX / 4 };
        let exponent =
            exponent.trim_start_matches('+').parse::<i64>().unwrap_or(beyond).clamp(i64::MIN / 4, i64::MAX / 4);
        let all: Vec<u8> = whole.bytes().chain(fraction.bytes()).map(|byte| byte.wrapping_sub(b'0')).collect();
        let leading = all.iter().take_while(|digit| **digit == 0).count();
        let mut digits: Vec<u8> = all.into_iter().skip(leading).collect();
        while digits.last() == Some(&0) {
            digits.pop();
        }
        if digits.is_empty() {
            return Self { negative: false, digits, exponent: 0 };
        }
        let whole_digits = i64::try_from(whole.len()).unwrap_or(i64::MAX / 4) - i64::try_from(leading).unwrap_or(0);
        Self { negative, digits, exponent: exponent + whole_digits }
    }

    /// Whether it has no fraction: `1.0` and `1e3` are integers (JSON Schema 2020-12, 4.2.3).
    pub(crate) fn is_integer(&self) -> bool {
        self.digits.is_empty() || i64::try_from(self.digits.len()).is_ok_and(|length| length <= self.exponent)
    }

    /// Whether it is a whole number of steps; `None` where that takes more than 38 digits to tell.
    pub(crate) fn is_multiple_of(&self, step: &Self) -> Option<bool> {
        let last_place = |decimal: &Self| Some(decimal.exponent - i64::try_from(decimal.digits.len()).ok()?);
        if self.digits.is_empty() || step.digits.is_empty() {
            return Some(self.digits.is_empty());
        }
        let lowest = last_place(self)?.min(last_place(step)?);
        let scaled = |decimal: &Self| {
            let zeros = u32::try_from(last_place(decimal)? - lowest).ok()?;
            let digits = decimal
                .digits
                .iter()
                .try_fold(0_u128, |value, digit| value.checked_mul(10)?.checked_add(u128::from(*digit)));
            digits?.checked_mul(10_u128.checked_pow(zeros)?)
        };
        scaled(self)?.checked_rem(scaled(step)?).map(|rest| rest == 0)
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        let magnitude = || match (self.digits.is_empty(), other.digits.is_empty()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
            (false, false) => self.exponent.cmp(&other.exponent).then_with(|| self.digits.cmp(&other.digits)),
        };
        match (self.negative, other.negative) {
            (false, false) => magnitude(),
            (true, true) => magnitude().reverse(),
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
        }
    }
}
