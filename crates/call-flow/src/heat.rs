//! Functions that are called too often to be followed.

/// How often each function is called, from look to look.
#[derive(Clone, Debug, Default)]
pub struct Heat {
    /// The calls of each function at the last look.
    before: Vec<u64>,
}

/// A function that is called too often.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HotFunction {
    /// The function, by its index.
    pub function: usize,
    /// How often it was called since the last look.
    pub calls: u64,
}

/// Where events are lost, a function is too hot that has this part of all calls, or more.
const SHARE: u64 = 8;

impl Heat {
    /// Looks at how often each function was called, and gives those that were called more than `most` times since the last look;
    /// where events were `lost` meanwhile, those that had a large part of all calls. The one that was called most is first.
    pub fn look(&mut self, calls: &[u64], most: u64, lost: bool) -> Vec<HotFunction> {
        self.before.resize(calls.len(), 0);
        let since: Vec<u64> = (calls.iter().zip(&self.before))
            .map(|(now, before)| now - before)
            .collect();
        self.before.copy_from_slice(calls);
        let all: u64 = since.iter().sum();
        let is_hot = |calls: u64| calls > most || lost && calls > 0 && calls >= all / SHARE;
        let mut hot: Vec<HotFunction> = (since.into_iter().enumerate())
            .filter(|(_, calls)| is_hot(*calls))
            .map(|(function, calls)| HotFunction { function, calls })
            .collect();
        hot.sort_by_key(|hot| std::cmp::Reverse(hot.calls));
        hot
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn functions(hot: &[HotFunction]) -> Vec<usize> {
        hot.iter().map(|hot| hot.function).collect()
    }

    #[test]
    fn what_counts_is_what_came_since_the_last_look() {
        let mut heat = Heat::default();
        assert_eq!(
            functions(&heat.look(&[10, 2000, 3000], 1000, false)),
            [2, 1]
        );
        assert_eq!(
            functions(&heat.look(&[1010, 2001, 3000], 1000, false)),
            [0; 0]
        );
        assert_eq!(functions(&heat.look(&[2011, 2001, 3000], 1000, false)), [0]);
    }

    #[test]
    fn where_events_are_lost_a_large_part_is_too_hot() {
        let mut heat = Heat::default();
        assert_eq!(functions(&heat.look(&[70, 20, 10, 0], 1000, true)), [0, 1]);
        assert_eq!(functions(&heat.look(&[70, 20, 10, 0], 1000, true)), [0; 0]);
    }
}
