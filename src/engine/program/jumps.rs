//! What `break` and `continue` may refer to.

/// The labels, loops and switches around a statement, within its function.
#[derive(Debug, Default)]
pub(super) struct Jumps<'a> {
    labels: Vec<Label<'a>>,
    loops: u32,
    switches: u32,
    /// Labels that stand directly before the next statement.
    pending: usize,
}

#[derive(Debug)]
struct Label<'a> {
    name: &'a str,
    is_loop: bool,
}

impl<'a> Jumps<'a> {
    /// `false` if the label is in use.
    pub(super) fn enter_label(&mut self, name: &'a str) -> bool {
        let free = self.labels.iter().all(|label| label.name != name);
        self.labels.push(Label { name, is_loop: false });
        self.pending += 1;
        free
    }

    pub(super) fn leave_label(&mut self) {
        self.labels.pop();
        self.pending = 0;
    }

    /// A statement begins that is no label.
    pub(super) fn begin_statement(&mut self) {
        self.pending = 0;
    }

    pub(super) fn enter_loop(&mut self) {
        for label in self.labels.iter_mut().rev().take(self.pending) {
            label.is_loop = true;
        }
        self.pending = 0;
        self.loops += 1;
    }

    pub(super) fn leave_loop(&mut self) {
        self.loops -= 1;
    }

    pub(super) fn enter_switch(&mut self) {
        self.switches += 1;
    }

    pub(super) fn leave_switch(&mut self) {
        self.switches -= 1;
    }

    /// Why a `break` cannot be here.
    pub(super) fn break_error(&self, label: Option<&str>) -> Option<&'static str> {
        match label {
            None if self.loops + self.switches == 0 => Some("`break` can only be used inside a loop or a switch"),
            Some(name) if self.labels.iter().all(|label| label.name != name) => Some("`break` needs a label around it"),
            _ => None,
        }
    }

    /// Why a `continue` cannot be here.
    pub(super) fn continue_error(&self, label: Option<&str>) -> Option<&'static str> {
        match label {
            None if self.loops == 0 => Some("`continue` can only be used inside a loop"),
            Some(name) if !self.labels.iter().any(|label| label.name == name && label.is_loop) => {
                Some("`continue` needs the label of a loop around it")
            }
            _ => None,
        }
    }
}
