//! A bar chart of characters: one column per value, its label written downwards below it.

/// Rows of the chart.
const ROWS: u64 = 4;
/// Columns up to the end of a line; more values go on below.
const COLUMNS_MAX: usize = 80;

/// Draws `columns`, each a value and its label.
pub(super) fn draw(columns: &[(u64, String)]) -> String {
    let high = columns.iter().map(|column| column.0).max().unwrap_or(0);
    let low = columns.iter().map(|column| column.0).min().unwrap_or(0);
    columns.chunks(COLUMNS_MAX).map(|line| draw_line(line, low, high)).collect::<Vec<_>>().join("\n")
}

fn draw_line(columns: &[(u64, String)], low: u64, high: u64) -> String {
    let height = |value: u64| match high - low {
        0 => 0,
        range => (value - low).saturating_mul(ROWS - 1) / range,
    };
    let mut text = String::new();
    for row in (0..ROWS).rev() {
        for (value, _) in columns {
            text.push(match height(*value) {
                top if top == row && *value == high => '#',
                top if top == row => '_',
                top if top > row => '|',
                _ => ' ',
            });
        }
        text.push('\n');
    }
    let label_len = columns.iter().map(|column| column.1.len()).max().unwrap_or(0);
    for row in 0..label_len {
        text.extend(columns.iter().map(|(_, label)| label.as_bytes().get(row).map_or(' ', |byte| char::from(*byte))));
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_column_reaches_the_top() {
        let columns = [(641, "3s".to_owned()), (331, "2s".to_owned()), (326, "1s".to_owned())];
        assert_eq!(draw(&columns), "#  \n|  \n|  \n|__\n321\nsss\n");
        assert_eq!(draw(&[]), "");
    }

    #[test]
    fn one_value_is_a_mark() {
        assert_eq!(draw(&[(5, "9s".to_owned())]), " \n \n \n#\n9\ns\n");
    }
}
