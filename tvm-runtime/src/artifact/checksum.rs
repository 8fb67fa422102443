//! XXH64 (Yann Collet) with seed 0: fast enough for weights; a change of one bit always changes the checksum.

const P1: u64 = 0x9E37_79B1_85EB_CA87;
const P2: u64 = 0xC2B2_AE3D_27D4_EB4F;
const P3: u64 = 0x1656_67B1_9E37_79F9;
const P4: u64 = 0x85EB_CA77_C2B2_AE63;
const P5: u64 = 0x27D4_EB2F_1656_67C5;

fn word(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte))
}

fn round(acc: u64, input: u64) -> u64 {
    acc.wrapping_add(input.wrapping_mul(P2)).rotate_left(31).wrapping_mul(P1)
}

/// The checksum of `bytes`.
pub(super) fn checksum(bytes: &[u8]) -> u64 {
    let (stripes, rest) = bytes.as_chunks::<32>();
    let mut hash = if stripes.is_empty() {
        P5
    } else {
        let mut acc = [P1.wrapping_add(P2), P2, 0, 0u64.wrapping_sub(P1)];
        for stripe in stripes {
            let (words, _) = stripe.as_chunks::<8>();
            for (acc, input) in acc.iter_mut().zip(words) {
                *acc = round(*acc, u64::from_le_bytes(*input));
            }
        }
        let [a, b, c, d] = acc;
        let hash = a.rotate_left(1).wrapping_add(b.rotate_left(7)).wrapping_add(c.rotate_left(12));
        let hash = hash.wrapping_add(d.rotate_left(18));
        acc.iter().fold(hash, |hash, &acc| (hash ^ round(0, acc)).wrapping_mul(P1).wrapping_add(P4))
    };
    hash = hash.wrapping_add(bytes.len() as u64);
    let (words, rest) = rest.as_chunks::<8>();
    for input in words {
        hash =
            (hash ^ round(0, u64::from_le_bytes(*input))).rotate_left(27).wrapping_mul(P1).wrapping_add(P4);
    }
    let (halves, rest) = rest.as_chunks::<4>();
    for input in halves {
        hash = (hash ^ word(input).wrapping_mul(P1)).rotate_left(23).wrapping_mul(P2).wrapping_add(P3);
    }
    for &byte in rest {
        hash = (hash ^ u64::from(byte).wrapping_mul(P5)).rotate_left(11).wrapping_mul(P1);
    }
    hash = (hash ^ hash >> 33).wrapping_mul(P2);
    hash = (hash ^ hash >> 29).wrapping_mul(P3);
    hash ^ hash >> 32
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
            assert_eq!(checksum(text.as_bytes()), expected, "{text:?}");
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
