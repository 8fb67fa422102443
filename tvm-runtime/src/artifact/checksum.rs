//! XXH3 of 64 bits with seed 0: fast enough for weights.

use std::hash::Hasher;

/// The checksum of `bytes`.
pub(super) fn checksum(bytes: &[u8]) -> u64 {
    twox_hash::XxHash3_64::oneshot(bytes)
}

/// The checksum of all pieces, one after the other.
pub(super) fn checksum_of(pieces: &[&[u8]]) -> u64 {
    let mut hash = twox_hash::XxHash3_64::new();
    pieces.iter().for_each(|piece| hash.write(piece));
    hash.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values() {
        // Long ones are hashed in another way, in vectors.
        let long = "Nobody inspects the spammish repetition".repeat(40);
        for (text, expected) in [
            ("", 0x2D06800538D394C2),
            ("a", 0xE6C632B61E964E1F),
            ("abc", 0x78AF5F94892F3950),
            ("Nobody inspects the spammish repetition", 0x6CB00603B5CC47E9),
            (&long, 0x5A6491CB2BB904E5),
        ] {
            let text = text.as_bytes();
            assert_eq!(checksum(text), expected, "{text:?}");
            let (head, tail) = text.split_at(text.len() / 3);
            assert_eq!(checksum_of(&[head, &[], tail]), expected, "{text:?} in pieces");
        }
    }

    #[test]
    fn every_bit_counts() {
        let bytes: Vec<u8> = (0..77u8).map(|i| i.wrapping_mul(37)).collect();
        let expected = checksum(&bytes);
        for bit in 0..bytes.len() * 8 {
            let mut other = bytes.clone();
            other[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(checksum(&other), expected, "{bit}");
        }
        assert_ne!(checksum(&bytes[..76]), expected);
    }
}
