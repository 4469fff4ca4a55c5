//! Which of some names was meant.

/// The names nearest to one that is none of them, at most so many; equally near ones in their own
/// order.
pub fn nearest<'n>(wanted: &str, names: &'n [String], max: usize) -> Vec<&'n str> {
    let mut ranked: Vec<(usize, &str)> = names
        .iter()
        .map(|name| (distance(wanted, name), name.as_str()))
        .collect();
    ranked.sort_by_key(|(distance, _)| *distance);
    ranked.into_iter().take(max).map(|(_, name)| name).collect()
}

/// The letters to put in, take out or change to make one of the other, whatever their case.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.to_lowercase().chars().collect();
    // For the beginning of `one` so far: the distance to each beginning of `other`.
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for letter in one.to_lowercase().chars() {
        let mut diagonal = row.first().copied().unwrap_or_default();
        let mut left = diagonal.saturating_add(1);
        let mut next = vec![left];
        for (above, own) in row.iter().skip(1).zip(&other) {
            let changed = diagonal.saturating_add(usize::from(letter != *own));
            left = changed.min(above.min(&left).saturating_add(1));
            diagonal = *above;
            next.push(left);
        }
        row = next;
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typing_error_is_near_to_what_was_meant() {
        for (one, other, letters) in [
            ("laptop", "laptop", 0),
            ("Laptop", "laptop", 0),
            ("latop", "laptop", 1),
            ("lapptop", "laptop", 1),
            ("laptpo", "laptop", 2),
            ("", "abc", 3),
            ("abc", "", 3),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!(distance(one, other), letters, "{one} {other}");
        }
        let names = ["desktop", "laptop", "server"].map(str::to_owned);
        assert_eq!(nearest("latop", &names, 2), ["laptop", "desktop"]);
        assert_eq!(nearest("latop", &[], 2), [""; 0]);
    }
}
