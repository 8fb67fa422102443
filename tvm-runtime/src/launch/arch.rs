//! GPU architectures: which code a GPU runs.

use super::CodeFormat;

/// The compute capability (major, minor) in the name of an architecture (`sm_80`), and whether its code runs on this one alone
/// (`sm_90a`); `None` if it is no such name.
pub(crate) fn gpu_arch(name: &str) -> Option<((i32, i32), bool)> {
    let number = name.strip_prefix("sm_")?;
    let digits = number.trim_end_matches(|it: char| it.is_ascii_lowercase());
    if !(2..=4).contains(&digits.len()) || number.len() > digits.len() + 1 {
        return None;
    }
    if !digits.bytes().all(|it| it.is_ascii_digit()) {
        return None;
    }
    let value: i32 = digits.parse().ok()?;
    Some(((value / 10, value % 10), number.len() > digits.len()))
}

/// Which of `all` (architecture and format) suits a GPU of the compute capability `own` best: machine code for the newest architecture with
/// the same major number and no higher minor one, otherwise the newest PTX that is not above the GPU; `None` if none suits.
pub(crate) fn choose_code<'a>(
    own: (i32, i32),
    all: impl IntoIterator<Item = (&'a str, CodeFormat)>,
) -> Option<(&'a str, CodeFormat)> {
    let suits = |(name, format): &(&str, CodeFormat)| match gpu_arch(name) {
        Some((arch, true)) => arch == own,
        Some((arch, false)) => match format {
            CodeFormat::Cubin => arch.0 == own.0 && arch.1 <= own.1,
            CodeFormat::Ptx => arch <= own,
        },
        None => false,
    };
    let rank = |it: &(&str, CodeFormat)| (it.1 == CodeFormat::Cubin, gpu_arch(it.0));
    all.into_iter().filter(suits).max_by_key(rank)
}

#[cfg(test)]
mod tests {
    use super::*;
    use CodeFormat::{Cubin, Ptx};

    #[test]
    fn names() {
        assert_eq!(gpu_arch("sm_80"), Some(((8, 0), false)));
        assert_eq!(gpu_arch("sm_90a"), Some(((9, 0), true)));
        assert_eq!(gpu_arch("sm_121"), Some(((12, 1), false)));
        for bad in
            ["", "sm_", "sm_8", "sm_a", "80", "sm_90ab", "sm_-80", "sm_+80", "sm_99999", "sm_8x0", "sm_ü"]
        {
            assert_eq!(gpu_arch(bad), None, "{bad}");
        }
    }

    #[test]
    fn choices() {
        let all = [("sm_75", Cubin), ("sm_80", Cubin), ("sm_90a", Cubin), ("sm_90", Cubin), ("sm_90", Ptx)];
        for (own, want) in [
            ((7, 0), None),
            ((7, 5), Some(("sm_75", Cubin))),
            ((8, 0), Some(("sm_80", Cubin))),
            ((8, 9), Some(("sm_80", Cubin))),
            ((9, 0), Some(("sm_90a", Cubin))),
            ((9, 1), Some(("sm_90", Cubin))),
            ((10, 0), Some(("sm_90", Ptx))),
            ((12, 1), Some(("sm_90", Ptx))),
        ] {
            assert_eq!(choose_code(own, all), want, "{own:?}");
            assert_eq!(choose_code(own, all.into_iter().rev()), want, "{own:?}");
        }
        assert_eq!(
            choose_code((8, 0), [("sm_90", Ptx), ("sm_80a", Ptx), ("sm_75", Ptx)]),
            Some(("sm_80a", Ptx))
        );
        assert_eq!(
            choose_code((8, 6), [("sm_90", Ptx), ("sm_80a", Ptx), ("sm_75", Ptx)]),
            Some(("sm_75", Ptx))
        );
        assert_eq!(choose_code((8, 0), [("sm_86", Cubin), ("nonsense", Ptx)]), None);
        assert_eq!(choose_code((8, 0), []), None);
    }
}
