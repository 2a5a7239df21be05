//! Tables: columns under their heads, for people.
//!
//! Owns the widths; what stands in them is the commands'.

/// A line a row, below a line of heads.
pub(super) fn table<const N: usize>(heads: [&str; N], rows: impl IntoIterator<Item = [String; N]>) -> String {
    let rows: Vec<[String; N]> = std::iter::once(heads.map(str::to_owned)).chain(rows).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(width);
    let line = |row: &[String; N]| {
        let cells: Vec<String> = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        format!("{}\n", cells.join("  ").trim_end())
    };
    rows.iter().map(line).collect()
}

/// A cell, with a dash where there is nothing to say.
pub(super) fn cell(text: &str) -> String {
    if text.is_empty() { "-".to_owned() } else { text.to_owned() }
}
