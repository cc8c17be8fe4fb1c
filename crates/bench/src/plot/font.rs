//! A stroke font: every character as a few straight strokes on a grid.
//!
//! The grid is 4 units wide; capitals reach from 0 (top) to 6 (base line), small letters from 2 to 6, descenders to 8. A glyph is
//! written as strokes separated by blanks, a stroke as points, a point as the digits of x and y.

/// Units from one character to the next.
const ADVANCE: f32 = 5.6;
/// Units per em: `size` pixels of text are this many units.
const EM: f32 = 8.6;
/// The base line.
const BASE: f32 = 6.0;

/// Width of a text in pixels.
pub(super) fn width(text: &str, size: f32) -> f32 {
    (text.chars().count() as f32 * ADVANCE - (ADVANCE - 4.0)) * size / EM
}

/// The strokes of a text that begins at `x` on the base line `y`.
pub(super) fn strokes(text: &str, x: f32, y: f32, size: f32) -> Vec<Vec<(f32, f32)>> {
    let scale = size / EM;
    let mut result = Vec::new();
    for (position, character) in text.chars().enumerate() {
        let left = x + position as f32 * ADVANCE * scale;
        for stroke in glyph(character).split(' ').filter(|stroke| !stroke.is_empty()) {
            let point = |pair: &[u8]| {
                let unit = |digit: u8| f32::from(digit - b'0');
                (left + unit(pair[0]) * scale, y + (unit(pair[1]) - BASE) * scale)
            };
            result.push(stroke.as_bytes().chunks_exact(2).map(point).collect());
        }
    }
    result
}

fn glyph(character: char) -> &'static str {
    match character {
        ' ' => "",
        '0' => "103041453616050110",
        '1' => "112026 1636",
        '2' => "01103041420646",
        '3' => "01103041423323 334445361605",
        '4' => "36300444",
        '5' => "400002324345361605",
        '6' => "3020020516364544331304",
        '7' => "004016",
        '8' => "13020110304142331304051636454433",
        '9' => "1626444130100102133342",
        'A' => "0602204246 0444",
        'B' => "00063645443303 3342413000",
        'C' => "4130100105163645",
        'D' => "00062644422000",
        'E' => "40000646 0333",
        'F' => "400006 0333",
        'G' => "41301001051636454323",
        'H' => "0006 4046 0343",
        'I' => "1030 2026 1636",
        'J' => "404536160504",
        'K' => "0006 400346",
        'L' => "000646",
        'M' => "0600234046",
        'N' => "06004640",
        'O' => "103041453616050110",
        'P' => "06003041423303",
        'Q' => "103041453616050110 2446",
        'R' => "06003041423303 2346",
        'S' => "413010010213334445361605",
        'T' => "0040 2026",
        'U' => "000516364540",
        'V' => "002640",
        'W' => "0016233640",
        'X' => "0046 4006",
        'Y' => "002340 2326",
        'Z' => "00400646",
        'a' => "12324346 441405163645",
        'b' => "0006 0312324345361605",
        'c' => "4332120305163645",
        'd' => "4046 4332120305163645",
        'e' => "044443321203051646",
        'f' => "30201116 0232",
        'g' => "4332120305163645 4247381807",
        'h' => "0006 0312324346",
        'i' => "2021 2226",
        'j' => "3031 32372818",
        'k' => "0006 320436",
        'l' => "10202536",
        'm' => "0206 03122326 23324346",
        'n' => "0206 0312324346",
        'o' => "123243453616050312",
        'p' => "0208 0312324345361605",
        'q' => "4248 4332120305163645",
        'r' => "0206 04223243",
        's' => "43321203143445361605",
        't' => "10152636 0232",
        'u' => "0205163645 4246",
        'v' => "022642",
        'w' => "0216243642",
        'x' => "0246 4206",
        'y' => "0226 4218",
        'z' => "02420646",
        'µ' | 'μ' => "0208 05163645 4246",
        '×' => "1335 3315",
        '.' => "2526",
        ',' => "2517",
        ':' => "2223 2526",
        ';' => "2223 2517",
        '!' => "2024 2526",
        '?' => "01103041422324 2526",
        '\'' => "2021",
        '"' => "1011 3031",
        '-' => "1333",
        '–' | '—' => "0343",
        '+' => "0343 2125",
        '=' => "0242 0444",
        '*' => "2125 1234 3214",
        '/' => "0640",
        '%' => "0640 0010110100 3545463635",
        '_' => "0747",
        '|' => "2027",
        '(' => "30212536",
        ')' => "10212516",
        '[' => "30202636",
        ']' => "10202616",
        '{' => "302022132426 2636",
        '}' => "102022332426 2616",
        '<' => "420446",
        '>' => "024406",
        '#' => "1016 3036 0242 0444",
        '~' => "04133443",
        _ => "0040460600",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn glyphs_are_points_on_the_grid() {
        for character in (' '..='~').chain("µ×–".chars()) {
            for stroke in glyph(character).split(' ') {
                let on_grid = stroke.as_bytes().chunks(2).all(|p| p.len() == 2 && p[0] <= b'4' && p[1] <= b'8');
                assert!(on_grid, "{character:?}: {stroke}");
            }
        }
    }

    #[test]
    fn text_has_a_width() {
        assert!(width("ab", 10.0) > width("a", 10.0));
        let right = strokes("MM", 0.0, 0.0, 8.6).iter().flatten().map(|p| p.0).fold(0.0, f32::max);
        assert!((right - width("MM", 8.6)).abs() < 0.01);
    }
}
