//! English words without their endings, as the index makes them (M. F. Porter, "An algorithm for suffix stripping", 1980), so that what
//! the index found is found again when hits are weighed.

/// The stem of a word in lower case. Words of other letters than a to z, and short ones, stay as they are.
#[must_use]
pub(super) fn stem(word: &str) -> String {
    let mut word = Word(word.to_owned());
    if word.0.len() > 2 && word.0.bytes().all(|byte| byte.is_ascii_lowercase()) {
        word.drop_plural();
        word.drop_past();
        if word.0.ends_with('y') && has_vowel(word.before(1)) {
            word.swap(1, "i");
        }
        word.swap_first(&DOUBLE, 0);
        word.swap_first(&SINGLE, 0);
        word.drop_last();
        word.tidy();
    }
    word.0
}

const DOUBLE: [(&str, &str); 20] = [
    ("ational", "ate"),
    ("tional", "tion"),
    ("enci", "ence"),
    ("anci", "ance"),
    ("izer", "ize"),
    ("abli", "able"),
    ("alli", "al"),
    ("entli", "ent"),
    ("eli", "e"),
    ("ousli", "ous"),
    ("ization", "ize"),
    ("ation", "ate"),
    ("ator", "ate"),
    ("alism", "al"),
    ("iveness", "ive"),
    ("fulness", "ful"),
    ("ousness", "ous"),
    ("aliti", "al"),
    ("iviti", "ive"),
    ("biliti", "ble"),
];
const SINGLE: [(&str, &str); 7] =
    [("icate", "ic"), ("ative", ""), ("alize", "al"), ("iciti", "ic"), ("ical", "ic"), ("ful", ""), ("ness", "")];
const LAST: [&str; 18] = [
    "al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ou", "ism", "ate", "iti", "ous",
    "ive", "ize",
];

struct Word(String);

impl Word {
    /// The word without so many letters at its end.
    fn before(&self, letters: usize) -> &str {
        self.0.get(..self.0.len().saturating_sub(letters)).unwrap_or_default()
    }

    fn swap(&mut self, letters: usize, instead: &str) {
        self.0.truncate(self.0.len().saturating_sub(letters));
        self.0.push_str(instead);
    }

    fn drop_plural(&mut self) {
        if self.0.ends_with("sses") || self.0.ends_with("ies") {
            self.swap(2, "");
        } else if self.0.ends_with('s') && !self.0.ends_with("ss") {
            self.swap(1, "");
        }
    }

    fn drop_past(&mut self) {
        if self.0.ends_with("eed") {
            if measure(self.before(3)) > 0 {
                self.swap(1, "");
            }
            return;
        }
        let Some(ending) = ["ed", "ing"].iter().find(|ending| self.0.ends_with(**ending)).map(|ending| ending.len())
        else {
            return;
        };
        if !has_vowel(self.before(ending)) {
            return;
        }
        self.swap(ending, "");
        if ["at", "bl", "iz"].iter().any(|ending| self.0.ends_with(ending))
            || (measure(&self.0) == 1 && is_short(&self.0))
        {
            self.0.push('e');
        } else if is_doubled(&self.0) && !self.0.ends_with(['l', 's', 'z']) {
            self.swap(1, "");
        }
    }

    /// Swaps the first ending that fits, if enough of the word is left.
    fn swap_first(&mut self, endings: &[(&str, &str)], more_than: usize) {
        let fits = endings.iter().filter(|(ending, _)| self.0.ends_with(ending)).max_by_key(|(ending, _)| ending.len());
        if let Some((ending, instead)) = fits
            && measure(self.before(ending.len())) > more_than
        {
            self.swap(ending.len(), instead);
        }
    }

    fn drop_last(&mut self) {
        if self.0.ends_with("ion") {
            if measure(self.before(3)) > 1 && self.before(3).ends_with(['s', 't']) {
                self.swap(3, "");
            }
            return;
        }
        let fits = LAST.iter().filter(|ending| self.0.ends_with(**ending)).max_by_key(|ending| ending.len());
        if let Some(ending) = fits
            && measure(self.before(ending.len())) > 1
        {
            self.swap(ending.len(), "");
        }
    }

    fn tidy(&mut self) {
        if self.0.ends_with('e') {
            let before = self.before(1);
            if measure(before) > 1 || (measure(before) == 1 && !is_short(before)) {
                self.swap(1, "");
            }
        }
        if self.0.ends_with("ll") && measure(&self.0) > 1 {
            self.swap(1, "");
        }
    }
}

/// Whether each letter is a vowel; `y` is one after a consonant.
fn vowels(text: &str) -> impl Iterator<Item = bool> {
    text.bytes().scan(true, |after_vowel, letter| {
        let is_vowel = matches!(letter, b'a' | b'e' | b'i' | b'o' | b'u') || (letter == b'y' && !*after_vowel);
        *after_vowel = is_vowel;
        Some(is_vowel)
    })
}

fn has_vowel(text: &str) -> bool {
    vowels(text).any(|is_vowel| is_vowel)
}

/// How often consonants follow vowels.
fn measure(text: &str) -> usize {
    let mut before = false;
    vowels(text).filter(|is_vowel| std::mem::replace(&mut before, *is_vowel) && !is_vowel).count()
}

fn is_doubled(text: &str) -> bool {
    let mut ends = text.bytes().rev();
    matches!((ends.next(), ends.next()), (Some(last), Some(before)) if last == before)
        && vowels(text).last() == Some(false)
}

/// It ends with consonant, vowel and consonant, the last of which is none of w, x and y.
fn is_short(text: &str) -> bool {
    let kinds: Vec<bool> = vowels(text).collect();
    kinds.ends_with(&[false, true, false]) && !text.ends_with(['w', 'x', 'y'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_kind_have_one_stem() {
        for (word, expected) in [
            ("caresses", "caress"),
            ("ponies", "poni"),
            ("cats", "cat"),
            ("agreed", "agre"),
            ("feed", "feed"),
            ("plastered", "plaster"),
            ("motoring", "motor"),
            ("sing", "sing"),
            ("conflated", "conflat"),
            ("hopping", "hop"),
            ("falling", "fall"),
            ("filing", "file"),
            ("happy", "happi"),
            ("sky", "sky"),
            ("relational", "relat"),
            ("conditional", "condit"),
            ("digitizer", "digit"),
            ("radically", "radic"),
            ("vietnamization", "vietnam"),
            ("formality", "formal"),
            ("triplicate", "triplic"),
            ("goodness", "good"),
            ("revival", "reviv"),
            ("replacement", "replac"),
            ("adoption", "adopt"),
            ("eviction", "evict"),
            ("evict", "evict"),
            ("probate", "probat"),
            ("controller", "control"),
            ("repositories", "repositori"),
            ("repository", "repositori"),
            ("starred", "star"),
            ("issues", "issu"),
            ("is", "is"),
            ("größen", "größen"),
            ("v1s", "v1s"),
        ] {
            assert_eq!(stem(word), expected, "{word}");
        }
    }
}
