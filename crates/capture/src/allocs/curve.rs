//! Live bytes over time in a bounded number of points.

use nilometer_trace::allocs::Point;

const MOST_POINTS: usize = 1024;
const FIRST_SPAN_NS: u64 = 5_000_000;

/// The highest value of each stretch; stretches grow with the run.
#[derive(Debug)]
pub struct Curve {
    points: Vec<Point>,
    span_ns: u64,
    begun_ns: u64,
    highest: Point,
}

impl Default for Curve {
    fn default() -> Self {
        Self { points: Vec::new(), span_ns: FIRST_SPAN_NS, begun_ns: 0, highest: Point::default() }
    }
}

impl Curve {
    pub fn add(&mut self, at_ns: u64, live_bytes: u64) {
        if self.begun_ns == 0 {
            self.begun_ns = at_ns;
        }
        if live_bytes >= self.highest.live_bytes {
            self.highest = Point { at_ns, live_bytes };
        }
        if at_ns.saturating_sub(self.begun_ns) >= self.span_ns {
            self.points.push(self.highest);
            self.begun_ns = at_ns;
            self.highest = Point::default();
            if self.points.len() >= MOST_POINTS {
                self.thin();
            }
        }
    }

    fn thin(&mut self) {
        let higher = |pair: &[Point]| pair.iter().copied().max_by_key(|point| point.live_bytes);
        self.points = self.points.chunks(2).filter_map(higher).collect();
        self.span_ns *= 2;
    }

    /// The points, with the peak of the run among them: it may have been between two looks.
    pub fn points(&self, peak: Point) -> Vec<Point> {
        let mut points = self.points.clone();
        if self.highest.live_bytes > 0 {
            points.push(self.highest);
        }
        if peak.live_bytes > 0 {
            let at = points.partition_point(|point| point.at_ns < peak.at_ns);
            points.insert(at, peak);
        }
        points
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_stays_and_the_number_is_bounded() {
        let mut curve = Curve::default();
        for turn in 1..=10_000_u64 {
            curve.add(turn * 10_000_000, if turn == 7777 { 1000 } else { turn % 100 });
        }
        let peak = Point { at_ns: 5, live_bytes: 2000 };
        let points = curve.points(peak);
        assert!(points.len() <= MOST_POINTS + 2 && points.len() > MOST_POINTS / 4);
        assert_eq!(points.iter().filter(|point| point.live_bytes == 1000).count(), 1);
        assert_eq!(points[0], peak);
        assert!(points.is_sorted_by_key(|point| point.at_ns));
    }
}
