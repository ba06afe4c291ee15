//! Launches as they were made last: a program launches the same again and again, with other waits.

use super::kernel::NodeKernel;
use quipu_protocol::message::Launch;
use quipu_scheduler::{AccessMode, MemoryRef};
use smallvec::SmallVec;
use std::ops::{Index, Range};

/// The most that are kept: a step of programs that repeat themselves mostly has no more.
const KEPT: usize = 8;

/// Bytes that one that is kept says, at most: they are the client's, and counted nowhere.
const MOST_SAID: usize = 4096;

/// One use of a launch: the memory, its bytes, and the access.
pub(super) type Use = (MemoryRef, Range<u64>, AccessMode);

/// A launch but for its waits.
pub(super) struct Prepared {
    pub(super) kernel: NodeKernel,
    pub(super) groups: u64,
    pub(super) uses: SmallVec<[Use; 4]>,
}

impl Prepared {
    /// True if it may be kept for launches that say the same as this: not if that is much, nor if
    /// its kernel is for one alone.
    pub(super) fn may_be_kept(&self, launch: &Launch<'_>) -> bool {
        let bytes: usize = launch.parts().iter().map(|part| part.len()).sum();
        bytes <= MOST_SAID && self.kernel.serves_many_launches()
    }
}

/// All that a launch says, as bytes; and how many belong to what, since one that has less of this
/// may have more of that.
#[derive(PartialEq, Eq)]
struct Said {
    device: u32,
    program: u64,
    lengths: [usize; 9],
    bytes: SmallVec<[u8; 256]>,
}

impl Said {
    fn of(device: u32, launch: &Launch<'_>) -> Self {
        let parts = launch.parts();
        let mut bytes = SmallVec::new();
        for part in parts {
            bytes.extend_from_slice(part);
        }
        Self {
            device,
            program: launch.program,
            lengths: parts.map(<[u8]>::len),
            bytes,
        }
    }

    fn is(&self, device: u32, launch: &Launch<'_>) -> bool {
        let parts = launch.parts();
        if (self.device, self.program) != (device, launch.program)
            || self.lengths != parts.map(<[u8]>::len)
        {
            return false;
        }
        let mut said = &self.bytes[..];
        parts.iter().all(|part| {
            let (own, rest) = said.split_at(part.len());
            said = rest;
            own == *part
        })
    }
}

/// See the module. They keep nothing that was freed: code that frees something forgets them.
#[derive(Default)]
pub(super) struct PreparedLaunches {
    kept: Vec<(Said, Prepared)>,
    /// The one that makes room next.
    next: usize,
}

impl PreparedLaunches {
    /// The index of a launch that says the same, if one was made lately.
    pub(super) fn find(&self, device: u32, launch: &Launch<'_>) -> Option<usize> {
        let mut kept = self.kept.iter();
        kept.position(|(said, _)| said.is(device, launch))
    }

    /// Keeps one that was not found and [may be](Prepared::may_be_kept). Where it is.
    pub(super) fn keep(&mut self, device: u32, launch: &Launch<'_>, prepared: Prepared) -> usize {
        let new = (Said::of(device, launch), prepared);
        if self.kept.len() < KEPT {
            self.kept.push(new);
            return self.kept.len() - 1;
        }
        let at = self.next;
        self.kept[at] = new;
        self.next = (at + 1) % KEPT;
        at
    }

    /// Something is freed that they may use.
    pub(super) fn forget(&mut self) {
        self.kept.clear();
        self.next = 0;
    }
}

impl Index<usize> for PreparedLaunches {
    type Output = Prepared;

    fn index(&self, at: usize) -> &Prepared {
        &self.kept[at].1
    }
}

#[cfg(test)]
mod tests {
    use super::super::kernel::Kind;
    use super::super::text::Code;
    use super::*;
    use quipu_kernel_ir::{KernelText, TextLanguage};
    use quipu_protocol::message::Word;
    use quipu_scheduler::operation::NativeKernel;
    use quipu_scheduler::{CodeKey, Passed, RawArgument};
    use std::sync::Arc;

    fn prepared(groups: u64) -> Prepared {
        let text = Arc::new(KernelText {
            language: TextLanguage::OpenClC,
            source: "".into(),
            entry: String::new(),
            options: String::new(),
        });
        let key = CodeKey::of::<Kind>(0);
        Prepared {
            kernel: NodeKernel::new(Kind::Text(Code::Text(text), key, Passed::default(), None)),
            groups,
            uses: SmallVec::new(),
        }
    }

    fn launch<'a>(words: &'a [Word], split: usize, values: &'a [u8]) -> Launch<'a> {
        let (shared, extents) = words.split_at(split);
        Launch {
            program: 1,
            blocks: &[],
            threads: &[],
            elements: &[],
            offset: &[],
            all_threads: &[],
            shared,
            parameters: &[],
            extents,
            values,
        }
    }

    /// A kernel that is for one launch.
    struct Once;

    impl NativeKernel for Once {
        fn name(&self) -> &'static str {
            "once"
        }

        unsafe fn run(&self, _: &[RawArgument], _: Range<u32>) -> quipu_scheduler::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_says_much_or_is_for_one_launch_is_not_kept() {
        let most = vec![0; MOST_SAID + 1];
        assert!(!prepared(1).may_be_kept(&launch(&[], 0, &most)));
        assert!(prepared(1).may_be_kept(&launch(&[], 0, &most[1..])));
        let once = Prepared {
            kernel: NodeKernel::new(Kind::Printed(Box::new(Once), None)),
            groups: 1,
            uses: SmallVec::new(),
        };
        assert!(!once.may_be_kept(&launch(&[], 0, b"a")));
    }

    #[test]
    fn only_what_says_the_same_is_found() {
        let words = [1, 2, 3].map(Word::new);
        let mut launches = PreparedLaunches::default();
        let at = launches.keep(0, &launch(&words, 1, b"ab"), prepared(7));
        let found = launches.find(0, &launch(&words, 1, b"ab"));
        assert_eq!(found, Some(at));
        assert_eq!(launches[at].groups, 7);
        // The same bytes, as other things.
        assert_eq!(launches.find(0, &launch(&words, 2, b"ab")), None);
        assert_eq!(launches.find(0, &launch(&words, 1, b"ac")), None);
        assert_eq!(launches.find(0, &launch(&words, 1, b"a")), None);
        assert_eq!(launches.find(1, &launch(&words, 1, b"ab")), None);
        let other = Launch {
            program: 2,
            ..launch(&words, 1, b"ab")
        };
        assert_eq!(launches.find(0, &other), None);
        launches.forget();
        assert_eq!(launches.find(0, &launch(&words, 1, b"ab")), None);
    }

    #[test]
    fn the_last_ones_are_kept() {
        let mut launches = PreparedLaunches::default();
        let of = |value: u8| [value];
        for value in 0..3 * KEPT as u8 {
            launches.keep(0, &launch(&[], 0, &of(value)), prepared(value.into()));
        }
        for value in 0..3 * KEPT as u8 {
            let found = launches.find(0, &launch(&[], 0, &of(value)));
            let found = found.map(|at| launches[at].groups);
            let kept = usize::from(value) >= 2 * KEPT;
            assert_eq!(found, kept.then_some(u64::from(value)));
        }
    }
}
