//! Numbers as people read them.

/// A duration with three significant digits: `0 ns`, `12.3 µs`, `4.56 s`.
pub fn duration(ns: u64) -> String {
    scaled(ns, 1000.0, &["ns", "µs", "ms", "s"])
}

/// A size in powers of 1024: `0 B`, `512 B`, `1.50 MiB`.
pub fn bytes(count: u64) -> String {
    scaled(
        count,
        1024.0,
        &["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"],
    )
}

fn scaled(number: u64, step: f64, units: &[&str]) -> String {
    let mut value = number as f64;
    let mut unit = 0;
    // A number that would be shown as 1000 is shown as 1.00 of the next unit.
    while value >= step.min(999.5) && unit + 1 < units.len() {
        value /= step;
        unit += 1;
    }
    let decimals = match value {
        _ if unit == 0 => 0,
        value if value < 9.995 => 2,
        value if value < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$} {}", units[unit])
}

/// A count with its thousands apart: `12,345`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A count and its noun: `1 command`, `2,000 commands`.
pub fn counted(number: u64, noun: &str) -> String {
    format!(
        "{} {noun}{}",
        count(number),
        if number == 1 { "" } else { "s" }
    )
}

/// A fraction: `97.3 %`.
pub fn percent(fraction: f64) -> String {
    format!("{:.1} %", fraction * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_rounded_to_three_digits() {
        for (ns, text) in [
            (0, "0 ns"),
            (999, "999 ns"),
            (1_000, "1.00 µs"),
            (12_345, "12.3 µs"),
            (99_960, "100 µs"),
            (999_499, "999 µs"),
            (999_500, "1.00 ms"),
            (7_200_000_000_000, "7200 s"),
        ] {
            assert_eq!(duration(ns), text);
        }
        for (size, text) in [
            (0, "0 B"),
            (1_023, "1.00 KiB"),
            (1_536, "1.50 KiB"),
            (1 << 30, "1.00 GiB"),
        ] {
            assert_eq!(bytes(size), text);
        }
        assert_eq!(bytes(u64::MAX), "16.0 EiB");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(counted(1, "command"), "1 command");
        assert_eq!(percent(0.9734), "97.3 %");
    }
}
