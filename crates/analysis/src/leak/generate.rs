//! Curves with a known truth, from a seed: the hold-out of the verdict. For tests and benchmarks only.
//!
//! Every curve is what a program could do: levels of tens of megabytes, warm-up, noise with and without memory,
//! pages and arenas as the smallest steps. The truth is whether memory goes on growing, and how fast.

use crate::random::Random;
use crate::stats::XY;

const MIB: f64 = 1024.0 * 1024.0;

/// What a curve does after its warm-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    Steady,
    Leak,
    /// Rises and falls back, the floor stays.
    Sawtooth,
    /// Rises and falls back, and the floor rises.
    SawtoothLeak,
    /// Fills up to a bound, exponentially, and is nearly there at the end.
    Bounded,
    /// One jump in the first half.
    Jump,
}

pub const SHAPES: [Shape; 6] =
    [Shape::Steady, Shape::Leak, Shape::Sawtooth, Shape::SawtoothLeak, Shape::Bounded, Shape::Jump];

/// A curve and its truth.
#[derive(Debug, Clone)]
pub struct Curve {
    pub seed: u64,
    pub shape: Shape,
    pub points: Vec<XY>,
    pub leaks: bool,
    /// Bytes per step, 0 where it does not leak.
    pub rate: f64,
    pub noise: f64,
}

/// The curve of a seed.
pub fn curve(seed: u64) -> Curve {
    let mut random = Random::new(seed);
    let shape = SHAPES[random.below(SHAPES.len())];
    let count = 60 + random.below(340);
    let level = random.between(30.0, 400.0) * MIB;
    // From a quiet counter to the seven per cent of a busy allocator.
    let noise = level * [0.0005, 0.002, 0.01, 0.035][random.below(4)] * random.between(0.5, 2.0);
    let memory = [0.0, 0.0, 0.5, 0.8][random.below(4)];
    let leaks = matches!(shape, Shape::Leak | Shape::SawtoothLeak);
    // What a leak does over the run stands above the noise: a smaller one is not to be seen, and that is said.
    let rise = random.between(2.5, 12.0) * (noise * (1.0 + 2.0 * memory)).max(MIB);
    let rate = if leaks { rise / count as f64 } else { 0.0 };
    let parts = Parts::draw(&mut random, shape, count, level, noise);
    let mut drift = 0.0;
    let points = (0..count)
        .map(|step| {
            drift = memory * drift + random.normal() * noise * (1.0 - memory * memory).sqrt();
            let value = level + parts.at(step) + rate * step as f64 + drift;
            (step as f64, pages(value, parts.grain))
        })
        .collect();
    Curve { seed, shape, points, leaks, rate, noise }
}

fn pages(value: f64, grain: f64) -> f64 {
    (value / grain).floor() * grain
}

/// Everything but level, leak and noise.
struct Parts {
    shape: Shape,
    warm_height: f64,
    warm_length: f64,
    abrupt: bool,
    tooth: f64,
    period: f64,
    phase: f64,
    bound: f64,
    fill: f64,
    jump_at: usize,
    grain: f64,
}

impl Parts {
    fn draw(random: &mut Random, shape: Shape, count: usize, level: f64, noise: f64) -> Self {
        let steps = count as f64;
        let toothed = matches!(shape, Shape::Sawtooth | Shape::SawtoothLeak);
        Self {
            shape,
            warm_height: if random.below(3) == 0 { 0.0 } else { level * random.between(0.05, 0.5) },
            warm_length: steps * random.between(0.02, 0.25),
            abrupt: random.below(2) == 0,
            tooth: if toothed { (level * random.between(0.1, 0.6)).max(8.0 * noise) } else { 0.0 },
            period: steps / random.between(4.5, 12.0),
            phase: random.unit(),
            bound: (level * random.between(0.1, 0.8)).max(10.0 * noise),
            fill: steps / random.between(4.0, 9.0),
            jump_at: count / 10 + random.below(count / 3),
            grain: [4096.0, 4096.0, 256.0 * 1024.0][random.below(3)],
        }
    }

    fn at(&self, step: usize) -> f64 {
        let x = step as f64;
        self.warm(x)
            + match self.shape {
                Shape::Sawtooth | Shape::SawtoothLeak => self.tooth * (x / self.period + self.phase).fract(),
                Shape::Bounded => self.bound * (1.0 - (-x / self.fill).exp()),
                Shape::Jump if step >= self.jump_at => self.bound,
                _ => 0.0,
            }
    }

    /// Below the level at first: loading, compiling, first batches.
    fn warm(&self, x: f64) -> f64 {
        let left = (1.0 - x / self.warm_length).max(0.0);
        -self.warm_height * if self.abrupt { left.ceil() } else { left }
    }
}
