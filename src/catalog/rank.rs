//! Which of the tools that a search found fit the question best.
//!
//! The index counts words. What a tool does with a thing, whose thing it is, and whether one is meant or all of them, is told by its
//! name, its title and the form of its request; that is weighed here, for the first hits of the index.

use std::collections::HashSet;

use super::search::{asked_words, same_as, words};

/// Hits of the index that are weighed.
pub const WEIGHED: usize = 120;

/// Characters of a description that are read.
pub const DESCRIPTION_CHARS: usize = 300;

/// Words of a description's first sentence that stand for a title where there is none.
const TITLE_WORDS: usize = 14;

/// A tool that the index found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hit {
    /// Its address.
    pub address: String,
    /// The words of the address, in lower case, with spaces between.
    pub name: String,
    /// The words of the title, likewise.
    pub title: String,
    /// The description, or its beginning.
    pub description: String,
    /// `METHOD /path`, or anything else where the tool is no operation of an HTTP API.
    pub operation: String,
}

/// What a verb asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Intent {
    Read,
    Create,
    Update,
    Delete,
}

const VERBS: [(Intent, &[&str]); 4] = [
    (
        Intent::Read,
        &[
            "list", "get", "find", "search", "show", "read", "retrieve", "fetch", "lookup", "view", "query", "see",
            "check",
        ],
    ),
    (
        Intent::Create,
        &[
            "create", "add", "new", "make", "insert", "register", "open", "post", "send", "upload", "import", "invite",
            "buy", "start", "run", "launch", "trigger", "begin", "execute",
        ],
    ),
    (Intent::Update, &["update", "edit", "change", "modify", "set", "patch", "replace", "rename", "move"]),
    (Intent::Delete, &["delete", "remove", "destroy", "erase"]),
];

/// Words of a question by which a person means what is theirs, and words of tools that are about it.
const MINE: ([&str; 4], [&str; 4]) = (["my", "me", "i", "mine"], ["authenticated", "me", "my", "current"]);

/// Puts the hits that fit best first; of equal ones the order of addresses counts.
pub fn rank(question: &str, hits: &mut Vec<Hit>) {
    let question = Question::read(question);
    let read: Vec<Read> = hits.iter().map(Read::of).collect();
    let rarity: Vec<f64> = question
        .sought
        .iter()
        .map(|word| {
            let having = read.iter().filter(|hit| hit.has(word) > 0.0).count();
            (number(read.len() + 1) / (number(having) + 0.5)).ln() + 1.0
        })
        .collect();
    let mut order: Vec<(f64, Hit)> =
        read.iter().map(|hit| question.score(hit, &rarity)).zip(std::mem::take(hits)).collect();
    order.sort_by(|(left, one), (right, other)| right.total_cmp(left).then_with(|| one.address.cmp(&other.address)));
    hits.extend(order.into_iter().map(|(_, hit)| hit));
}

fn number(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

/// A question, its words by their stems.
struct Question {
    asked: HashSet<String>,
    /// What is looked for.
    sought: Vec<String>,
    /// The word that may not be finished.
    last: String,
    verb: Option<(String, Intent)>,
    /// It is about all there are.
    all: bool,
    /// It is about what is the person's own.
    mine: bool,
    /// What was asked, and what means the same.
    known: HashSet<String>,
}

impl Question {
    fn read(question: &str) -> Self {
        let plain = words(question);
        let (asked, sought) = asked_words(question);
        let verb = asked.iter().take(2).find_map(|word| Some((word.clone(), intent_of(word)?)));
        let known =
            asked.iter().flat_map(|word| std::iter::once(word.as_str()).chain(same_as(word))).map(stem).collect();
        Self {
            asked: asked.iter().map(|word| stem(word)).collect(),
            sought: sought.iter().map(|word| stem(word)).collect(),
            last: asked.last().map(|word| stem(word)).unwrap_or_default(),
            all: plain.iter().any(|word| word == "all") || verb.as_ref().is_some_and(|(word, _)| word == "list"),
            verb,
            mine: plain.iter().any(|word| MINE.0.contains(&word.as_str())),
            known,
        }
    }

    fn score(&self, hit: &Read, rarity: &[f64]) -> f64 {
        let (mut score, mut most) = (0.0, 0.0);
        for (word, rarity) in self.sought.iter().zip(rarity) {
            let mut found = hit.has(word);
            for other in same_as(word) {
                found = f64::max(found, 0.7 * hit.has(&stem(other)));
            }
            if found == 0.0 && *word == self.last && hit.named.iter().any(|named| named.starts_with(word.as_str())) {
                found = 1.5;
            }
            score += rarity * found;
            most += rarity * 3.0;
        }
        score /= f64::max(most, 1.0);
        // What nobody asked for.
        let is_other = |word: &&String| {
            !self.known.contains(*word) && (self.verb.is_none() || intent_of(word).is_none()) && word.len() > 2
        };
        score -= 0.02 * number(hit.own_name.iter().filter(is_other).count().min(8));
        score -= 0.02
            * number(
                hit.literals.iter().filter(|words| !words.iter().any(|word| self.known.contains(word))).count().min(6),
            );
        if let Some((verb, intent)) = &self.verb {
            score += hit.fits(*intent);
            if hit.named.contains(&stem(verb)) {
                score += 0.12;
            } else if hit.named.iter().any(|word| intent_of(word) == Some(*intent)) {
                score += 0.08;
            }
            if !hit.method.is_empty() {
                match intent {
                    Intent::Read if self.all => score += if hit.is_one { -0.1 } else { 0.08 },
                    Intent::Create if !hit.is_one => score += 0.05,
                    Intent::Read | Intent::Create | Intent::Update | Intent::Delete => {}
                }
            }
        }
        if self.mine && hit.is_of_caller {
            score += 0.12;
        }
        // The thing itself, rather than something of it.
        if hit.literals.last().is_some_and(|words| words.iter().any(|word| self.asked.contains(word))) {
            score += 0.06;
        }
        score
    }
}

/// A hit, its words by their stems.
struct Read {
    /// Of name and title.
    named: HashSet<String>,
    /// Of the name without the source.
    own_name: HashSet<String>,
    described: HashSet<String>,
    method: String,
    /// The words of each literal segment of the path.
    literals: Vec<Vec<String>>,
    /// The path ends in a place: one thing is meant.
    is_one: bool,
    is_of_caller: bool,
}

impl Read {
    fn of(hit: &Hit) -> Self {
        let stems = |text: &str| -> Vec<String> { words(text).iter().map(|word| stem(word)).collect() };
        let name = stems(&hit.name);
        let mut named: HashSet<String> = name.iter().cloned().collect();
        let title = stems(&hit.title);
        let description = without_tags(&hit.description);
        if title.iter().all(|word| named.contains(word)) {
            // No title of its own: the first sentence says what it does.
            let sentence = description.split(". ").next().unwrap_or_default();
            named.extend(stems(sentence).into_iter().take(TITLE_WORDS));
        }
        named.extend(title);
        let (method, path) = match hit.operation.split_once(' ') {
            Some((method, path)) if path.starts_with('/') => (method, path),
            _ => ("", ""),
        };
        let segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
        let literals: Vec<Vec<String>> =
            segments.iter().filter(|segment| !segment.starts_with('{')).map(|segment| stems(segment)).collect();
        let is_of_caller =
            literals.iter().flatten().chain(&named).any(|word| MINE.1.iter().any(|mine| stem(mine) == *word));
        Self {
            own_name: name.into_iter().skip(1).collect(),
            named,
            described: stems(&description).into_iter().collect(),
            method: method.to_owned(),
            literals,
            is_one: segments.last().is_some_and(|segment| segment.starts_with('{')),
            is_of_caller,
        }
    }

    /// How much the tool has to do with a word, from 0 to a little more than 3.
    fn has(&self, word: &str) -> f64 {
        if self.literals.last().is_some_and(|words| words.iter().any(|known| known == word)) {
            3.2
        } else if self.named.contains(word) {
            3.0
        } else if self.literals.iter().flatten().any(|known| known == word) {
            2.0
        } else if self.described.contains(word) {
            1.2
        } else {
            0.0
        }
    }

    /// Whether its method does what is asked; nothing is known of a tool without one.
    fn fits(&self, intent: Intent) -> f64 {
        match (intent, self.method.as_str()) {
            (_, "") => 0.0,
            (Intent::Read, "GET" | "HEAD")
            | (Intent::Create, "POST")
            | (Intent::Update, "PUT" | "PATCH")
            | (Intent::Delete, "DELETE") => 0.15,
            (Intent::Create, "PUT") | (Intent::Update | Intent::Delete, "POST") => 0.05,
            _ => -0.1,
        }
    }
}

fn intent_of(word: &str) -> Option<Intent> {
    VERBS
        .iter()
        .find(|(_, verbs)| verbs.iter().any(|verb| *verb == word || stem(verb) == word))
        .map(|(intent, _)| *intent)
}

/// Text without HTML tags.
fn without_tags(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut is_inside = false;
    for character in text.chars() {
        match character {
            '<' => is_inside = true,
            '>' => is_inside = false,
            _ if !is_inside => kept.push(character),
            _ => {}
        }
    }
    kept
}

/// A word without its English ending; crude, but the same for questions and tools.
fn stem(word: &str) -> String {
    let mut stem = word.to_owned();
    for (ending, instead) in [("ies", "y"), ("sses", "ss"), ("ing", ""), ("ed", ""), ("es", ""), ("s", "")] {
        if let Some(kept) =
            word.strip_suffix(ending).filter(|kept| kept.len() + instead.len() >= 3 && !word.ends_with("ss"))
        {
            stem = format!("{kept}{instead}");
            break;
        }
    }
    if stem.len() > 4 && stem.ends_with('e') {
        stem.pop();
    }
    let mut ends = stem.chars().rev();
    let is_doubled = matches!((ends.next(), ends.next()), (Some(last), Some(before)) if last == before && !matches!(last, 's' | 'l'));
    if stem.len() > 4 && is_doubled {
        stem.pop();
    }
    stem
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hit(address: &str, title: &str, description: &str, operation: &str) -> Hit {
        Hit {
            address: address.to_owned(),
            name: words(address).join(" "),
            title: words(title).join(" "),
            description: description.to_owned(),
            operation: operation.to_owned(),
        }
    }

    fn best(question: &str, hits: &[Hit]) -> String {
        let mut hits = hits.to_vec();
        rank(question, &mut hits);
        hits.remove(0).address
    }

    #[test]
    fn the_verb_decides_between_tools_of_one_thing() {
        let hits = [
            hit("c.readPod", "readPod", "read the specified Pod", "GET /namespaces/{namespace}/pods/{name}"),
            hit("c.listPod", "listPod", "list objects of kind Pod", "GET /namespaces/{namespace}/pods"),
            hit("c.createPod", "createPod", "create a Pod", "POST /namespaces/{namespace}/pods"),
            hit("c.replacePod", "replacePod", "replace the Pod", "PUT /namespaces/{namespace}/pods/{name}"),
            hit("c.deletePod", "deletePod", "delete a Pod", "DELETE /namespaces/{namespace}/pods/{name}"),
            hit("c.readPodLog", "readPodLog", "read log of the Pod", "GET /namespaces/{namespace}/pods/{name}/log"),
        ];
        for (question, expected) in [
            ("list pods in a namespace", "c.listPod"),
            ("get all pods", "c.listPod"),
            ("make a new pod", "c.createPod"),
            ("change a pod", "c.replacePod"),
            ("remove a pod", "c.deletePod"),
            ("read the logs of a pod", "c.readPodLog"),
        ] {
            assert_eq!(best(question, &hits), expected, "{question}");
        }
    }

    #[test]
    fn a_short_fitting_name_beats_a_long_one() {
        let hits = [
            hit("g.pulls.check_if_merged", "Check if a pull request has been merged", "", "GET /pulls/{n}/merge"),
            hit("g.pulls.merge", "Merge a pull request", "", "PUT /pulls/{n}/merge"),
            hit("g.teams.merge_pull_request_rules", "Merge a pull request rule of a team", "", "PUT /teams/{n}/rules"),
        ];
        assert_eq!(best("merge a pull request", &hits), "g.pulls.merge");
    }

    #[test]
    fn what_is_mine_is_the_callers() {
        let hits = [
            hit("g.repos.list_for_org", "List organization repositories", "", "GET /orgs/{org}/repos"),
            hit("g.repos.list_mine", "List repositories for the authenticated user", "", "GET /user/repos"),
        ];
        assert_eq!(best("list my repositories", &hits), "g.repos.list_mine");
    }

    #[test]
    fn tools_of_other_kinds_are_ranked_by_their_words() {
        let hits =
            [hit("m.echo", "Echo", "Gives back what it gets", "echo"), hit("m.add", "Add", "Adds two numbers", "add")];
        assert_eq!(best("add numbers", &hits), "m.add");
    }
}
