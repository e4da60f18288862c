//! The places of a text where one of several patterns may begin.

/// Entries of the table of shifts; a pair of bytes is one of them.
const TABLE: usize = 4_096;

/// Patterns prepared for searching.
#[derive(Clone)]
pub(super) struct Scanner {
    /// Bytes of the shortest pattern: the window that is looked at.
    window: usize,
    /// How far the window may move when these two bytes are at its end.
    shifts: Vec<u8>,
    /// The patterns whose window ends with such a pair, in the order in which they were given.
    buckets: Vec<(u16, Vec<u16>)>,
}

impl Scanner {
    /// `None` where there is nothing to look for. Patterns have at least two bytes.
    pub(super) fn new<'p>(patterns: impl Iterator<Item = &'p [u8]> + Clone) -> Option<Self> {
        let window = patterns.clone().map(<[u8]>::len).min()?.min(usize::from(u8::MAX));
        if window < 2 {
            return None;
        }
        let widest = u8::try_from(window - 1).unwrap_or(u8::MAX);
        let mut shifts = vec![widest; TABLE];
        let mut buckets: Vec<(u16, Vec<u16>)> = Vec::new();
        for (index, pattern) in (0..u16::MAX).zip(patterns) {
            for (start, pair) in pattern.windows(2).take(window - 1).enumerate() {
                let slot = slot(pair);
                let rest = u8::try_from(window - 2 - start).unwrap_or(u8::MAX);
                if let Some(shift) = shifts.get_mut(usize::from(slot)) {
                    *shift = rest.min(*shift);
                }
                if rest == 0 {
                    match buckets.iter_mut().find(|(known, _)| *known == slot) {
                        Some((_, bucket)) => bucket.push(index),
                        None => buckets.push((slot, vec![index])),
                    }
                }
            }
        }
        Some(Self { window, shifts, buckets })
    }

    /// The first place from `from` on where a pattern may begin, and which.
    pub(super) fn next_candidates(&self, text: &[u8], from: usize) -> Option<(usize, &[u16])> {
        let mut at = from;
        loop {
            let end = at + self.window;
            let slot = slot(text.get(end - 2..end)?);
            match self.shifts.get(usize::from(slot)).copied().unwrap_or(1) {
                0 => {
                    let bucket = self.buckets.iter().find(|(known, _)| *known == slot);
                    return Some((at, bucket.map_or(&[], |(_, bucket)| bucket)));
                }
                shift => at += usize::from(shift),
            }
        }
    }
}

fn slot(pair: &[u8]) -> u16 {
    let mut slot = 0_u16;
    for byte in pair {
        slot = slot.wrapping_mul(61).wrapping_add(u16::from(*byte));
    }
    slot & 0x0fff
}
