//! The checksum of snapshots and `DUMP` payloads: the 64-bit CRC of David Jones, reflected, without initial or final inversion.
//!
//! Eight tables, so that eight bytes are taken per step: `TABLES[n][byte]` is what `byte` contributes when `n` more bytes follow
//! it.

const POLYNOMIAL: u64 = 0xAD93_D235_94C9_35A9;

static TABLES: [[u64; 256]; 8] = tables();

const fn tables() -> [[u64; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let (mut crc, mut bit) = (byte as u64, 0);
        while bit < 8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ POLYNOMIAL.reverse_bits() } else { crc >> 1 };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut following = 1;
    while following < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[following - 1][byte];
            tables[following][byte] = before >> 8 ^ tables[0][(before & 0xFF) as usize];
            byte += 1;
        }
        following += 1;
    }
    tables
}

/// The checksum of `bytes`, continuing from that of the bytes before them; 0 to begin.
pub fn checksum(before: u64, bytes: &[u8]) -> u64 {
    let words = bytes.chunks_exact(8);
    let rest = words.remainder();
    let crc = words.fold(before, |crc, word| {
        let word = crc ^ word.try_into().map_or(0, u64::from_le_bytes);
        word.to_le_bytes().iter().zip(TABLES.iter().rev()).fold(0, |crc, (&byte, table)| crc ^ table[usize::from(byte)])
    });
    rest.iter().fold(crc, |crc, &byte| crc >> 8 ^ TABLES[0][usize::from(crc as u8 ^ byte)])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The published check value of this CRC.
    #[test]
    fn known_value() {
        assert_eq!(checksum(0, b"123456789"), 0xE9C6_D914_C4B8_D9CA);
    }

    #[test]
    fn pieces_continue() {
        let bytes: Vec<u8> = (0..100).collect();
        for cut in 0..bytes.len() {
            assert_eq!(checksum(checksum(0, &bytes[..cut]), &bytes[cut..]), checksum(0, &bytes));
        }
    }
}
