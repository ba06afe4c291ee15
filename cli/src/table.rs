//! Columns side by side, for the terminal.

/// Lays rows out in columns that are as wide as their widest cells: to the left where `left` says
/// so, as words are, to the right else, as numbers are. Each row becomes a line.
#[must_use]
pub fn align<const N: usize>(rows: &[[String; N]], left: [bool; N]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: [usize; N] = std::array::from_fn(|column| width(column).unwrap_or(0));
    let mut text = String::new();
    for row in rows {
        let cells: [String; N] = std::array::from_fn(|column| {
            let (cell, width) = (&row[column], widths[column]);
            if left[column] {
                format!("{cell:<width$}")
            } else {
                format!("{cell:>width$}")
            }
        });
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_begin_and_numbers_end_together() {
        let rows = [
            ["name", "count", "note"],
            ["été", "7", ""],
            ["b", "1,000", "x"],
        ];
        let rows = rows.map(|row| row.map(str::to_owned));
        assert_eq!(
            align(&rows, [true, false, true]),
            "name  count  note\nété       7\nb     1,000  x\n"
        );
        assert_eq!(align::<2>(&[], [true, false]), "");
    }
}
