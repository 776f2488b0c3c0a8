//! Ratios of measured times.

/// The middle value.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        count if count % 2 == 1 => sorted[count / 2],
        count => (sorted[count / 2 - 1] + sorted[count / 2]) / 2.0,
    }
}

/// Ratios are taken turn by turn, since the machine's speed drifts.
pub fn print_ratio(what: &str, peer: &[f64], ours: &[f64]) {
    let ratios: Vec<_> = peer
        .iter()
        .zip(ours)
        .map(|(peer, ours)| peer / ours)
        .collect();
    let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
    let most = ratios.iter().copied().fold(0.0, f64::max);
    println!(
        "{what}: {:.1} times ({least:.1} to {most:.1})",
        median(&ratios)
    );
}
