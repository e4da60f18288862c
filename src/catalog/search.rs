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

/// What a question means to the index: two FTS5 expressions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Search {
    /// Finds tools that have every word, or one that means the same.
    pub all: String,
    /// Finds tools that have any.
    pub any: String,
}

/// Words that say nothing about a tool.
const STOP_WORDS: [&str; 62] = [
    "a", "about", "all", "an", "and", "any", "api", "are", "as", "at", "be", "by", "can", "do", "does", "every",
    "existing", "for", "from", "give", "has", "have", "how", "i", "in", "into", "is", "it", "its", "let", "me", "my",
    "need", "of", "on", "one", "or", "our", "please", "should", "some", "that", "the", "their", "them", "there",
    "these", "this", "those", "to", "tool", "using", "via", "want", "was", "we", "what", "which", "who", "with", "you",
    "your",
];

/// Words that mean the same where tools are looked for. The index stems, so one form is enough.
const SYNONYMS: [&[&str]; 26] = [
    &["list", "get", "find", "search", "show", "read", "retrieve", "fetch", "lookup", "view", "query"],
    &["delete", "remove", "destroy", "erase"],
    &["create", "add", "new", "make", "insert", "register", "open"],
    &["update", "edit", "change", "modify", "set", "patch", "replace"],
    &["cancel", "stop", "abort", "terminate"],
    &["start", "run", "launch", "trigger", "begin", "execute"],
    &["send", "post", "deliver"],
    &["close", "resolve", "finish"],
    &["approve", "accept", "confirm"],
    &["reject", "decline", "deny"],
    &["upload", "import"],
    &["download", "export"],
    &["assign", "give"],
    &["enable", "activate"],
    &["disable", "deactivate"],
    &["repo", "repository"],
    &["org", "organization", "organisation"],
    &["env", "environment"],
    &["config", "configuration", "setting", "preference"],
    &["msg", "message"],
    &["db", "database"],
    &["doc", "document"],
    &["user", "member", "person", "people"],
    &["picture", "image", "photo"],
    &["dir", "directory", "folder"],
    &["pr", "pull"],
];

/// Reads a question; `None` when it has no word. Every word is quoted, so nothing in it is an operator.
#[must_use]
pub fn search_of(question: &str) -> Option<Search> {
    let all: Vec<String> = words(question);
    let mut asked: Vec<&str> = all.iter().map(String::as_str).filter(|word| !STOP_WORDS.contains(word)).collect();
    if asked.is_empty() {
        asked = all.iter().map(String::as_str).collect();
    }
    asked.truncate(QUESTION_WORDS);
    let last = asked.last().copied();
    let mut seen = Vec::new();
    asked.retain(|word| {
        !seen.contains(word) && {
            seen.push(*word);
            true
        }
    });
    let groups: Vec<String> = asked
        .iter()
        .map(|word| {
            let same = SYNONYMS.iter().find(|group| group.contains(word)).copied().unwrap_or_default();
            let same = same.iter().filter(|other| *other != word);
            let mut terms: Vec<String> = std::iter::once(word).chain(same).map(|word| format!("\"{word}\"")).collect();
            // Who types may not have finished the last word.
            if last == Some(*word) && word.chars().count() > 1 {
                terms.push(format!("\"{word}\"*"));
            }
            if let [term] = terms.as_slice() { term.clone() } else { format!("({})", terms.join(" OR ")) }
        })
        .collect();
    (!groups.is_empty()).then(|| Search { all: groups.join(" AND "), any: groups.join(" OR ") })
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
        for question in ["x\" OR (delete* NEAR y)", "a:b -c ^d", "\"\"\" NOT ("] {
            let search = search_of(question).unwrap();
            for expression in [search.all, search.any] {
                let outside: String = expression.split('"').step_by(2).collect();
                let rest = outside.replace("AND", "").replace("OR", "").replace(['(', ')', '*', ' '], "");
                assert_eq!(rest, "", "{expression}");
                assert_eq!(expression.matches('"').count() % 2, 0, "{expression}");
            }
        }
        assert_eq!(search_of(" *** "), None);
    }

    #[test]
    fn small_words_are_left_out_and_verbs_have_others_beside_them() {
        let search = search_of("How do I remove the repos").unwrap();
        let remove = r#"("remove" OR "delete" OR "destroy" OR "erase")"#;
        assert_eq!(search.all, format!(r#"{remove} AND ("repos" OR "repos"*)"#));
        assert_eq!(search.any, format!(r#"{remove} OR ("repos" OR "repos"*)"#));
        assert_eq!(search_of("what is it").unwrap().all, r#""what" AND "is" AND ("it" OR "it"*)"#);
        assert_eq!(search_of("ticket ticket x").unwrap().any, r#""ticket" OR "x""#);
    }
}
