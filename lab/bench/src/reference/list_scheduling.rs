//! Greedy list scheduling: the result of a perfect scheduler without overhead and without
//! foresight.
//!
//! Pieces are taken in the order given; each goes to the worker that is free first (R. L. Graham,
//! "Bounds on multiprocessing timing anomalies", 1969: at most 2 - 1/m times the best schedule).
//! Batches follow one another: the next starts when the last piece of the one before has ended.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The time until the last piece of one batch ends.
///
/// Times are in any unit; `workers` is at least one.
pub fn makespan(pieces: &[f64], workers: usize) -> f64 {
    let mut free: BinaryHeap<Reverse<Time>> =
        std::iter::repeat_n(Reverse(Time(0.0)), workers.max(1)).collect();
    let mut end = 0.0_f64;
    for piece in pieces {
        let Reverse(Time(start)) = free.pop().unwrap_or(Reverse(Time(0.0)));
        end = end.max(start + piece);
        free.push(Reverse(Time(start + piece)));
    }
    end
}

/// The speed-up over one worker that greedy list scheduling of equal batches of these pieces gives.
pub fn speed_up(pieces: &[f64], workers: usize) -> f64 {
    let parallel = makespan(pieces, workers);
    if parallel > 0.0 {
        pieces.iter().sum::<f64>() / parallel
    } else {
        1.0
    }
}

/// A time that can be ordered.
#[derive(Clone, Copy)]
struct Time(f64);

impl Ord for Time {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for Time {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Time {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Time {}

#[cfg(test)]
mod tests {
    use super::*;

    /// Steps through time unit by unit: whoever is idle takes the next piece.
    fn simulated(pieces: &[u32], workers: usize) -> u32 {
        let mut left = vec![0_u32; workers];
        let mut waiting = pieces.iter();
        let mut now = 0;
        loop {
            for worker in &mut left {
                while *worker == 0 {
                    match waiting.next() {
                        Some(&piece) => *worker = piece,
                        None => break,
                    }
                }
            }
            if left.iter().all(|&time| time == 0) {
                return now;
            }
            for worker in &mut left {
                *worker = worker.saturating_sub(1);
            }
            now += 1;
        }
    }

    /// The best makespan over all assignments.
    fn best(pieces: &[u32], workers: usize) -> u32 {
        let assignments = (workers as u64).pow(pieces.len() as u32);
        (0..assignments)
            .map(|mut assignment| {
                let mut loads = vec![0; workers];
                for piece in pieces {
                    loads[(assignment % workers as u64) as usize] += piece;
                    assignment /= workers as u64;
                }
                loads.into_iter().max().unwrap_or(0)
            })
            .min()
            .unwrap_or(0)
    }

    /// All lists of up to `length` pieces of 1 to 4 units.
    fn lists(length: usize) -> Vec<Vec<u32>> {
        let mut all = vec![vec![]];
        let mut last = all.clone();
        for _ in 0..length {
            last = last
                .iter()
                .flat_map(|list| {
                    (1..=4).map(move |piece| {
                        let mut longer = list.clone();
                        longer.push(piece);
                        longer
                    })
                })
                .collect();
            all.extend(last.iter().cloned());
        }
        all
    }

    #[test]
    fn it_is_what_idle_workers_taking_the_next_piece_do() {
        for list in lists(5) {
            let pieces: Vec<f64> = list.iter().copied().map(f64::from).collect();
            for workers in 1..=3 {
                let expected = f64::from(simulated(&list, workers));
                assert_eq!(
                    makespan(&pieces, workers),
                    expected,
                    "{list:?} on {workers}"
                );
            }
        }
    }

    #[test]
    fn it_lies_between_the_best_schedule_and_grahams_bound() {
        for list in lists(4) {
            let pieces: Vec<f64> = list.iter().copied().map(f64::from).collect();
            for workers in 1..=3 {
                let greedy = makespan(&pieces, workers);
                let best = f64::from(best(&list, workers));
                let bound = best * (2.0 - 1.0 / workers as f64);
                assert!(
                    greedy >= best && greedy <= bound + 1e-9,
                    "{list:?} on {workers}"
                );
            }
        }
    }

    #[test]
    fn speed_ups_of_known_batches() {
        assert_eq!(speed_up(&[1.0], 4), 1.0);
        assert_eq!(speed_up(&[1.0; 8], 4), 4.0);
        assert_eq!(speed_up(&[4.0, 3.0, 2.0, 1.0], 2), 2.0);
        // The order matters: the longest piece last leaves the others idle.
        assert_eq!(speed_up(&[1.0, 1.0, 2.0], 2), 4.0 / 3.0);
        assert_eq!(speed_up(&[2.0, 1.0, 1.0], 2), 2.0);
        assert_eq!(speed_up(&[], 2), 1.0);
    }
}
