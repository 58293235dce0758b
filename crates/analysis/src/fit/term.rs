//! Terms of a law: products of powers of the parameters.

/// `x₀^e₀ · x₁^e₁ · …`; all exponents zero is the constant.
#[derive(Debug, Clone, PartialEq)]
pub struct Term {
    pub exponents: Vec<f64>,
}

impl Term {
    pub fn constant(axes: usize) -> Self {
        Self { exponents: vec![0.0; axes] }
    }

    fn of(axes: usize, powers: &[(usize, f64)]) -> Self {
        let mut term = Self::constant(axes);
        for (axis, power) in powers {
            term.exponents[*axis] = *power;
        }
        term
    }

    pub fn power(axes: usize, axis: usize, power: f64) -> Self {
        Self::of(axes, &[(axis, power)])
    }

    pub fn is_constant(&self) -> bool {
        self.exponents.iter().all(|e| *e == 0.0)
    }

    pub fn value(&self, x: &[f64]) -> f64 {
        self.exponents.iter().zip(x).filter(|(e, _)| **e != 0.0).map(|(e, x)| power_of(*x, *e)).product()
    }

    /// `batch`, `batch²`, `batch·window`, `1/threads`, `batch^0.52`; empty for the constant.
    pub fn name(&self, names: &[String]) -> String {
        let used = self.exponents.iter().zip(names).filter(|(e, _)| **e != 0.0);
        used.map(|(e, name)| factor_name(name, *e)).collect::<Vec<_>>().join("·")
    }
}

fn power_of(x: f64, e: f64) -> f64 {
    if e == 1.0 {
        x
    } else if e == 2.0 {
        x * x
    } else {
        x.powf(e)
    }
}

fn factor_name(name: &str, e: f64) -> String {
    if e == 1.0 {
        name.to_owned()
    } else if e == 2.0 {
        format!("{name}²")
    } else if e == -1.0 {
        format!("1/{name}")
    } else {
        format!("{name}^{e:.2}")
    }
}

/// Axes beyond which squares and triple products are not tried.
const MANY_AXES: usize = 3;

/// Everything that a law of these axes may be made of, besides the constant. Inverses only where a quantity
/// may fall (time with threads).
pub(super) fn library(axes: usize, inverses: bool) -> Vec<Term> {
    let mut terms: Vec<Term> = (0..axes).map(|i| Term::power(axes, i, 1.0)).collect();
    terms.extend((0..axes).map(|i| Term::power(axes, i, 2.0)));
    for i in 0..axes {
        terms.extend((i + 1..axes).map(|j| Term::of(axes, &[(i, 1.0), (j, 1.0)])));
    }
    if (2..=MANY_AXES).contains(&axes) {
        let pairs = (0..axes).flat_map(|i| (0..axes).map(move |j| (i, j))).filter(|(i, j)| i != j);
        terms.extend(pairs.map(|(i, j)| Term::of(axes, &[(i, 2.0), (j, 1.0)])));
    }
    if axes == MANY_AXES {
        terms.push(Term { exponents: vec![1.0; axes] });
    }
    if inverses {
        terms.extend((0..axes).map(|i| Term::power(axes, i, -1.0)));
        for i in 0..axes {
            let over = (0..axes).filter(move |j| *j != i);
            terms.extend(over.map(|j| Term::of(axes, &[(i, 1.0), (j, -1.0)])));
        }
    }
    terms
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_values() {
        let names = ["batch".to_owned(), "window".to_owned()];
        let term = Term::of(2, &[(0, 1.0), (1, 2.0)]);
        assert_eq!((term.name(&names).as_str(), term.value(&[3.0, 4.0])), ("batch·window²", 48.0));
        assert_eq!(Term::power(2, 1, -1.0).name(&names), "1/window");
        assert_eq!((Term::constant(2).value(&[9.0, 9.0]), Term::constant(2).is_constant()), (1.0, true));
    }

    #[test]
    fn the_library_has_no_term_twice() {
        for (axes, inverses) in [(0, false), (1, false), (1, true), (2, true), (3, false), (5, false)] {
            let terms = library(axes, inverses);
            for (place, term) in terms.iter().enumerate() {
                assert!(!terms[..place].contains(term) && !term.is_constant(), "{term:?}");
            }
        }
    }
}
