//! Which of the tools that a search found fit the question best.
//!
//! The index counts words. What a tool does with a thing, whose thing it is, and whether one is meant or all of them, is told by its
//! name, its title and the form of its request; that is weighed here, for the first hits of the index.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use super::search::{Asked, asked_words, same_as, words};
use super::stem::stem;

/// Hits of the index that are weighed.
pub const WEIGHED: usize = 160;

/// Characters of a description that are read.
pub const DESCRIPTION_CHARS: usize = 240;

/// Words of a description's first sentence that stand for a title where there is none.
const TITLE_WORDS: usize = 14;
/// Letters that a word has at least of which a longer one with the same beginning is taken for a form.
const FORM_LETTERS: usize = 5;
/// How well a form stands for the word.
const FORM_WORTH: f64 = 0.8;
/// How well another word of the same meaning stands for it.
const WORTH_OF_SYNONYM: f64 = 0.8;
/// How much it says where a word is found.
const WORTH_OF_LAST_SEGMENT: f64 = 3.2;
const WORTH_OF_NAME: f64 = 3.0;
const WORTH_OF_SEGMENT: f64 = 2.0;
const WORTH_OF_BEGINNING: f64 = 1.5;
const WORTH_OF_DESCRIPTION: f64 = 1.2;
/// What is asked for counts more than where it is ("the logs of a pod"), and than what is done with it, which the request's form
/// tells too.
const CONTEXT_WEIGHT: f64 = 0.6;
const VERB_WEIGHT: f64 = 0.85;

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
            "list", "get", "find", "search", "show", "read", "retrieve", "fetch", "lookup", "look", "view", "query",
            "see", "check", "count", "download", "compare",
        ],
    ),
    (
        Intent::Create,
        &[
            "create",
            "add",
            "new",
            "make",
            "insert",
            "register",
            "open",
            "post",
            "send",
            "upload",
            "import",
            "invite",
            "buy",
            "start",
            "run",
            "launch",
            "trigger",
            "begin",
            "execute",
            "schedule",
            "write",
            "subscribe",
            "attach",
            "join",
            "follow",
            "share",
            "copy",
            "submit",
        ],
    ),
    (
        Intent::Update,
        &[
            "update", "edit", "change", "modify", "set", "patch", "replace", "rename", "move", "close", "reopen",
            "mark", "assign", "resize", "scale", "toggle", "turn", "adjust", "enable", "disable", "pause", "lock",
            "protect", "void",
        ],
    ),
    (Intent::Delete, &["delete", "remove", "destroy", "erase", "cancel", "revoke", "clear", "unsubscribe", "unfollow"]),
];

/// Words of a question by which a person means what is theirs, and words of tools that are about it.
const MINE: ([&str; 4], [&str; 4]) = (["my", "me", "i", "mine"], ["authenticated", "me", "my", "current"]);
/// Words that a question which wants to know something begins with.
const ASKING: [&str; 6] = ["who", "what", "which", "where", "when", "how"];

/// Puts the hits that fit best first; of equal ones the order of addresses counts.
pub fn rank(question: &str, hits: &mut Vec<Hit>) {
    let question = Question::read(question);
    let stems = Stems::default();
    let read: Vec<Read> = hits.iter().map(|hit| Read::of(hit, &question, &stems)).collect();
    let rarity: Vec<f64> = (0..question.weights.len())
        .map(|word| {
            let having = read.iter().filter(|hit| hit.has(word)).count();
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

/// How many things a question is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Number {
    One,
    /// Its thing is a plural.
    Many,
    All,
}

/// A question.
struct Question {
    /// How much each word counts that is looked for.
    weights: Vec<f64>,
    /// Stems of what is looked for, and of what means the same: for which words each stands, and how well.
    vocabulary: HashMap<String, Vec<(usize, f64)>>,
    /// The first bytes of these stems.
    beginnings: Vec<[u8; 2]>,
    /// The thing that is asked for, among the words that are looked for.
    head: Option<usize>,
    /// The word that may not be finished.
    last: String,
    /// The stem of the verb.
    verb: Option<(String, Intent)>,
    number: Number,
    /// It is about what is the person's own.
    mine: bool,
    /// Stems of what was asked, and of what means the same.
    known: HashSet<String>,
    /// The verbs by their stems.
    intents: HashMap<String, Intent>,
}

impl Question {
    fn read(question: &str) -> Self {
        let asked = asked_words(question);
        let plain = words(question);
        let intents = intents();
        let first = plain.first().map(String::as_str).unwrap_or_default();
        let mut verb = asked
            .iter()
            .take(2)
            .find_map(|asked| Some((asked.word.as_str(), intents.get(&stem(&asked.word)).copied()?)));
        if verb.is_none() && ASKING.contains(&first) {
            verb = Some(("get", Intent::Read));
        }
        let sought: Vec<&Asked> = asked.iter().filter(|asked| asked.is_sought).collect();
        let head = sought.iter().rposition(|asked| !asked.is_context);
        let is_many = head.and_then(|head| sought.get(head)).is_some_and(|head| is_plural(&head.word));
        let every = plain.iter().any(|word| word == "all" || word == "every");
        let number = match verb {
            _ if every => Number::All,
            Some(("list", _)) => Number::All,
            Some((_, Intent::Read)) | None if is_many => Number::Many,
            _ => Number::One,
        };
        let mut vocabulary: HashMap<String, Vec<(usize, f64)>> = HashMap::new();
        for (index, asked) in sought.iter().enumerate() {
            vocabulary.entry(stem(&asked.word)).or_default().push((index, 1.0));
            for other in same_as(&asked.word) {
                vocabulary.entry(stem(other)).or_default().push((index, WORTH_OF_SYNONYM));
            }
        }
        let mut known: HashSet<String> = asked.iter().map(|asked| stem(&asked.word)).collect();
        known.extend(vocabulary.keys().cloned());
        let weight = |asked: &&Asked| {
            let is_verb = verb.as_ref().is_some_and(|(verb, _)| *verb == asked.word);
            // "Change the price of a plan" may mean to change the plan.
            let is_update = matches!(verb, Some((_, Intent::Update)));
            if asked.is_context && !is_update {
                CONTEXT_WEIGHT
            } else if is_verb && sought.len() > 1 {
                VERB_WEIGHT
            } else {
                1.0
            }
        };
        Self {
            weights: sought.iter().map(weight).collect(),
            head,
            last: asked.last().map(|asked| asked.word.clone()).unwrap_or_default(),
            verb: verb.map(|(verb, intent)| (stem(verb), intent)),
            number,
            mine: plain.iter().any(|word| MINE.0.contains(&word.as_str())),
            beginnings: vocabulary.keys().filter_map(|stem| stem.as_bytes().first_chunk().copied()).collect(),
            vocabulary,
            known,
            intents,
        }
    }

    /// Which sought words a stem stands for, and how well.
    fn meanings(&self, stem: &str) -> impl Iterator<Item = (usize, f64)> {
        let same = self.vocabulary.get(stem);
        let forms = self.vocabulary.iter().filter(move |(known, _)| same.is_none() && is_form_of(stem, known));
        let forms = forms.flat_map(|(_, meanings)| meanings.iter().map(|(index, worth)| (*index, FORM_WORTH * worth)));
        same.into_iter().flatten().copied().chain(forms)
    }

    /// Whether a piece of a description can have a word that is looked for, told by its beginning. A word in the middle of a piece
    /// in camel case is passed over.
    fn may_mean(&self, piece: &str) -> bool {
        let mut letters = piece.bytes().map(|byte| byte.to_ascii_lowercase());
        let beginning = [letters.next().unwrap_or(0), letters.next().unwrap_or(0)];
        self.beginnings.contains(&beginning)
    }

    fn is_verb(&self, stem: &str) -> bool {
        self.intents.contains_key(stem)
    }

    fn score(&self, hit: &Read, rarity: &[f64]) -> f64 {
        let (mut score, mut most) = (0.0, 0.0);
        for ((worth, weight), rarity) in hit.worth.iter().zip(&self.weights).zip(rarity) {
            score += weight * rarity * worth;
            most += weight * rarity * WORTH_OF_NAME;
        }
        score /= f64::max(most, 1.0);
        // What nobody asked for.
        score -= 0.02 * number(hit.others.min(8));
        score -= 0.02 * number(hit.other_segments.min(6));
        if let Some((verb, intent)) = &self.verb {
            score += hit.fits(*intent);
            if hit.named.contains(verb.as_str()) {
                score += 0.16;
            } else if hit.named.iter().any(|word| self.intents.get(&**word) == Some(intent)) {
                score += 0.08;
            }
            if !hit.method.is_empty() {
                score += match (intent, self.number) {
                    (Intent::Read, Number::All) => {
                        if hit.is_one {
                            -0.1
                        } else {
                            0.08
                        }
                    }
                    (Intent::Read, Number::Many) => {
                        if hit.is_one {
                            -0.05
                        } else {
                            0.05
                        }
                    }
                    (Intent::Create, _) if !hit.is_one => 0.05,
                    (Intent::Read | Intent::Update | Intent::Delete, Number::One) if hit.is_one => 0.05,
                    (Intent::Read | Intent::Create | Intent::Update | Intent::Delete, _) => 0.0,
                };
            }
        }
        if hit.is_of_caller {
            score += if self.mine { 0.12 } else { -0.04 };
        }
        if hit.is_deprecated {
            score -= 0.06;
        }
        // The thing itself, rather than something of it.
        if let Some(head) = self.head
            && hit.last_means.contains(&head)
        {
            score += 0.1;
        } else if !hit.last_means.is_empty() {
            score += 0.04;
        }
        score
    }
}

/// A hit, as far as the question is about it. Words are stems.
struct Read {
    /// For each word that is looked for, how much the tool has to do with it, from 0 to a little more than 3.
    worth: Vec<f64>,
    /// The words of name and title.
    named: HashSet<Rc<str>>,
    /// Words of the name that nobody asked for.
    others: usize,
    /// Literal segments of the path that nobody asked for.
    other_segments: usize,
    /// Words looked for that the last literal segment of the path means.
    last_means: Vec<usize>,
    method: String,
    /// What the request does, where its path says more than the method.
    does: Option<Intent>,
    /// The path ends in a place: one thing is meant.
    is_one: bool,
    is_of_caller: bool,
    is_deprecated: bool,
}

impl Read {
    fn of(hit: &Hit, question: &Question, stems: &Stems) -> Self {
        let mut worth = vec![0.0; question.weights.len()];
        let mut note = |stem: &str, most: f64| {
            for (index, part) in question.meanings(stem) {
                if let Some(worth) = worth.get_mut(index) {
                    *worth = f64::max(*worth, part * most);
                }
            }
        };
        // Both are words already.
        let name: Vec<Rc<str>> = hit.name.split(' ').map(|word| stems.of(word)).collect();
        let title: Vec<Rc<str>> = hit.title.split(' ').map(|word| stems.of(word)).collect();
        let description = without_tags(&hit.description);
        let mut named: HashSet<Rc<str>> = name.iter().cloned().collect();
        if title.iter().all(|word| named.contains(word)) {
            // No title of its own: the description's beginning says what it does.
            let beginning = pieces(&description).take(TITLE_WORDS).flat_map(words);
            named.extend(beginning.take(TITLE_WORDS).map(|word| stems.of(&word)));
        }
        named.extend(title);
        for word in &named {
            note(word, WORTH_OF_NAME);
        }
        for word in pieces(&description).filter(|piece| question.may_mean(piece)).flat_map(words) {
            note(&stems.of(&word), WORTH_OF_DESCRIPTION);
        }
        let (method, path) = match hit.operation.split_once(' ') {
            Some((method, path)) if path.starts_with('/') => (method, path),
            _ => ("", ""),
        };
        let segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
        let literals: Vec<Vec<String>> =
            segments.iter().filter(|segment| !segment.starts_with('{')).map(|segment| words(segment)).collect();
        let (mut other_segments, mut last_means) = (0, Vec::new());
        let mut is_of_caller = named.iter().any(|word| &**word == "authent" || MINE.1.contains(&&**word));
        // Of "/transactions/get" the first is what it is about.
        let is_thing = |segment: &Vec<String>| segment.iter().any(|word| intent_of(word).is_none());
        let last_thing = literals.iter().rposition(is_thing);
        for (index, segment) in literals.iter().enumerate() {
            let is_last = last_thing == Some(index);
            let mut is_known = false;
            for word in segment {
                let stem = stems.of(word);
                note(&stem, if is_last { WORTH_OF_LAST_SEGMENT } else { WORTH_OF_SEGMENT });
                is_known |= question.known.contains(&*stem);
                is_of_caller |= MINE.1.contains(&word.as_str());
                if is_last {
                    last_means.extend(question.meanings(&stem).map(|(index, _)| index));
                }
            }
            other_segments += usize::from(!is_known);
        }
        // Who types may not have finished the last word.
        if question.last.len() > 1 && named.iter().any(|word| word.starts_with(&question.last)) {
            note(&stem(&question.last), WORTH_OF_BEGINNING);
        }
        let is_other = |word: &&Rc<str>| {
            word.len() > 2 && !question.known.contains(&***word) && (question.verb.is_none() || !question.is_verb(word))
        };
        Self {
            others: name.iter().skip(1).collect::<HashSet<_>>().into_iter().filter(is_other).count(),
            other_segments,
            last_means,
            does: literals
                .last()
                .filter(|_| method == "POST")
                .and_then(|last| last.iter().find_map(|word| intent_of(word))),
            method: method.to_owned(),
            is_one: segments.last().is_some_and(|segment| segment.starts_with('{')),
            is_of_caller,
            is_deprecated: hit.title.contains("deprecated") || description.contains("eprecated"),
            named,
            worth,
        }
    }

    fn has(&self, word: usize) -> bool {
        self.worth.get(word).is_some_and(|worth| *worth > 0.0)
    }

    /// Whether its request does what is asked; nothing is known of a tool without one.
    fn fits(&self, intent: Intent) -> f64 {
        match (intent, self.method.as_str(), self.does) {
            (_, "", _) => 0.0,
            (_, "POST", Some(does)) if does == intent => 0.15,
            (Intent::Read, "GET" | "HEAD", _)
            | (Intent::Create, "POST", None | Some(Intent::Update))
            | (Intent::Update, "PUT" | "PATCH", _)
            | (Intent::Delete, "DELETE", _) => 0.15,
            (Intent::Create, "PUT", _) | (Intent::Update, "POST", _) | (Intent::Delete, "POST", None) => 0.05,
            _ => -0.1,
        }
    }
}

/// The verbs by their stems.
fn intents() -> HashMap<String, Intent> {
    VERBS.iter().flat_map(|(intent, verbs)| verbs.iter().map(|verb| (stem(verb), *intent))).collect()
}

fn intent_of(word: &str) -> Option<Intent> {
    VERBS.iter().find(|(_, verbs)| verbs.contains(&word)).map(|(intent, _)| *intent)
}

fn is_plural(word: &str) -> bool {
    word.len() > 3 && word.ends_with('s') && !["ss", "us", "is"].iter().any(|ending| word.ends_with(ending))
}

/// Whether one stem begins with the other, as "reaction" does with "react".
fn is_form_of(one: &str, other: &str) -> bool {
    let (short, long) = if one.len() < other.len() { (one, other) } else { (other, one) };
    short.len() >= FORM_LETTERS && long.len() <= short.len() + 4 && long.starts_with(short)
}

/// The pieces of a text that consist of letters and digits.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    text.split(|character: char| !character.is_alphanumeric()).filter(|piece| !piece.is_empty())
}

/// Text without HTML tags.
fn without_tags(text: &str) -> Cow<'_, str> {
    if !text.contains('<') {
        return Cow::Borrowed(text);
    }
    // What follows a bracket up to the other one is a tag; before the first bracket nothing is.
    let mut parts = text.split('<');
    let mut kept = parts.next().unwrap_or_default().to_owned();
    for (_, after) in parts.filter_map(|part| part.split_once('>')) {
        kept.push(' ');
        kept.push_str(after);
    }
    Cow::Owned(kept)
}

/// Stems that were made already: tools of one catalog are named with the same words.
#[derive(Default)]
struct Stems {
    known: RefCell<HashMap<String, Rc<str>>>,
}

impl Stems {
    fn of(&self, word: &str) -> Rc<str> {
        if let Some(known) = self.known.borrow().get(word) {
            return Rc::clone(known);
        }
        let made: Rc<str> = stem(word).into();
        self.known.borrow_mut().insert(word.to_owned(), Rc::clone(&made));
        made
    }
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
    fn what_is_asked_for_counts_more_than_where_it_is() {
        let hits = [
            hit("a.listBankAccounts", "List bank accounts", "", "GET /bank_accounts"),
            hit("a.transactionsGet", "Get transaction data of an account", "", "POST /transactions/get"),
            hit("a.transactionsSync", "Sync transactions", "", "POST /transactions/sync"),
        ];
        assert_eq!(best("get the transactions of a bank account", &hits), "a.transactionsGet");
    }

    #[test]
    fn a_path_that_names_a_verb_says_what_a_post_does() {
        let hits = [
            hit("s.reactions_list", "List", "Lists reactions", "POST /reactions.list"),
            hit("s.reactions_add", "Adds", "A reaction to an item", "POST /reactions.add"),
            hit("s.reactions_remove", "Removes", "A reaction from an item", "POST /reactions.remove"),
        ];
        for (question, expected) in [
            ("react to a message", "s.reactions_add"),
            ("delete a reaction", "s.reactions_remove"),
            ("which reactions are there", "s.reactions_list"),
        ] {
            assert_eq!(best(question, &hits), expected, "{question}");
        }
    }

    #[test]
    fn what_no_tool_is_named_after_is_an_update() {
        let hits = [
            hit("g.issues.get", "Get an issue", "", "GET /issues/{n}"),
            hit("g.issues.update", "Update an issue", "title body state", "PATCH /issues/{n}"),
            hit("g.issues.listComments", "List comments of an issue", "", "GET /issues/{n}/comments"),
        ];
        assert_eq!(best("close an issue", &hits), "g.issues.update");
    }

    #[test]
    fn who_and_which_ask_to_read() {
        let hits = [
            hit("g.star_repo", "Star a repository", "", "PUT /user/starred/{repo}"),
            hit(
                "g.list_stargazers_for_repo",
                "List stargazers",
                "People who starred the repository",
                "GET /repos/{repo}/stargazers",
            ),
            hit("g.unstar_repo", "Unstar a repository", "", "DELETE /user/starred/{repo}"),
        ];
        assert_eq!(best("who starred this repository", &hits), "g.list_stargazers_for_repo");
    }

    #[test]
    fn what_is_deprecated_comes_after_what_is_not() {
        let hits = [
            hit("k.watchPods", "Watch pods", "Deprecated: use list", "GET /watch/pods"),
            hit("k.zlistPods", "Pods", "All pods", "GET /pods"),
        ];
        assert_eq!(best("pods", &hits), "k.zlistPods");
    }

    #[test]
    fn tools_of_other_kinds_are_ranked_by_their_words() {
        let hits =
            [hit("m.echo", "Echo", "Gives back what it gets", "echo"), hit("m.add", "Add", "Adds two numbers", "add")];
        assert_eq!(best("add numbers", &hits), "m.add");
    }
}
