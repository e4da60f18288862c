//! Columns of rows, as the platform gives them.

use serde_json::Value;
use worker::SqlStorageValue;

use crate::internal::AdminAnswer;
use crate::organization::cursor::{Page, encode};
use crate::organization::fault::Fault;

pub(super) type Row = Vec<SqlStorageValue>;

pub(super) fn text(row: &Row, column: usize) -> Option<&str> {
    match row.get(column) {
        Some(SqlStorageValue::String(text)) => Some(text),
        _ => None,
    }
}

pub(super) fn integer(row: &Row, column: usize) -> Option<u64> {
    match row.get(column) {
        Some(SqlStorageValue::Integer(number)) => u64::try_from(*number).ok(),
        _ => None,
    }
}

/// Numbers here stay far below the range in which the platform's are exact.
pub(super) fn cast(number: u64) -> SqlStorageValue {
    i64::try_from(number).unwrap_or(i64::MAX).into()
}

/// A page of a list, made of rows of which one more than the page takes was asked for. `read` gives what is shown of a row, and where
/// the next page would begin after it.
pub(super) fn page_of(
    rows: &[Row],
    page: &Page,
    name: &str,
    mut read: impl FnMut(&Row) -> worker::Result<(Value, String)>,
) -> worker::Result<AdminAnswer> {
    let most = usize::try_from(page.limit).unwrap_or(usize::MAX);
    let mut items = Vec::new();
    let mut last = String::new();
    for row in rows.iter().take(most) {
        let (shown, place) = read(row)?;
        items.push(shown);
        last = place;
    }
    Ok(AdminAnswer::page(&items, (rows.len() > most).then(|| encode(name, &last))))
}

/// Where a page of a list begins that is sorted by a number and a text: what [`place_of`] gave, or `first`.
pub(super) fn place_after<'p>(page: &'p Page, first: (u64, &'p str)) -> Result<(u64, &'p str), Fault> {
    let Some(after) = page.after.as_deref() else { return Ok(first) };
    let place = after.split_once(' ').and_then(|(number, text)| Some((number.parse().ok()?, text)));
    place.ok_or_else(|| Fault::field("cursor", "is broken"))
}

pub(super) fn place_of(number: Option<u64>, text: &str) -> String {
    format!("{} {text}", number.unwrap_or(0))
}
