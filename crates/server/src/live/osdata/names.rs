//! Users, groups and times by their names.

use nix::unistd::{Gid, Group, Uid, User};

/// The name of a user; its number where it has none.
pub(super) fn user(number: u32) -> String {
    match User::from_uid(Uid::from_raw(number)) {
        Ok(Some(user)) => user.name,
        _ => number.to_string(),
    }
}

/// The name of a group; its number where it has none.
pub(super) fn group(number: u32) -> String {
    match Group::from_gid(Gid::from_raw(number)) {
        Ok(Some(group)) => group.name,
        _ => number.to_string(),
    }
}

/// A time as C's `ctime` has it, in UTC and without the newline; nothing for 0.
pub(super) fn time(seconds: i64) -> String {
    const DAY: i64 = 24 * 60 * 60;
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    if seconds == 0 {
        return String::new();
    }
    let (days, rest) = (seconds.div_euclid(DAY), seconds.rem_euclid(DAY));
    // Years that begin with March, in cycles of 400 (Hinnant, "chrono-compatible low-level date algorithms").
    let shifted = days + 719_468;
    let (cycle, day) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day_of_month = day - (153 * month + 2) / 5 + 1;
    let month = (month + 2) % 12;
    let year = year + 400 * cycle + i64::from(month < 2);
    let name = |names: &[&'static str], index: i64| {
        usize::try_from(index)
            .ok()
            .and_then(|index| names.get(index).copied())
            .unwrap_or("???")
    };
    format!(
        "{} {} {day_of_month:2} {:02}:{:02}:{:02} {year}",
        name(&DAYS, days.rem_euclid(7)),
        name(&MONTHS, month),
        rest / 3600,
        rest / 60 % 60,
        rest % 60
    )
}

#[cfg(test)]
mod tests {
    use super::time;

    #[test]
    fn times_are_those_of_the_calendar() {
        assert_eq!(time(0), "");
        assert_eq!(time(1), "Thu Jan  1 00:00:01 1970");
        assert_eq!(time(951_782_400), "Tue Feb 29 00:00:00 2000");
        assert_eq!(time(1_700_000_000), "Tue Nov 14 22:13:20 2023");
        assert_eq!(time(4_102_444_799), "Thu Dec 31 23:59:59 2099");
    }
}
