//! Makes text of unknown origin fit to be looked at: what nobody would see becomes visible.
//!
//! Tools, models, clients and documents may write characters that take no space, turn the reading
//! direction round or push what follows out of sight. A person who approves must see them. Letters
//! that merely look like other letters are not detected.

/// Spaces in a row up to which they are shown as they are.
const SPACES: usize = 32;
/// Combining marks on one letter up to which they are shown as they are.
const MARKS: usize = 3;

/// A part of a text, in the order of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Shows as it is.
    Plain(&'a str),
    /// Letters of a right-to-left script: to be isolated, so that they cannot reorder what stands beside them.
    RightToLeft(&'a str),
    /// Characters that would not be seen; at least one.
    Hidden(&'a str),
    /// This many spaces, more than anybody would count.
    Spaces(usize),
    /// A line feed, or a carriage return and a line feed.
    LineBreak,
    /// A tab.
    Tab,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Plain,
    RightToLeft,
    Hidden,
}

/// Takes a text apart into what can be shown as it is and what has to be made visible. Nothing is left out.
#[must_use]
pub fn visible(text: &str) -> Vec<Piece<'_>> {
    let mut pieces = Pieces { text, list: Vec::new(), start: 0, kind: Kind::Plain };
    let mut before = Before::default();
    let mut rest = text.char_indices().peekable();
    while let Some((at, character)) = rest.next() {
        let next = rest.peek().map(|&(_, next)| next);
        match character {
            '\n' => pieces.put(at, 1, Piece::LineBreak),
            '\r' if next == Some('\n') => {
                rest.next();
                pieces.put(at, 2, Piece::LineBreak);
            }
            '\t' => pieces.put(at, 1, Piece::Tab),
            ' ' => {
                let count = text.get(at..).map_or(1, |tail| tail.len() - tail.trim_start_matches(' ').len());
                if count > SPACES {
                    pieces.put(at, count, Piece::Spaces(count));
                    for _ in 1..count {
                        rest.next();
                    }
                } else if pieces.kind != Kind::RightToLeft
                    || !text.get(at..).is_some_and(|tail| tail.trim_start_matches(' ').starts_with(is_right_to_left))
                {
                    pieces.turn(at, Kind::Plain);
                }
            }
            _ if !before.is_seen(character, next) => pieces.turn(at, Kind::Hidden),
            _ if is_right_to_left(character) => pieces.turn(at, Kind::RightToLeft),
            _ if is_combining(character) => {}
            _ => pieces.turn(at, Kind::Plain),
        }
        before.step(character);
    }
    pieces.finish()
}

struct Pieces<'a> {
    text: &'a str,
    list: Vec<Piece<'a>>,
    start: usize,
    kind: Kind,
}

impl<'a> Pieces<'a> {
    fn close(&mut self, at: usize) {
        if let Some(part) = self.text.get(self.start..at).filter(|part| !part.is_empty()) {
            self.list.push(match self.kind {
                Kind::Plain => Piece::Plain(part),
                Kind::RightToLeft => Piece::RightToLeft(part),
                Kind::Hidden => Piece::Hidden(part),
            });
        }
        self.start = at;
    }

    fn turn(&mut self, at: usize, kind: Kind) {
        if self.kind != kind {
            self.close(at);
            self.kind = kind;
        }
    }

    fn put(&mut self, at: usize, length: usize, piece: Piece<'a>) {
        self.close(at);
        self.kind = Kind::Plain;
        self.list.push(piece);
        self.start = at + length;
    }

    fn finish(mut self) -> Vec<Piece<'a>> {
        self.close(self.text.len());
        self.list
    }
}

/// What came before a character, as far as it decides whether the character is seen.
#[derive(Default)]
struct Before {
    last: Option<char>,
    picture: bool,
    marks: usize,
}

impl Before {
    fn is_seen(&self, character: char, next: Option<char>) -> bool {
        match character {
            // A presentation selector that makes one emoji, and a joiner between two, do what they look like.
            '\u{FE0E}' | '\u{FE0F}' => {
                self.last.is_some_and(|last| is_picture(last) || (next == Some('\u{20E3}') && is_keycap(last)))
            }
            '\u{200D}' => self.picture && next.is_some_and(is_picture),
            _ if is_combining(character) => self.has_base() && self.marks < MARKS,
            _ => !is_hidden(character),
        }
    }

    fn has_base(&self) -> bool {
        self.last
            .is_some_and(|last| !last.is_whitespace() && (!is_hidden(last) || matches!(last, '\u{FE0E}' | '\u{FE0F}')))
    }

    fn step(&mut self, character: char) {
        self.picture = is_picture(character) || (self.picture && matches!(character, '\u{FE0E}' | '\u{FE0F}'));
        self.marks = if is_combining(character) { self.marks + 1 } else { 0 };
        self.last = Some(character);
    }
}

/// Whether a character takes no space, looks like a space without being one, changes the reading direction, or stands for nothing.
fn is_hidden(character: char) -> bool {
    matches!(character,
        '\0'..='\u{1F}' | '\u{7F}'..='\u{A0}'
        | '\u{AD}' | '\u{34F}' | '\u{61C}' | '\u{115F}' | '\u{1160}' | '\u{1680}' | '\u{17B4}' | '\u{17B5}'
        | '\u{180B}'..='\u{180F}'
        | '\u{2000}'..='\u{200F}' | '\u{2028}'..='\u{202F}' | '\u{205F}'..='\u{206F}'
        | '\u{2800}' | '\u{3164}' | '\u{FE00}'..='\u{FE0F}' | '\u{FEFF}' | '\u{FFA0}' | '\u{FFF0}'..='\u{FFFB}'
        // Musical and shorthand format controls.
        | '\u{1BCA0}'..='\u{1BCA3}' | '\u{1D173}'..='\u{1D17A}'
        // Private use.
        | '\u{E000}'..='\u{F8FF}' | '\u{F0000}'..='\u{10FFFF}'
        // Never assigned, tags and further variation selectors.
        | '\u{FDD0}'..='\u{FDEF}' | '\u{40000}'..='\u{EFFFF}')
        || u32::from(character) & 0xFFFE == 0xFFFE
}

fn is_combining(character: char) -> bool {
    matches!(character,
        '\u{300}'..='\u{34E}' | '\u{350}'..='\u{36F}' | '\u{483}'..='\u{489}' | '\u{1AB0}'..='\u{1AFF}'
        | '\u{1DC0}'..='\u{1DFF}' | '\u{20D0}'..='\u{20FF}' | '\u{FE20}'..='\u{FE2F}')
}

fn is_right_to_left(character: char) -> bool {
    matches!(character,
        '\u{590}'..='\u{61B}' | '\u{61D}'..='\u{8FF}' | '\u{FB1D}'..='\u{FDCF}' | '\u{FDF0}'..='\u{FDFF}'
        | '\u{FE70}'..='\u{FEFC}' | '\u{10800}'..='\u{10FFF}' | '\u{1E800}'..='\u{1EFFF}')
}

fn is_picture(character: char) -> bool {
    matches!(character,
        '\u{A9}' | '\u{AE}' | '\u{203C}' | '\u{2049}' | '\u{2122}' | '\u{2139}' | '\u{2194}'..='\u{21AA}'
        | '\u{231A}'..='\u{23FF}' | '\u{24C2}' | '\u{25AA}'..='\u{25FE}' | '\u{2600}'..='\u{27BF}'
        | '\u{2934}' | '\u{2935}' | '\u{2B05}'..='\u{2B55}' | '\u{3030}' | '\u{303D}' | '\u{3297}' | '\u{3299}'
        | '\u{1F000}'..='\u{1FAFF}')
}

fn is_keycap(character: char) -> bool {
    matches!(character, '#' | '*' | '0'..='9')
}

/// What a hidden character is called, where it has a name that people know.
#[must_use]
pub fn name(character: char) -> Option<&'static str> {
    Some(match character {
        '\0' => "null",
        '\u{8}' => "backspace",
        '\r' => "carriage return",
        '\u{1B}' => "escape",
        '\u{7F}' => "delete",
        '\u{A0}' => "no-break space",
        '\u{AD}' => "soft hyphen",
        '\u{34F}' => "combining grapheme joiner",
        '\u{61C}' => "Arabic letter mark",
        '\u{115F}' | '\u{1160}' | '\u{3164}' | '\u{FFA0}' => "Hangul filler",
        '\u{180E}' => "Mongolian vowel separator",
        '\u{2000}'..='\u{200A}' | '\u{202F}' | '\u{205F}' | '\u{1680}' => "special space",
        '\u{200B}' => "zero-width space",
        '\u{200C}' => "zero-width non-joiner",
        '\u{200D}' => "zero-width joiner",
        '\u{200E}' => "left-to-right mark",
        '\u{200F}' => "right-to-left mark",
        '\u{2028}' => "line separator",
        '\u{2029}' => "paragraph separator",
        '\u{202A}' => "left-to-right embedding",
        '\u{202B}' => "right-to-left embedding",
        '\u{202C}' => "end of embedding or override",
        '\u{202D}' => "left-to-right override",
        '\u{202E}' => "right-to-left override",
        '\u{2060}' => "word joiner",
        '\u{2061}'..='\u{2064}' => "invisible operator",
        '\u{2066}' => "left-to-right isolate",
        '\u{2067}' => "right-to-left isolate",
        '\u{2068}' => "first strong isolate",
        '\u{2069}' => "end of isolate",
        '\u{2800}' => "Braille blank",
        '\u{FEFF}' => "zero-width no-break space",
        '\u{FE00}'..='\u{FE0F}' | '\u{180B}'..='\u{180F}' | '\u{E0100}'..='\u{E01EF}' => "variation selector",
        '\u{E000}'..='\u{F8FF}' | '\u{F0000}'..='\u{10FFFD}' => "private use",
        '\u{E0000}'..='\u{E007F}' => "tag",
        '\0'..='\u{1F}' | '\u{80}'..='\u{9F}' => "control character",
        _ if is_combining(character) => "combining mark",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hidden(text: &str) -> bool {
        visible(text).iter().any(|piece| matches!(piece, Piece::Hidden(_)))
    }

    /// The text again, from its pieces.
    fn joined(pieces: &[Piece<'_>]) -> String {
        pieces.iter().fold(String::new(), |mut text, piece| {
            match piece {
                Piece::Plain(part) | Piece::RightToLeft(part) | Piece::Hidden(part) => text.push_str(part),
                Piece::Spaces(count) => text.push_str(&" ".repeat(*count)),
                Piece::LineBreak => text.push('\n'),
                Piece::Tab => text.push('\t'),
            }
            text
        })
    }

    #[test]
    fn every_hidden_character_is_marked_and_its_neighbours_are_not() {
        let ranges: &[(u32, u32)] = &[
            (0x00, 0x08),
            (0x0B, 0x1F),
            (0x7F, 0xA0),
            (0xAD, 0xAD),
            (0x34F, 0x34F),
            (0x61C, 0x61C),
            (0x115F, 0x1160),
            (0x17B4, 0x17B5),
            (0x180B, 0x180F),
            (0x200B, 0x200F),
            (0x2028, 0x202E),
            (0x2060, 0x206F),
            (0xFE00, 0xFE0F),
            (0xFEFF, 0xFEFF),
            (0xFDD0, 0xFDEF),
            (0xFFFE, 0xFFFF),
            (0x1FFFE, 0x1FFFF),
            (0xE000, 0xE0FF),
            (0xE0000, 0xE01EF),
            (0xF0000, 0xF00FF),
            (0x10_FFFE, 0x10_FFFF),
        ];
        for code in ranges.iter().flat_map(|&(from, to)| from..=to) {
            let character = char::from_u32(code).unwrap();
            let text = format!("ab{character}cd");
            let part = character.to_string();
            assert_eq!(visible(&text), [Piece::Plain("ab"), Piece::Hidden(&part), Piece::Plain("cd")], "U+{code:04X}");
        }
    }

    #[test]
    fn ordinary_text_is_one_piece() {
        for text in [
            "",
            "Delete item 7",
            "naïve façade",
            "Ελληνικά",
            "日本語のテキスト",
            "Tiê\u{301}ng Viê\u{323}t",
            "5 × 3 – “ok”",
            "हिन्दी",
            "ไทย",
        ] {
            assert!(visible(text).iter().all(|piece| *piece == Piece::Plain(text)), "{text}");
        }
    }

    #[test]
    fn emoji_are_shown_and_selectors_elsewhere_are_marked() {
        for text in ["❤\u{FE0F}", "👩\u{200D}💻", "1\u{FE0F}\u{20E3}", "👩🏽\u{200D}💻", "🏳\u{FE0F}\u{200D}🌈"]
        {
            assert!(!hidden(text), "{text}");
        }
        for text in [
            "a\u{FE0F}",
            "❤\u{FE0F}\u{FE0F}",
            "1\u{FE0F}",
            "👩\u{200D}x",
            "x\u{200D}💻",
            "🏴\u{E0067}\u{E007F}",
            "❤\u{FE00}",
        ] {
            assert!(hidden(text), "{}", text.escape_unicode());
        }
    }

    #[test]
    fn piled_and_loose_combining_marks_are_marked() {
        assert!(!hidden("e\u{301}\u{302}\u{303}"));
        assert!(hidden("e\u{301}\u{302}\u{303}\u{304}"));
        assert!(hidden("\u{301}x"));
        assert!(hidden("a \u{301}x"));
        assert!(hidden("a\n\u{338}"));
        assert!(hidden("a\u{200B}\u{338}"));
    }

    #[test]
    fn right_to_left_letters_are_a_piece_of_their_own() {
        assert_eq!(
            visible("a שלום עולם = 1"),
            [Piece::Plain("a "), Piece::RightToLeft("שלום עולם"), Piece::Plain(" = 1")]
        );
        assert_eq!(visible("سلام"), [Piece::RightToLeft("سلام")]);
    }

    #[test]
    fn line_breaks_tabs_and_long_runs_of_spaces() {
        assert_eq!(
            visible("a\r\nb\n\tc\r"),
            [
                Piece::Plain("a"),
                Piece::LineBreak,
                Piece::Plain("b"),
                Piece::LineBreak,
                Piece::Tab,
                Piece::Plain("c"),
                Piece::Hidden("\r")
            ]
        );
        let spaces = " ".repeat(SPACES + 1);
        assert_eq!(
            visible(&format!("rm{spaces}-rf")),
            [Piece::Plain("rm"), Piece::Spaces(SPACES + 1), Piece::Plain("-rf")]
        );
        let few = " ".repeat(SPACES);
        assert_eq!(visible(&few), [Piece::Plain(&few)]);
    }

    #[test]
    fn nothing_is_lost() {
        let spaces = " ".repeat(100);
        for text in [
            "a\u{202E}\u{2066}b\u{200B}\n\n\tc".to_owned(),
            format!("{spaces}שלום {spaces}\u{AD} x"),
            "\u{FEFF}שלום \u{200F}\u{301}é\u{301}".to_owned(),
            (0..0x3000).filter_map(char::from_u32).filter(|character| *character != '\r').collect(),
        ] {
            assert_eq!(joined(&visible(&text)), text);
        }
    }
}
