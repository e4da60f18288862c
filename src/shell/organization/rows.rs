//! Columns of rows, as the platform gives them.

use worker::SqlStorageValue;

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
