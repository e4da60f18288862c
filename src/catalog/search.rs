//! Full-text search over tools: how addresses become words, and questions become FTS5 expressions.

use serde_json::Value;

use super::tool::Tool;

/// Words of a question that are used at most.
const QUESTION_WORDS: usize = 16;

/// The most characters that names of parameters take in the index.
pub const PARAMETER_CHARS: usize = 200;

/// What the index reads of a tool beside its names: the description, and at the end the words of what it takes. An update says there
/// what it can change.
#[must_use]
pub fn indexed_text(tool: &Tool) -> String {
    let mut seen: Vec<String> = Vec::new();
    let mut left = PARAMETER_CHARS;
    let properties = tool.input_schema.get("properties").and_then(Value::as_object);
    for word in properties.iter().flat_map(|properties| properties.keys()).flat_map(|key| words(key)) {
        if !seen.contains(&word) {
            let Some(rest) = left.checked_sub(word.chars().count() + 1) else { break };
            left = rest;
            seen.push(word);
        }
    }
    format!("{}\n{}", tool.description, seen.join(" "))
}

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
const STOP_WORDS: [&str; 76] = [
    "a",
    "about",
    "all",
    "am",
    "an",
    "and",
    "another",
    "any",
    "api",
    "are",
    "as",
    "at",
    "be",
    "by",
    "can",
    "do",
    "does",
    "every",
    "existing",
    "for",
    "from",
    "give",
    "has",
    "have",
    "how",
    "i",
    "in",
    "into",
    "is",
    "it",
    "its",
    "let",
    "many",
    "me",
    "much",
    "my",
    "need",
    "now",
    "of",
    "on",
    "one",
    "or",
    "other",
    "our",
    "please",
    "right",
    "should",
    "some",
    "somebody",
    "someone",
    "something",
    "tell",
    "that",
    "the",
    "their",
    "them",
    "there",
    "these",
    "this",
    "those",
    "to",
    "tool",
    "up",
    "using",
    "via",
    "want",
    "was",
    "we",
    "what",
    "when",
    "where",
    "which",
    "who",
    "with",
    "you",
    "your",
];

/// Words after which it is said where a thing is, or whose.
const BEFORE_CONTEXT: [&str; 14] =
    ["at", "by", "for", "from", "in", "inside", "into", "of", "on", "to", "using", "via", "with", "within"];
/// Letters of a word that others begin with which mean the same, less one.
const FORM_LETTERS: usize = 4;

/// Verbs that half of all tools have. They say which of the tools of a thing is meant, not which thing: they rank, and are
/// not looked for.
const COMMON_VERBS: [&str; 30] = [
    "add", "change", "check", "create", "delete", "destroy", "edit", "erase", "fetch", "find", "get", "insert", "list",
    "look", "lookup", "make", "modify", "new", "patch", "query", "read", "remove", "replace", "retrieve", "search",
    "see", "set", "show", "update", "view",
];

/// Words that mean the same where tools are looked for. The index stems, so one form is enough.
pub(super) const SYNONYMS: [&[&str]; 31] = [
    &["cancel", "stop", "abort", "terminate"],
    &["start", "run", "launch", "trigger", "begin", "execute", "exec", "dispatch"],
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
    &["star", "starred", "stargazer"],
    &["song", "track", "music"],
    &["email", "mail"],
    &["attend", "attended", "attendee", "participant"],
    &["difference", "diff", "compare"],
    &["subscribe", "subscription"],
];

/// A word of a question that says something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) word: String,
    /// It is looked for, and does not only say which of the tools of a thing is meant.
    pub(super) is_sought: bool,
    /// It says where something is, or whose.
    pub(super) is_context: bool,
}

/// The words of a question that say something, each once.
pub(super) fn asked_words(question: &str) -> Vec<Asked> {
    let mut all = words(question);
    // Of "how do I list pets" only what follows asks.
    if let Some(how) = all.iter().position(|word| word == "how")
        && all.len() > how + 2
        && all.get(how + 1).is_some_and(|next| next != "many" && next != "much")
    {
        all.drain(..=how);
    }
    let says_something = all.iter().any(|word| !STOP_WORDS.contains(&word.as_str()));
    let mut asked: Vec<Asked> = Vec::new();
    let (mut has_thing, mut is_context) = (false, false);
    for word in all {
        is_context |= has_thing && BEFORE_CONTEXT.contains(&word.as_str());
        if (says_something && STOP_WORDS.contains(&word.as_str())) || asked.iter().any(|known| known.word == word) {
            continue;
        }
        // Further on it is a noun: "move a card to another list".
        let is_verb = COMMON_VERBS.contains(&word.as_str()) && (asked.is_empty() || (word == "new" && !has_thing));
        has_thing |= !is_verb;
        asked.push(Asked { word, is_sought: !is_verb, is_context });
        if asked.len() == QUESTION_WORDS {
            break;
        }
    }
    if !has_thing {
        for asked in &mut asked {
            asked.is_sought = true;
        }
    }
    asked
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
    let asked = asked_words(question);
    let last = asked.last().map(|asked| &asked.word);
    let words = |of: &dyn Fn(&Asked) -> bool| asked.iter().filter(|asked| of(asked)).map(|asked| &asked.word).collect();
    let sources: Vec<&String> = words(&|asked| asked.is_sought && is_source(&asked.word));
    let mut sought: Vec<&String> = words(&|asked| asked.is_sought && !is_source(&asked.word));
    if sought.is_empty() {
        sought = words(&|asked| !is_source(&asked.word));
    }
    let groups: Vec<String> = sought
        .iter()
        .map(|word| {
            let mut terms: Vec<String> =
                std::iter::once(word.as_str()).chain(same_as(word)).map(|word| format!("\"{word}\"")).collect();
            // Who types may not have finished the last word, and "react" means "reaction" too.
            if word.chars().count() > if last == Some(*word) { 1 } else { FORM_LETTERS } {
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
        let cancel = cancel.replace(')', r#" OR "cancel"*)"#);
        assert_eq!(found.all, format!(r#"{cancel} AND ("repos" OR "repos"*)"#));
        assert_eq!(found.any, format!(r#"{cancel} OR ("repos" OR "repos"*)"#));
        assert_eq!(search("delete the pet").unwrap().all, r#"("pet" OR "pet"*)"#);
        assert_eq!(search("delete").unwrap().all, r#"("delete" OR "delete"*)"#, "where there is nothing else");
        assert_eq!(search("what is it").unwrap().all, r#""what" AND "is" AND ("it" OR "it"*)"#);
        assert_eq!(search("cat cat x").unwrap().any, r#""cat" OR "x""#);
    }

    #[test]
    fn a_verb_is_one_in_its_place_only() {
        for (question, expected) in [
            ("list pets", vec!["pets"]),
            ("move a card to another list", vec!["move", "card", "list"]),
            ("make a new pet", vec!["pet"]),
            ("how do I delete a pet?", vec!["pet"]),
            ("how many pets are there", vec!["pets"]),
            ("search", vec!["search"]),
        ] {
            let sought: Vec<String> =
                asked_words(question).into_iter().filter(|asked| asked.is_sought).map(|asked| asked.word).collect();
            assert_eq!(sought, expected, "{question}");
        }
    }

    #[test]
    fn what_follows_a_preposition_is_where_the_thing_is() {
        let asked = asked_words("read the logs of a pod in the namespace");
        let context: Vec<&str> =
            asked.iter().filter(|asked| asked.is_context).map(|asked| asked.word.as_str()).collect();
        assert_eq!(context, ["pod", "namespace"]);
        assert!(asked_words("for a pod").iter().all(|asked| !asked.is_context), "nothing came before");
    }

    #[test]
    fn the_index_knows_what_a_tool_takes() {
        let properties: serde_json::Map<String, Value> =
            (0..100).map(|number| (format!("closeReason{number:02}"), Value::Null)).collect();
        let tool = Tool { description: "Changes it.".to_owned(), ..tool_taking(&properties) };
        let text = indexed_text(&tool);
        assert!(text.starts_with("Changes it.\nclose reason00 reason01 "), "{text}");
        assert!(text.chars().count() <= "Changes it.\n".len() + PARAMETER_CHARS, "{text}");
    }

    fn tool_taking(properties: &serde_json::Map<String, Value>) -> Tool {
        let json = serde_json::json!({
            "address": "a.b", "source": "a", "title": "", "description": "", "hints": {},
            "inputSchema": { "type": "object", "properties": properties },
            "binding": { "kind": "mcp", "name": "b", "definitionHash": "" },
        });
        serde_json::from_str(&json.to_string()).unwrap()
    }

    #[test]
    fn a_source_in_the_question_says_whose_tools_are_meant() {
        let found = search("star a repo on github").unwrap();
        assert_eq!(
            found.all,
            r#"(name : "github") AND (("star" OR "starred" OR "stargazer") AND ("repo" OR "repository"))"#
        );
        assert_eq!(search("github").unwrap().any, r#"(name : "github")"#);
        assert_eq!(search("list github").unwrap().any, r#"(name : "github") AND ("list")"#);
    }
}
