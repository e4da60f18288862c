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
const STOP_WORDS: [&str; 63] = [
    "a", "about", "all", "am", "an", "and", "any", "api", "are", "as", "at", "be", "by", "can", "do", "does", "every",
    "existing", "for", "from", "give", "has", "have", "how", "i", "in", "into", "is", "it", "its", "let", "me", "my",
    "need", "of", "on", "one", "or", "our", "please", "should", "some", "that", "the", "their", "them", "there",
    "these", "this", "those", "to", "tool", "using", "via", "want", "was", "we", "what", "which", "who", "with", "you",
    "your",
];

/// Verbs that half of all tools have. They say which of the tools of a thing is meant, not which thing: they rank, and are
/// not looked for.
const COMMON_VERBS: [&str; 27] = [
    "add", "change", "create", "delete", "destroy", "edit", "erase", "fetch", "find", "get", "insert", "list",
    "lookup", "make", "modify", "new", "patch", "query", "read", "remove", "replace", "retrieve", "search", "set",
    "show", "update", "view",
];

/// Words that mean the same where tools are looked for. The index stems, so one form is enough.
pub(super) const SYNONYMS: [&[&str]; 25] = [
    &["cancel", "stop", "abort", "terminate"],
    &["start", "run", "launch", "trigger", "begin", "execute", "dispatch"],
    &["send", "post", "deliver"],
    &["close", "resolve", "finish"],
    &["approve", "accept", "confirm"],
    &["reject", "decline", "deny"],
    &["upload", "import"],
    &["download", "export"],
    &["enable", "activate"],
    &["disable", "deactivate"],
    &["buy", "purchase", "provision", "incoming"],
    &["repo", "repository"],
    &["org", "organization", "organisation"],
    &["env", "environment"],
    &["config", "configuration", "setting", "preference"],
    &["msg", "message", "sms"],
    &["db", "database"],
    &["doc", "document"],
    &["user", "member", "person", "people"],
    &["picture", "image", "photo"],
    &["dir", "directory", "folder"],
    &["pr", "pull"],
    &["ticket", "issue"],
    &["job", "task"],
    &["phone", "call"],
];

/// The words of a question that say something, each once, and those of them that are looked for.
pub(super) fn asked_words(question: &str) -> (Vec<String>, Vec<String>) {
    let all = words(question);
    let says_something = |word: &&String| !STOP_WORDS.contains(&word.as_str());
    let mut asked: Vec<String> = all.iter().filter(says_something).cloned().collect();
    if asked.is_empty() {
        asked = all;
    }
    asked.truncate(QUESTION_WORDS);
    let mut seen = Vec::new();
    asked.retain(|word| {
        !seen.contains(word) && {
            seen.push(word.clone());
            true
        }
    });
    let mut sought: Vec<String> = asked.iter().filter(|word| !COMMON_VERBS.contains(&word.as_str())).cloned().collect();
    if sought.is_empty() {
        sought.clone_from(&asked);
    }
    (asked, sought)
}

/// Words that mean the same as this one, without it.
pub(super) fn same_as<'w>(word: &'w str) -> impl Iterator<Item = &'w str> {
    let group = SYNONYMS.iter().find(|group| group.contains(&word)).copied().unwrap_or_default();
    group.iter().map(|other| -> &'w str { other }).filter(move |other| *other != word)
}

/// Reads a question; `None` when it has no word. Every word is quoted, so nothing in it is an operator. A word that `is_source`
/// knows as a source's slug says whose tools are meant.
#[must_use]
pub fn search_of(question: &str, is_source: impl Fn(&str) -> bool) -> Option<Search> {
    let (asked, sought) = asked_words(question);
    let last = asked.last();
    let (sources, mut sought): (Vec<String>, Vec<String>) = sought.into_iter().partition(|word| is_source(word));
    if sought.is_empty() {
        sought = asked.iter().filter(|word| !is_source(word)).cloned().collect();
    }
    let groups: Vec<String> = sought
        .iter()
        .map(|word| {
            let mut terms: Vec<String> =
                std::iter::once(word.as_str()).chain(same_as(word)).map(|word| format!("\"{word}\"")).collect();
            // Who types may not have finished the last word.
            if last == Some(word) && word.chars().count() > 1 {
                terms.push(format!("\"{word}\"*"));
            }
            if let [term] = terms.as_slice() { term.clone() } else { format!("({})", terms.join(" OR ")) }
        })
        .collect();
    let mut search = Search { all: groups.join(" AND "), any: groups.join(" OR ") };
    if !sources.is_empty() {
        let named: Vec<String> = sources.iter().map(|source| format!("name : \"{source}\"")).collect();
        let named = format!("({})", named.join(" OR "));
        let within = |found: &str| if found.is_empty() { named.clone() } else { format!("{named} AND ({found})") };
        search = Search { all: within(&search.all), any: within(&search.any) };
    }
    (!search.any.is_empty()).then_some(search)
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

    fn search(question: &str) -> Option<Search> {
        search_of(question, |word| word == "github")
    }

    #[test]
    fn a_question_cannot_smuggle_operators() {
        for question in ["x\" OR (delete* NEAR y)", "a:b -c ^d", "\"\"\" NOT (", "github\" x"] {
            let search = search(question).unwrap();
            for expression in [search.all, search.any] {
                let outside: String = expression.split('"').step_by(2).collect();
                let rest = outside
                    .replace("AND", "")
                    .replace("OR", "")
                    .replace("name :", "")
                    .replace(['(', ')', '*', ' '], "");
                assert_eq!(rest, "", "{expression}");
                assert_eq!(expression.matches('"').count() % 2, 0, "{expression}");
            }
        }
        assert_eq!(search(" *** "), None);
    }

    #[test]
    fn small_words_are_left_out_and_verbs_that_all_tools_have() {
        let found = search("How do I cancel the repos").unwrap();
        let cancel = r#"("cancel" OR "stop" OR "abort" OR "terminate")"#;
        assert_eq!(found.all, format!(r#"{cancel} AND ("repos" OR "repos"*)"#));
        assert_eq!(found.any, format!(r#"{cancel} OR ("repos" OR "repos"*)"#));
        assert_eq!(search("delete the pet").unwrap().all, r#"("pet" OR "pet"*)"#);
        assert_eq!(search("delete").unwrap().all, r#"("delete" OR "delete"*)"#, "where there is nothing else");
        assert_eq!(search("what is it").unwrap().all, r#""what" AND "is" AND ("it" OR "it"*)"#);
        assert_eq!(search("cat cat x").unwrap().any, r#""cat" OR "x""#);
    }

    #[test]
    fn a_source_in_the_question_says_whose_tools_are_meant() {
        let found = search("star a repo on github").unwrap();
        assert_eq!(found.all, r#"(name : "github") AND ("star" AND ("repo" OR "repository"))"#);
        assert_eq!(search("github").unwrap().any, r#"(name : "github")"#);
        assert_eq!(search("list github").unwrap().any, r#"(name : "github") AND ("list")"#);
    }
}
