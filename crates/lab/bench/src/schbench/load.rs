//! `-A`: the rate of requests that keeps the machine as busy as requested. Also reads scheduling delays.

use std::fs;

/// How busy the machine was since the last call, by `/proc/stat`.
#[derive(Default)]
pub struct Busy {
    before: Option<(u64, u64)>,
}

impl Busy {
    /// In percent. `None` at the first call, or if `/proc/stat` cannot be read.
    pub fn percent(&mut self) -> Option<f64> {
        let now = times(&fs::read_to_string("/proc/stat").ok()?)?;
        let (all, idle) = self.before.replace(now)?;
        let (passed, idle) = (now.0.checked_sub(all)?, now.1.saturating_sub(idle));
        (passed > 0).then(|| 100.0 - 100.0 * idle as f64 / passed as f64)
    }
}

/// The time of all CPUs, and the idle part of it.
fn times(stat: &str) -> Option<(u64, u64)> {
    let columns = stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace();
    let columns: Vec<u64> = columns.map(str::parse).collect::<Result<_, _>>().ok()?;
    Some((columns.iter().sum(), *columns.get(3)?))
}

/// The rate for the next second, as schbench steps towards its goal, and whether the goal is nearly met.
///
/// Steps are large far from the goal, up to a factor of three, and small near it.
pub fn next_rate(rate: u32, busy: f64, goal: f64) -> (u32, bool) {
    let wanted = goal / busy.max(0.01);
    if wanted >= 1.0 {
        let step = match wanted {
            far if far > 3.0 => 3.0,
            near if near < 1.2 => 1.0 + (near - 1.0) / 8.0,
            nearer if nearer < 1.5 => 1.0 + (nearer - 1.0) / 4.0,
            other => other,
        };
        let target = (f64::from(rate) * step).ceil();
        // With too few threads the goal cannot be met, and the rate would grow without end.
        (if target < f64::from(1 << 30) { target as u32 } else { rate }, step < 1.05)
    } else {
        let step = match wanted {
            far if far < 0.3 => 0.3,
            near if near > 0.9 => near + (1.0 - near) / 8.0,
            nearer if nearer > 0.8 => nearer + (1.0 - nearer) / 4.0,
            other => other,
        };
        // From a rate of 0 it would never rise again.
        (((f64::from(rate) * step).floor() as u32).max(1), step > 0.95)
    }
}

/// Mean time that a thread waited for a CPU, in us. `None` if the kernel does not report it.
pub fn scheduling_delay_us(tids: impl Iterator<Item = u32>) -> Option<f64> {
    let of = |tid: u32| delay_ns(&fs::read_to_string(format!("/proc/self/task/{tid}/schedstat")).ok()?);
    let delays: Vec<f64> = tids.filter(|tid| *tid != 0).filter_map(of).collect();
    (!delays.is_empty()).then(|| delays.iter().sum::<f64>() / delays.len() as f64 / 1e3)
}

/// From the three numbers of `schedstat`: time running, time waiting, number of waits.
fn delay_ns(schedstat: &str) -> Option<f64> {
    let mut numbers = schedstat.split_whitespace().skip(1).map(|number| number.parse::<f64>().ok());
    let (waiting, times) = (numbers.next()??, numbers.next()??);
    (times > 0.0).then(|| waiting / times)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_goes_in_large_steps_far_away_and_in_small_ones_nearby() {
        assert_eq!(next_rate(100, 10.0, 90.0), (300, false));
        assert_eq!(next_rate(100, 45.0, 90.0), (200, false));
        assert_eq!(next_rate(1000, 88.0, 90.0), (1003, true));
        assert_eq!(next_rate(1000, 100.0, 10.0), (300, false));
        assert_eq!(next_rate(1000, 92.0, 90.0), (980, true));
        assert_eq!(next_rate(1, 99.0, 10.0).0, 1, "never to a stop");
        assert_eq!(next_rate(1000, 90.0, 90.0), (1000, true));
    }

    #[test]
    fn the_kernels_files_are_read_column_by_column() {
        assert_eq!(times("cpu  10 20 30 40 5 0 0 0 0 0\ncpu0 1"), Some((105, 40)));
        assert_eq!(times("intr 5"), None);
        assert_eq!(delay_ns("100 3000 3\n"), Some(1000.0));
        assert_eq!(delay_ns("0 0 0\n"), None);
    }
}
