//! A recording without a microphone: vowels from a source and three resonances, between consonants of noise, in silence.

use std::f32::consts::TAU;

pub(crate) const RATE: u32 = 16_000;

/// The three lowest resonances of each vowel, in hertz.
const VOWELS: [(char, [f32; 3]); 5] = [
    ('a', [730.0, 1090.0, 2440.0]),
    ('e', [530.0, 1840.0, 2480.0]),
    ('i', [270.0, 2290.0, 3010.0]),
    ('o', [570.0, 840.0, 2410.0]),
    ('u', [300.0, 870.0, 2240.0]),
];
const BANDWIDTHS: [f32; 3] = [80.0, 90.0, 120.0];

/// Samples of phrases and pauses, and where the phrases are, in seconds.
pub(crate) struct Scene {
    pub(crate) samples: Vec<f32>,
    pub(crate) spoken: Vec<(f32, f32)>,
    noise: fastrand::Rng,
}

/// A filter with one resonance.
#[derive(Default)]
struct Resonance([f32; 2]);

impl Resonance {
    fn next(&mut self, x: f32, frequency: f32, bandwidth: f32) -> f32 {
        let radius = (-TAU / 2.0 * bandwidth / RATE as f32).exp();
        let (first, second) = (2.0 * radius * (TAU * frequency / RATE as f32).cos(), -radius * radius);
        let y = (1.0 - first - second) * x + first * self.0[0] + second * self.0[1];
        self.0 = [y, self.0[0]];
        y
    }
}

fn count(seconds: f32) -> usize {
    (seconds * RATE as f32) as usize
}

fn resonances(vowel: char) -> [f32; 3] {
    VOWELS.iter().find(|(it, _)| *it == vowel).map_or(VOWELS[0].1, |it| it.1)
}

impl Scene {
    pub(crate) fn new() -> Scene {
        Scene { samples: Vec::new(), spoken: Vec::new(), noise: fastrand::Rng::with_seed(1) }
    }

    fn noise(&mut self) -> f32 {
        // The sum of four even distributions is close to a normal one.
        (0..4).map(|_| self.noise.f32() - 0.5).sum::<f32>() * 1.7
    }

    fn seconds(&self) -> f32 {
        self.samples.len() as f32 / RATE as f32
    }

    /// Adds silence: faint noise.
    pub(crate) fn pause(mut self, seconds: f32) -> Scene {
        for _ in 0..count(seconds) {
            let sample = 0.001 * self.noise();
            self.samples.push(sample);
        }
        self
    }

    /// Adds a tone, which is loud and no speech.
    pub(crate) fn tone(mut self, hertz: f32, seconds: f32) -> Scene {
        self.samples.extend((0..count(seconds)).map(|i| 0.3 * (TAU * hertz * i as f32 / RATE as f32).sin()));
        self
    }

    /// Adds a phrase of `vowels`, spoken at `pitch` hertz.
    pub(crate) fn phrase(mut self, vowels: &str, pitch: f32) -> Scene {
        let begin = self.seconds();
        let all: Vec<char> = vowels.chars().collect();
        for (i, vowel) in all.iter().enumerate() {
            let mut consonant = Resonance::default();
            for _ in 0..count(0.05) {
                let noise = 0.02 * self.noise();
                let sample = consonant.next(noise, 3500.0, 1500.0);
                self.samples.push(sample);
            }
            self.syllable(resonances(*vowel), resonances(all[(i + 1) % all.len()]), pitch);
        }
        self.spoken.push((begin, self.seconds()));
        self
    }

    /// Adds a vowel that turns into the next one.
    fn syllable(&mut self, from: [f32; 3], to: [f32; 3], pitch: f32) {
        let seconds = 0.18;
        let mut phase = 0.0f32;
        let (mut throat, mut mouth) = (Resonance::default(), [const { Resonance([0.0; 2]) }; 3]);
        let n = count(seconds);
        let mut sound = Vec::with_capacity(n);
        for i in 0..n {
            let (t, part) = (i as f32 / RATE as f32, i as f32 / n as f32);
            let before = phase.floor();
            phase += pitch * (1.0 + 0.06 * (TAU * 3.0 * t).sin() - 0.15 * part) / RATE as f32;
            let mut x = throat.next(phase.floor() - before, 0.0, 100.0);
            let turn = (2.0 * part - 1.0).max(0.0);
            for (k, filter) in mouth.iter_mut().enumerate() {
                x = filter.next(x, from[k] + (to[k] - from[k]) * turn, BANDWIDTHS[k]);
            }
            sound.push(x);
        }
        let loudest = sound.iter().fold(f32::MIN_POSITIVE, |it, x| it.max(x.abs()));
        for (i, x) in sound.iter().enumerate() {
            let t = i as f32 / RATE as f32;
            let envelope = (t / 0.03).min((seconds - t) / 0.05).clamp(0.0, 1.0);
            self.samples.push(0.4 * envelope * x / loudest);
        }
    }
}
