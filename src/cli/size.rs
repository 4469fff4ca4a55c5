//! Sizes for people.

const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
const STEP: u64 = 1024;

/// A size in the largest unit of which there is one, with one decimal: `1.5 MiB`.
pub(super) fn size(bytes: u64) -> String {
    let (mut unit, mut scale) = (0_usize, 1_u64);
    while unit.saturating_add(1) < UNITS.len()
        && bytes.checked_div(scale).unwrap_or_default() >= STEP
    {
        unit = unit.saturating_add(1);
        scale = scale.saturating_mul(STEP);
    }
    let name = UNITS.get(unit).copied().unwrap_or_default();
    let whole = bytes.checked_div(scale).unwrap_or_default();
    if unit == 0 {
        return format!("{whole} {name}");
    }
    let rest = bytes.checked_rem(scale).unwrap_or_default();
    let tenth = u128::from(rest).saturating_mul(10);
    let tenth = tenth.checked_div(u128::from(scale)).unwrap_or_default();
    format!("{whole}.{tenth} {name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_shown_in_its_largest_unit() {
        for (bytes, shown) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1536, "1.5 KiB"),
            (1024 * 1024 - 1, "1023.9 KiB"),
            (5 * 1024 * 1024 * 1024, "5.0 GiB"),
            (u64::MAX, "16777215.9 TiB"),
        ] {
            assert_eq!(size(bytes), shown);
        }
    }
}
