//! Finds the code blocks of a Markdown text: models wrap programs in fences.

/// Info words of blocks that may hold a program; a block without one may, too.
const LANGUAGES: [&str; 11] = ["", "ts", "typescript", "js", "javascript", "mts", "cts", "mjs", "cjs", "tsx", "jsx"];

/// A fenced block whose language is TypeScript, JavaScript, or not named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CodeBlock<'s> {
    /// Byte at which the opening fence's line starts.
    pub(super) fence_start: usize,
    /// Line of the opening fence, from 1.
    pub(super) fence_line: u32,
    /// What stands between the fences.
    pub(super) text: &'s str,
}

/// All such blocks. One that is never closed reaches to the end of the text.
pub(super) fn code_blocks(text: &str) -> Vec<CodeBlock<'_>> {
    let mut blocks = Vec::new();
    let mut open: Option<Fence> = None;
    let mut offset = 0;
    for (number, line) in (1_u32..).zip(text.split_inclusive('\n')) {
        let end = offset + line.len();
        if let Some(fence) = open {
            if closes(line, fence.ticks) {
                blocks.extend(fence.block(text, offset));
                open = None;
            }
        } else if let Some((ticks, accepted)) = opens(line) {
            open = Some(Fence { start: offset, line: number, ticks, content: end, accepted });
        }
        offset = end;
    }
    if let Some(fence) = open {
        blocks.extend(fence.block(text, text.len()));
    }
    blocks
}

/// An opening fence.
#[derive(Clone, Copy)]
struct Fence {
    start: usize,
    line: u32,
    ticks: usize,
    content: usize,
    accepted: bool,
}

impl Fence {
    /// The block that ends at byte `end`, unless it is in another language.
    fn block(self, text: &str, end: usize) -> Option<CodeBlock<'_>> {
        let text = text.get(self.content..end).filter(|_| self.accepted)?;
        Some(CodeBlock { fence_start: self.start, fence_line: self.line, text })
    }
}

/// The backticks at the start of a fence line, and what follows them.
fn fence(line: &str) -> Option<(usize, &str)> {
    let unindented = line.trim_start_matches(' ');
    let rest = unindented.trim_start_matches('`');
    let ticks = unindented.len() - rest.len();
    (line.len() - unindented.len() <= 3 && ticks >= 3).then_some((ticks, rest.trim()))
}

/// The number of backticks if `line` opens a block, and whether the block may be a program.
fn opens(line: &str) -> Option<(usize, bool)> {
    let (ticks, info) = fence(line).filter(|(_, info)| !info.contains('`'))?;
    let end = info.find(|character: char| !character.is_alphanumeric());
    let word = info.get(..end.unwrap_or(info.len())).unwrap_or_default();
    let accepted = LANGUAGES.iter().any(|language| word.eq_ignore_ascii_case(language));
    Some((ticks, accepted))
}

fn closes(line: &str, ticks: usize) -> bool {
    fence(line).is_some_and(|(closing, info)| closing >= ticks && info.is_empty())
}
