//! Random expressions without undefined behaviour: sums of signed numbers are of unsigned ones,
//! shifts are masked, divisors are positive, and what becomes an integer is within its bounds.

use crate::generator::Generator;
use crate::types::{ELEMENTS, Scalar, Type};

impl Generator {
    /// An expression of a type; if `same`, one that is the same for all work-items of a group.
    pub(crate) fn expression(&mut self, of: Type, depth: usize, same: bool) -> String {
        if depth == 0 || self.random.percent(15) {
            return self.leaf(of, same);
        }
        let depth = depth - 1;
        match self.random.below(10) {
            0 | 1 => self.leaf(of, same),
            2 if of.width > 1 => self.assembled(of, depth, same),
            2 | 3 => self.converted(of, depth, same),
            4 => self.chosen(of, depth, same),
            5 | 6 => self.called(of, depth, same),
            _ => self.operated(of, depth, same),
        }
    }

    /// A number that is true or false.
    pub(crate) fn condition(&mut self, depth: usize, same: bool) -> String {
        let of = Type::one(self.random.one_of(&Scalar::ALL));
        let [a, b] = [0, 1].map(|_| self.expression(of, depth, same));
        let how = self.random.one_of(&["<", ">", "<=", ">=", "==", "!="]);
        let first = format!("({a}) {how} ({b})");
        match self.random.below(8) {
            0 if depth > 0 => {
                let second = self.condition(depth - 1, same);
                let how = self.random.one_of(&["&&", "||"]);
                format!("({first}) {how} ({second})")
            }
            1 if !same => format!(
                "l % {}u == {}u",
                2 + self.random.below(4),
                self.random.below(2)
            ),
            2 if !same => format!("l {how} {}u", self.random.below(40)),
            3 => {
                let of = Type {
                    of: self.random.one_of(&Scalar::ALL),
                    width: self.random.one_of(&[2, 3, 4, 8, 16]),
                };
                let [a, b] = [0, 1].map(|_| self.expression(of, depth.min(1), same));
                let all = self.random.one_of(&["any", "all"]);
                format!("{all}(({a}) {how} ({b}))")
            }
            _ => first,
        }
    }

    fn literal(&mut self, of: Type) -> String {
        if of.width > 1 {
            let one = Type::one(of.of);
            if self.random.percent(50) {
                return format!("({of})({})", self.literal(one));
            }
            let all: Vec<String> = (0..of.width).map(|_| self.literal(one)).collect();
            return format!("({of})({})", all.join(", "));
        }
        if of.of.is_real() {
            let number = self.random.below(4000) as f64 / 16.0 - 100.0;
            let suffix = match of.of {
                Scalar::Half => "h",
                Scalar::Float => "f",
                _ => "",
            };
            return match number < 0.0 {
                true => format!("(-{:.4}{suffix})", -number),
                false => format!("{number:.4}{suffix}"),
            };
        }
        let bits = of.of.bits();
        let number = match self.random.below(6) {
            0 => self.random.next(),
            1 => 1 << self.random.below(bits),
            2 => (1_u64 << (bits - 1)) - 1,
            _ => self.random.below(12) as u64,
        };
        // All of its bits, as the unsigned type has them.
        let number = number & (u64::MAX >> (64 - bits));
        let suffix = if bits == 64 { "ul" } else { "u" };
        format!("(({of}){number}{suffix})")
    }

    fn leaf(&mut self, of: Type, same: bool) -> String {
        let fitting: Vec<String> = self
            .variables
            .iter()
            .filter(|it| it.of == of && (it.same || !same))
            .map(|it| it.name.clone())
            .collect();
        if !fitting.is_empty() && self.random.percent(60) {
            return self.random.one_of(&fitting);
        }
        let fitting: Vec<(String, Type)> = self
            .variables
            .iter()
            .filter(|it| (it.same || !same) && it.of != of)
            .map(|it| (it.name.clone(), it.of))
            .collect();
        if fitting.is_empty() || self.random.percent(30) {
            return self.literal(of);
        }
        let (name, from) = self.random.one_of(&fitting);
        if from.width == of.width {
            return convert(&name, from, of);
        }
        if of.width == 1 {
            let at = self.random.below(from.width);
            let one = format!("{name}.s{}", &ELEMENTS[at..=at]);
            return convert(&one, Type::one(from.of), of);
        }
        if from.width == 1 {
            return format!("({of})({})", convert(&name, from, Type::one(of.of)));
        }
        // Some of its elements, in any order.
        let elements: String = (0..of.width)
            .map(|_| {
                let at = self.random.below(from.width);
                &ELEMENTS[at..=at]
            })
            .collect();
        convert(
            &format!("{name}.s{elements}"),
            from.with_width(of.width),
            of,
        )
    }

    fn converted(&mut self, of: Type, depth: usize, same: bool) -> String {
        let from = of.with(self.random.one_of(&Scalar::ALL));
        let inner = self.expression(from, depth, same);
        if from.of.bits() == of.of.bits() && !from.of.is_real() && self.random.percent(40) {
            // Numbers narrower than C's own become those in an expression.
            return format!("as_{of}(({from})({inner}))");
        }
        let sat = !of.of.is_real() && (from.of.is_real() || self.random.percent(40));
        match sat {
            true => format!("convert_{of}_sat(({from})({inner}))"),
            false => convert(&format!("({inner})"), from, of),
        }
    }

    /// A vector of parts.
    fn assembled(&mut self, of: Type, depth: usize, same: bool) -> String {
        let mut rest = of.width;
        let mut parts = Vec::new();
        while rest > 0 {
            let widths: Vec<usize> = [1, 2, 3, 4, 8]
                .into_iter()
                .filter(|width| *width <= rest && *width < of.width)
                .collect();
            let width = self.random.one_of(&widths);
            let depth = if parts.len() > 2 { 0 } else { depth.min(1) };
            parts.push(self.expression(of.with_width(width), depth, same));
            rest -= width;
        }
        format!("({of})({})", parts.join(", "))
    }

    fn chosen(&mut self, of: Type, depth: usize, same: bool) -> String {
        let [a, b] = [0, 1].map(|_| self.expression(of, depth, same));
        if of.width == 1 {
            let condition = self.condition(depth, same);
            return match self.random.percent(70) {
                true => format!("(({condition}) ? ({of})({a}) : ({of})({b}))"),
                false => {
                    let signed = of.with(of.of.signed());
                    format!("select(({of})({a}), ({of})({b}), ({signed})({condition}))")
                }
            };
        }
        let like = self
            .random
            .one_of(&[of.of, of.of.signed(), of.of.unsigned()]);
        let like = of.with(like);
        let [c, d] = [0, 1].map(|_| self.expression(like, depth.min(1), same));
        let how = self.random.one_of(&["<", ">", "<=", ">=", "==", "!="]);
        match self.random.percent(50) {
            true => format!("((({c}) {how} ({d})) ? ({a}) : ({b}))"),
            false => format!("select({a}, {b}, ({c}) {how} ({d}))"),
        }
    }

    fn called(&mut self, of: Type, depth: usize, same: bool) -> String {
        let mut all = [0; 3].map(|_| self.expression(of, depth, same));
        if of.width == 1 {
            all = all.map(|one| format!("({of})({one})"));
        }
        let [a, b, c] = all;
        if of.of.is_real() {
            return match self.random.below(7) {
                0 => format!("fma({a}, {b}, {c})"),
                1 => format!("copysign({a}, {b})"),
                at => format!(
                    "{}({a})",
                    ["fabs", "floor", "ceil", "trunc", "rint"][at - 2]
                ),
            };
        }
        match self.random.below(13) {
            0 => format!("min({a}, {b})"),
            1 => format!("max({a}, {b})"),
            2 => format!("rotate({a}, {b})"),
            3 => format!("popcount({a})"),
            4 => format!("clz({a})"),
            5 => format!("add_sat({a}, {b})"),
            6 => format!("sub_sat({a}, {b})"),
            7 => format!("hadd({a}, {b})"),
            8 => format!("rhadd({a}, {b})"),
            9 => format!("bitselect({a}, {b}, {c})"),
            10 if of.of.bits() < 64 => format!("mul_hi({a}, {b})"),
            11 if !of.of.is_signed() => {
                let signed = of.with(of.of.signed());
                format!("abs(as_{signed}({a}))")
            }
            12 if !of.of.is_signed() => format!("abs_diff({a}, {b})"),
            _ => format!("max({a}, {b})"),
        }
    }

    fn operated(&mut self, of: Type, depth: usize, same: bool) -> String {
        let [a, b] = [0, 1].map(|_| self.expression(of, depth, same));
        if of.of.is_real() {
            let how = self.random.one_of(&["+", "-", "*"]);
            return match self.random.percent(10) {
                true => format!("(-({a}))"),
                false => format!("(({a}) {how} ({b}))"),
            };
        }
        // What arithmetic is done in: unsigned, and for numbers no narrower than C's own.
        let wide = match (of.width, of.of.bits()) {
            (1, ..64) => Type::UINT,
            _ => of.with(of.of.unsigned()),
        };
        let [ua, ub] = match of.width {
            1 => [format!("({wide})({a})"), format!("({wide})({b})")],
            _ => [format!("as_{wide}({a})"), format!("as_{wide}({b})")],
        };
        let back = |text: String| match of.width {
            1 => format!("(({of})({text}))"),
            _ => format!("as_{of}({text})"),
        };
        let literal = |number: usize| match of.width {
            1 => number.to_string(),
            _ => format!("({of})({number})"),
        };
        let mask = literal(of.of.bits() - 1);
        match self.random.below(12) {
            0..=4 => {
                let how = self.random.one_of(&["+", "-", "*"]);
                back(format!("{ua} {how} {ub}"))
            }
            5 | 6 => {
                let how = self.random.one_of(&["&", "|", "^"]);
                back(format!("({a}) {how} ({b})"))
            }
            7 => back(format!("{ua} << (({b}) & {mask})")),
            8 => back(format!("({a}) >> (({b}) & {mask})")),
            9 => {
                let how = self.random.one_of(&["/", "%"]);
                let (most, least) = (literal(15), literal(1));
                back(format!("({a}) {how} ((({b}) & {most}) | {least})"))
            }
            10 => back(format!("~({a})")),
            _ => back(match of.width {
                1 => format!("({wide})0 - {ua}"),
                _ => format!("({wide})(0) - {ua}"),
            }),
        }
    }
}

impl Type {
    pub(crate) fn with_width(self, width: usize) -> Self {
        Self { width, ..self }
    }
}

/// A variable, or what is in parentheses, of another type.
pub(crate) fn convert(text: &str, from: Type, to: Type) -> String {
    if from == to {
        return text.to_owned();
    }
    let is_bounded = from.of.is_real() && !to.of.is_real();
    match (is_bounded, to.width) {
        (true, 1) => format!("convert_{to}_sat(({from}){text})"),
        (true, _) => format!("convert_{to}_sat({text})"),
        (false, 1) => format!("(({to}){text})"),
        (false, _) => format!("convert_{to}({text})"),
    }
}
