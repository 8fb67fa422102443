//! From the probability of each window to segments of speech.

/// Speech begins at this probability, and ends below the second one.
const BEGIN: f32 = 0.5;
const END: f32 = 0.35;
/// Shorter gaps do not end a segment; shorter segments are dropped. In seconds.
const GAP: f32 = 0.25;
const SHORTEST: f32 = 0.25;

/// Begin and end in seconds.
pub(crate) type Segment = (f32, f32);

/// The segments of speech, where each probability is that of a window of `seconds`.
pub(crate) fn segments(probabilities: &[f32], seconds: f32) -> Vec<Segment> {
    let mut res: Vec<Segment> = Vec::new();
    let mut begin = None;
    let windows = probabilities.iter().copied().chain([0.0]).enumerate();
    for (i, probability) in windows {
        let now = i as f32 * seconds;
        match begin {
            None if probability >= BEGIN => begin = Some(now),
            Some(since) if probability < END => {
                match res.last_mut() {
                    Some((_, end)) if since - *end < GAP => *end = now,
                    _ => res.push((since, now)),
                }
                begin = None;
            }
            None | Some(_) => {}
        }
    }
    res.retain(|(begin, end)| end - begin >= SHORTEST);
    res
}

#[test]
fn gaps_are_closed_and_clicks_dropped() {
    let cases: [(&[f32], &[Segment]); 5] = [
        (&[0.0, 0.1, 0.2], &[]),
        (&[0.0, 0.9, 0.4, 0.9, 0.1, 0.0], &[(0.1, 0.4)]),
        (&[0.9, 0.9, 0.9, 0.2, 0.9, 0.9], &[(0.0, 0.6)]),
        (&[0.9, 0.9, 0.9, 0.0, 0.0, 0.0, 0.6, 0.6, 0.6], &[(0.0, 0.3), (0.6, 0.9)]),
        (&[0.0, 0.9, 0.0, 0.0, 0.0, 0.0], &[]),
    ];
    for (probabilities, want) in cases {
        let got = segments(probabilities, 0.1);
        assert_eq!(got.len(), want.len(), "{got:?} instead of {want:?}");
        let near = |a: f32, b: f32| (a - b).abs() < 1e-3;
        let same = got.iter().zip(want).all(|(a, b)| near(a.0, b.0) && near(a.1, b.1));
        assert!(same, "{got:?} instead of {want:?}");
    }
}
