//! The colours of the kinds of command, in one place for the page and the picture.

/// A kind and its colours.
pub(super) struct Colour {
    /// The kind's word in the file.
    pub(super) kind: &'static str,
    /// On a light background.
    pub(super) light: &'static str,
    /// On a dark one.
    pub(super) dark: &'static str,
}

const fn colour(kind: &'static str, light: &'static str, dark: &'static str) -> Colour {
    Colour { kind, light, dark }
}

/// In the order of the legend. Computing is blue, moving is green, and the core's own migrations
/// are orange.
pub(super) const COLOURS: [Colour; 12] = [
    colour("launch", "#3b76b8", "#5b9bdc"),
    colour("host task", "#7a5fb0", "#a68ae0"),
    colour("native", "#4c5aa8", "#8893e6"),
    colour("copy", "#2e8b57", "#4fb783"),
    colour("read", "#647d10", "#a9c43f"),
    colour("write", "#128a8a", "#38bdbd"),
    colour("fill", "#73784a", "#b3b884"),
    colour("map", "#8f6f0c", "#d8b43c"),
    colour("migrate", "#c95b08", "#ff9440"),
    colour("marker", "#667082", "#98a2b3"),
    colour("barrier", "#555d6b", "#c0c7d2"),
    OTHER,
];

/// The colour of kinds that a later version may add.
const OTHER: Colour = colour("other", "#964a74", "#d183b0");

/// The position in [`COLOURS`] of a kind.
pub(super) fn position(kind: &str) -> usize {
    COLOURS
        .iter()
        .position(|colour| colour.kind == kind)
        .unwrap_or(COLOURS.len() - 1)
}
