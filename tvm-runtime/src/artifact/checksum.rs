//! XXH64 with seed 0: fast enough for weights; a change of one bit always changes the checksum.

use std::hash::Hasher;

/// The checksum of `bytes`.
pub(super) fn checksum(bytes: &[u8]) -> u64 {
    twox_hash::XxHash64::oneshot(0, bytes)
}

/// The checksum of all pieces, one after the other.
pub(super) fn checksum_of(pieces: &[&[u8]]) -> u64 {
    let mut hash = twox_hash::XxHash64::with_seed(0);
    pieces.iter().for_each(|piece| hash.write(piece));
    hash.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values() {
        for (text, expected) in [
            ("", 0xEF46DB3751D8E999),
            ("a", 0xD24EC4F1A98C6E5B),
            ("abc", 0x44BC2CF5AD770999),
            ("Nobody inspects the spammish repetition", 0xFBCEA83C8A378BF1),
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
