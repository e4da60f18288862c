//! Full-text search over tools: how addresses become words, and questions become FTS5 expressions.

/// Words of a question that are used at most.
const QUESTION_WORDS: usize = 16;

/// Splits text into lower-case words, also inside `camelCase`, `snake_case` and dotted names.
#[must_use]
pub fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut before: Option<char> = None;
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        if character.is_alphanumeric() {
            let next_is_lower = characters.peek().is_some_and(|next| next.is_lowercase());
            let starts = character.is_uppercase()
                && before.is_some_and(|before| {
                    before.is_lowercase() || before.is_numeric() || (before.is_uppercase() && next_is_lower)
                });
            if starts {
                take_word(&mut words, &mut word);
            }
            word.extend(character.to_lowercase());
        } else {
            take_word(&mut words, &mut word);
        }
        before = Some(character);
    }
    take_word(&mut words, &mut word);
    words
}

fn take_word(words: &mut Vec<String>, word: &mut String) {
    if !word.is_empty() {
        words.push(std::mem::take(word));
    }
}

/// An FTS5 expression that finds any of the question's words or their beginnings; `None` when the
/// question has no word. Every word is quoted, so nothing in it is an operator.
#[must_use]
pub fn match_expression(question: &str) -> Option<String> {
    let mut terms: Vec<String> =
        words(question).into_iter().take(QUESTION_WORDS).map(|word| format!("\"{word}\"*")).collect();
    terms.dedup();
    (!terms.is_empty()).then(|| terms.join(" OR "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_apart() {
        for (text, expected) in [
            ("demo.deleteItem", vec!["demo", "delete", "item"]),
            ("listHTTPRoutes", vec!["list", "http", "routes"]),
            ("repos/list-for_user", vec!["repos", "list", "for", "user"]),
            ("Größe ändern", vec!["größe", "ändern"]),
            ("v2Items", vec!["v2", "items"]),
            ("…", vec![]),
        ] {
            assert_eq!(words(text), expected, "{text}");
        }
    }

    #[test]
    fn a_question_cannot_smuggle_operators() {
        assert_eq!(
            match_expression("delete\" OR (x NEAR y)"),
            Some("\"delete\"* OR \"or\"* OR \"x\"* OR \"near\"* OR \"y\"*".to_owned())
        );
        assert_eq!(match_expression(" *** "), None);
    }
}
