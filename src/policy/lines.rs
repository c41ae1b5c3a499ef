//! Places in a text, by offset or by line.

use std::sync::Arc;

use super::mistake::Place;

/// The lines of one file.
#[derive(Debug)]
pub(super) struct Lines<'a> {
    name: Arc<str>,
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    pub(super) fn new(name: &Arc<str>, text: &'a str) -> Self {
        let newlines = text.match_indices('\n').map(|(at, _)| at + 1);
        Self { name: name.clone(), text, starts: std::iter::once(0).chain(newlines).collect() }
    }

    /// The place of a byte of the text.
    pub(super) fn place(&self, offset: usize) -> Place {
        let line = self.starts.partition_point(|&start| start <= offset);
        let start = self.starts[line - 1];
        let before = self.text.get(start..offset).unwrap_or_default();
        self.at(line, before.chars().count() + 1)
    }

    /// A line and a column, both from 1.
    pub(super) fn at(&self, line: usize, column: usize) -> Place {
        Place::File { name: self.name.clone(), line, column }
    }
}
