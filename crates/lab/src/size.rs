//! Sizes as options have them.

/// A number of bytes such as 4096, 64kb, 512mb or 1gb.
pub(crate) fn byte_size(text: &str) -> Result<u64, String> {
    let lower = text.trim().to_ascii_lowercase();
    let digits = lower.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match &lower[digits.len()..] {
        "" | "b" => 0,
        "k" | "kb" => 10,
        "m" | "mb" => 20,
        "g" | "gb" => 30,
        "t" | "tb" => 40,
        _ => u32::MAX,
    };
    let size = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(1u64.checked_shl(shift)?));
    size.ok_or_else(|| format!("{text:?} is not a size: give 4096, 64kb, 512mb or 1gb"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!([byte_size("4096"), byte_size("512MB"), byte_size("2g")], [Ok(4096), Ok(512 << 20), Ok(2 << 30)]);
        assert!(["", "mb", "3x", "-1", "99999999999gb"].iter().all(|text| byte_size(text).is_err()));
    }
}
