//! Results that are too long for a conversation: a program reads the rest of what an earlier one returned.

use serde_json::{Value, json};

use super::tools::plain_text;

/// What a program calls: `tools.results.read({ id, offset })`.
pub const READ_RESULT: &str = "results.read";
/// Characters that one call gives.
const PART: usize = 50_000;

/// What is to be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadRequest {
    /// The name of the result.
    pub id: String,
    /// The first character.
    pub offset: usize,
}

/// Reads the arguments of the call, or says what is wrong with them.
pub fn parse_read(arguments: &str) -> Result<ReadRequest, String> {
    let wrong =
        || "tools.results.read takes { id: string, offset?: number }, as the note on a cut result says.".to_owned();
    let arguments: Value = serde_json::from_str(arguments).map_err(|_| wrong())?;
    let id = arguments.get("id").and_then(Value::as_str).filter(|id| id.len() <= 100).ok_or_else(wrong)?;
    let offset = match arguments.get("offset") {
        None | Some(Value::Null) => 0,
        Some(offset) => offset.as_u64().and_then(|offset| usize::try_from(offset).ok()).ok_or_else(wrong)?,
    };
    Ok(ReadRequest { id: id.to_owned(), offset })
}

/// JSON text of a part of a result, which is JSON text itself. Offsets count the characters of what the model was shown.
#[must_use]
pub fn part_of_result(result: &str, offset: usize) -> String {
    let text = plain_text(result);
    let total = text.chars().count();
    let part: String = text.chars().skip(offset).take(PART).collect();
    let end = offset.saturating_add(PART);
    let next = (end < total).then_some(end);
    json!({ "text": part, "offset": offset, "nextOffset": next, "totalCharacters": total }).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_put_together_are_the_whole() {
        let whole = "ä€😀x".repeat(130_000);
        let result = Value::String(whole.clone()).to_string();
        let (mut read, mut offset) = (String::new(), Some(0));
        while let Some(at) = offset {
            let part: Value = serde_json::from_str(&part_of_result(&result, at)).unwrap();
            read.push_str(part["text"].as_str().unwrap());
            assert_eq!(part["totalCharacters"], 520_000);
            offset = part["nextOffset"].as_u64().map(|next| usize::try_from(next).unwrap());
        }
        assert_eq!(read, whole);
    }

    #[test]
    fn beyond_the_end_is_nothing() {
        let part: Value = serde_json::from_str(&part_of_result("[1]", usize::MAX)).unwrap();
        assert_eq!((part["text"].as_str(), part["nextOffset"].is_null()), (Some(""), true));
    }

    #[test]
    fn arguments_that_make_no_sense_are_told() {
        let read = |id: &str, offset| Ok(ReadRequest { id: id.to_owned(), offset });
        assert_eq!(parse_read(r#"{"id":"a","offset":30000}"#), read("a", 30_000));
        assert_eq!(parse_read(r#"{"id":"a"}"#), read("a", 0));
        for text in ["{}", "[]", r#"{"id":1}"#, r#"{"id":"a","offset":-1}"#, r#"{"id":"a","offset":"x"}"#] {
            assert!(parse_read(text).is_err(), "{text}");
        }
    }
}
