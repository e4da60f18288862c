//! Which line of the program each generated line comes from.

use oxc_sourcemap::SourceMap;

use super::source::{Source, script_lines};

/// The line of the sent text for each line of `javascript`, as ECMAScript counts its lines.
///
/// A line without an origin of its own has that of the line before it: the printer maps a position
/// only once. The wrapper's lines before and after the program have none.
pub(super) fn line_table(javascript: &str, map: Option<&SourceMap<'_>>, source: &Source<'_>) -> Vec<u32> {
    let origins = script_lines(source.text(), source.first_line());
    let mut lines = vec![0; script_lines(javascript, 1).len()];
    let mut last_mapped = 0;
    for token in map.into_iter().flat_map(SourceMap::get_tokens) {
        let generated = token.get_dst_line() as usize;
        let origin = origins.get(token.get_src_line() as usize);
        if let (Some(line @ 0), Some(origin)) = (lines.get_mut(generated), origin) {
            *line = *origin;
            last_mapped = last_mapped.max(generated);
        }
    }
    let mut previous = 0;
    for line in lines.iter_mut().take(last_mapped) {
        if *line == 0 {
            *line = previous;
        }
        previous = *line;
    }
    lines
}
