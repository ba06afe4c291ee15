//! Task graphs as predecessor lists.
//!
//! Invariant: the predecessors of a task have smaller numbers than the task, in ascending order and
//! without repetition. So the tasks' numbers are an order in which they may run or be enqueued.

/// The shape of a task graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphShape {
    name: String,
    /// The predecessors of task `t` are `predecessors[starts[t]..starts[t + 1]]`.
    starts: Vec<u32>,
    predecessors: Vec<u32>,
}

impl GraphShape {
    /// The shape in which task `t` waits for the tasks that `predecessors(t)` lists.
    ///
    /// # Panics
    /// If a list is not ascending or names a task that does not come before its task.
    pub fn from_predecessors(
        name: impl Into<String>,
        tasks: usize,
        predecessors: impl Fn(u32) -> Vec<u32>,
    ) -> Self {
        let mut shape = GraphShape {
            name: name.into(),
            starts: vec![0],
            predecessors: Vec::new(),
        };
        for task in 0..position(tasks) {
            let list = predecessors(task);
            assert!(
                list.is_sorted_by(|one, next| one < next),
                "the predecessors of task {task} are not in ascending order"
            );
            assert!(
                list.last().is_none_or(|last| *last < task),
                "task {task} waits for a task that does not come before it"
            );
            shape.predecessors.extend(list);
            shape.starts.push(position(shape.predecessors.len()));
        }
        shape
    }

    /// Every task waits for the one before.
    pub fn chain(tasks: usize) -> Self {
        GraphShape::from_predecessors("chain", tasks, |task| {
            task.checked_sub(1).into_iter().collect()
        })
    }

    /// No task waits.
    pub fn independent(tasks: usize) -> Self {
        GraphShape::from_predecessors("independent", tasks, |_| Vec::new())
    }

    /// A grid in which every task waits for its neighbours above and to the left.
    pub fn wavefront(rows: usize, columns: usize) -> Self {
        let width = position(columns);
        let name = format!("wavefront {rows}x{columns}");
        GraphShape::from_predecessors(name, rows * columns, |task| {
            let above = task.checked_sub(width);
            let left = (task % width != 0).then(|| task - 1);
            above.into_iter().chain(left).collect()
        })
    }

    /// `stages` times: `width` tasks that wait for the join before, and a join that waits for them.
    pub fn fan_join(width: usize, stages: usize) -> Self {
        let stage = position(width + 1);
        let name = format!("fan-join {width}x{stages}");
        GraphShape::from_predecessors(name, (width + 1) * stages, |task| {
            let start = task - task % stage;
            if task % stage == stage - 1 {
                (start..task).collect()
            } else {
                start.checked_sub(1).into_iter().collect()
            }
        })
    }

    /// `layers` layers of `width` tasks, each of which waits for the whole layer before.
    pub fn all_to_all(width: usize, layers: usize) -> Self {
        let wide = position(width);
        let name = format!("all-to-all {width}x{layers}");
        GraphShape::from_predecessors(name, width * layers, |task| {
            let start = task - task % wide;
            start
                .checked_sub(wide)
                .map_or_else(Vec::new, |before| (before..start).collect())
        })
    }

    /// The five shapes of the benchmark `graphs`, about 10,000 tasks each.
    pub fn standard() -> Vec<Self> {
        vec![
            GraphShape::chain(10_000),
            GraphShape::independent(10_000),
            GraphShape::wavefront(100, 100),
            GraphShape::fan_join(64, 156),
            GraphShape::all_to_all(64, 156),
        ]
    }

    /// The same five shapes with a few tasks each, for tests.
    pub fn tiny() -> Vec<Self> {
        vec![
            GraphShape::chain(20),
            GraphShape::independent(20),
            GraphShape::wavefront(4, 5),
            GraphShape::fan_join(4, 3),
            GraphShape::all_to_all(4, 3),
        ]
    }

    /// The shape's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The number of tasks.
    pub fn tasks(&self) -> usize {
        self.starts.len() - 1
    }

    /// The number of dependencies.
    pub fn edges(&self) -> usize {
        self.predecessors.len()
    }

    /// The tasks that `task` waits for, ascending.
    ///
    /// In the layered shapes neighbours have equal lists: comparing with the list of `task - 1`
    /// tells a runtime that one marker can stand for all of it.
    ///
    /// # Panics
    /// If there is no such task.
    pub fn predecessors(&self, task: usize) -> &[u32] {
        &self.predecessors[self.starts[task] as usize..self.starts[task + 1] as usize]
    }
}

/// Task numbers are 32 bits wide: half the memory traffic of walking a large graph.
fn position(count: usize) -> u32 {
    u32::try_from(count).expect("a benchmark graph has fewer than 2^32 tasks and edges")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_have_the_edges_they_are_named_for() {
        let counts: Vec<(usize, usize)> = GraphShape::standard()
            .iter()
            .map(|shape| (shape.tasks(), shape.edges()))
            .collect();
        assert_eq!(
            counts,
            [
                (10_000, 9_999),
                (10_000, 0),
                (10_000, 2 * 100 * 99),
                (65 * 156, 64 * 156 + 64 * 155),
                (64 * 156, 64 * 64 * 155),
            ]
        );
    }

    #[test]
    fn the_wavefront_waits_above_and_left() {
        let shape = GraphShape::wavefront(2, 3);
        let lists: Vec<&[u32]> = (0..6).map(|task| shape.predecessors(task)).collect();
        let expected: [&[u32]; 6] = [&[], &[0], &[1], &[0], &[1, 3], &[2, 4]];
        assert_eq!(lists, expected);
    }

    #[test]
    fn the_fan_join_alternates_fans_and_joins() {
        let shape = GraphShape::fan_join(2, 2);
        let lists: Vec<&[u32]> = (0..6).map(|task| shape.predecessors(task)).collect();
        let expected: [&[u32]; 6] = [&[], &[], &[0, 1], &[2], &[2], &[3, 4]];
        assert_eq!(lists, expected);
    }

    #[test]
    fn all_to_all_waits_for_the_whole_layer() {
        let shape = GraphShape::all_to_all(2, 3);
        let lists: Vec<&[u32]> = (0..6).map(|task| shape.predecessors(task)).collect();
        let expected: [&[u32]; 6] = [&[], &[], &[0, 1], &[0, 1], &[2, 3], &[2, 3]];
        assert_eq!(lists, expected);
    }

    #[test]
    #[should_panic(expected = "does not come before")]
    fn a_cycle_is_refused() {
        GraphShape::from_predecessors("cycle", 2, |task| vec![task]);
    }
}
