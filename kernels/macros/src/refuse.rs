//! The words of refusals: constructs that the kernel language does not have, and the remedies.

pub(crate) const STRINGS: &str =
    "there are no strings and characters in kernels; use numbers, such as `b'a'`";
pub(crate) const OPTION: &str = "the options are `crate = path`, and of kernels `block_threads = [16, 16]`, `max_block_threads = 256` and `min_blocks = 2`";
pub(crate) const OPTION_TWICE: &str = "this option is there twice; leave one out";
pub(crate) const MIN_BLOCKS: &str = "compilers count `min_blocks` in blocks of a known size; write `max_block_threads = …` or `block_threads = […]` beside it";
pub(crate) const BOUNDS_OF_KERNELS: &str =
    "the size of blocks is a kernel's: write this at the `#[kernel]`";
pub(crate) const CLOSURE_VALUE: &str = "closures in kernels are called, or passed to a `#[device] fn` that takes `f: impl Fn(…) -> …`: `let f = |x| …;` and then `f(x)`";
pub(crate) const CLOSURE_COPY: &str = "a `move` closure that changes what it has of a variable would be copied here, and each copy change its own; pass it by reference, `&mut f`, and write the closure around it without `move`";
pub(crate) const CLOSURE_BOUND: &str = "copies of a closure that may change what it has are not in the kernel language; leave this bound out and pass on `&mut f`, or take an `Fn`";
pub(crate) const CLOSURE_OF_KERNEL: &str = "what a kernel is called with is data, and a closure is none; write a trait with `#[device]`, a struct with `#[derive(KernelData)]` for each function, and take `f: F` with `F: Trait`";
pub(crate) const CLOSURE_RETURN: &str = "`return` in a closure is not in the kernel language; write a `#[device] fn`, or give the value with `if` and `else`";
pub(crate) const ADAPTERS: &str =
    "this method with a closure is not in the kernel language; write a `for` loop";
pub(crate) const REDUCES: &str = "`reduce` is not in the kernel language; write `fold` with a first value: `x.iter().fold(0, |a, b| a + b)`";
pub(crate) const COLLECTS: &str = "memory is not allocated in kernels; write a loop over what would be collected, or that fills an array `[T; N]`";
pub(crate) const MAY_NOT_FIT: &str =
    "a conversion that may fail is not in the kernel language; compare with `MAX`, and write `as`";
pub(crate) const STATIC_MUT: &str = "a kernel cannot change a `static` of the host, nor see what the host makes of it: write a `Variable`, and a parameter with `#[variable(NAME)]` for it: `static COUNT: Variable<u32> = Variable::zeroed(1);`, `#[variable(COUNT)] count: Atomics<u32>`";
pub(crate) const SHARED_LOCAL: &str = "a shared array is a parameter of the kernel, behind the others: `#[shared(64)] mut sums: SharedWrite<f32>`";
pub(crate) const SHARED_PLANE: &str = "a shared array has one dimension: write `#[shared(16 * 16)] tile: SharedWrite<T>`, and row `i` and column `j` as `tile[i * 16 + j]`";
pub(crate) const SLICE_IN_TUPLE: &str = "a tuple in kernels has no slices: match the other values, and ask `x.len()` or match the slice by itself within an arm";
pub(crate) const REFERENCE_IN_STRUCT: &str = "devices cannot follow a reference in a struct: leave it out, and pass the slice beside the struct: `fn k(acc: &impl Accelerator<1>, settings: Settings, x: &[f32])`";
pub(crate) const FUNCTION_VALUE: &str =
    "a function that is passed is a closure that calls it: write `|x| f(x)` in place of `f`";
pub(crate) const STAGES: &str = "`map`, `filter` and `take_while` are in the kernel language where nothing comes behind them but a `for` loop's body, what takes all items, as `sum`, `fold` or `find`; `zip`, `rev`, `skip`, `take` and `step_by` may stand behind `map` alone, and `enumerate` behind all of them; write other adapters before them";
pub(crate) const ASYNC_BLOCK: &str = "`async` blocks and closures are not in the kernel language; write `async fn`, and await each barrier where it is";
pub(crate) const CONST_BLOCK: &str =
    "`const` blocks are not in the kernel language; name the value with a `const` item";
pub(crate) const ITEMS: &str = "items inside of a kernel are not in the kernel language, but for `const` and `use`; write this one outside";
pub(crate) const VERBATIM: &str =
    "this is not in the kernel language; what is, the documentation of `#[kernel]` lists";
pub(crate) const IF_LET: &str = "`let` stands between `&&` in the condition of `if` or `while`; write one `if` within the other";
pub(crate) const NO_ARMS: &str =
    "a `match` without arms is not in the kernel language; there is no value that it could be of";
pub(crate) const DESTRUCTURED: &str = "an assignment to parts is one to a tuple, an array or a struct: `(a, [b, c]) = …`; for others write a `let`, and an assignment for each part";
pub(crate) const INFERRED: &str = "`_` has no value here; name it";
pub(crate) const RAW_ADDRESS: &str = "raw pointers are not in the kernel language; take `RawMut<T>` as a parameter, and use its `unsafe` methods";
pub(crate) const REST_IN_THE_MIDDLE: &str =
    "patterns with `..` in the middle are not in the kernel language; use indices";
pub(crate) const BY_REFERENCE: &str = "`ref mut` is not in the kernel language; take the whole apart by reference: `let (a, b) = &mut pair`";
pub(crate) const PATTERN: &str = "this pattern is not in the kernel language; use names, `_`, numbers, ranges, and enums, tuples and structs of these";
pub(crate) const NOT_ASYNC: &str = "a kernel whose threads wait at barriers is an `async fn`: write `async` before `fn`, or take an `Accelerator`";
pub(crate) const ASYNC: &str = "an `async fn` is a kernel whose threads wait at barriers: take a `BlockAccelerator`, or leave out `async`";
pub(crate) const ACCELERATOR: &str = "a kernel's first parameter is the accelerator: write `acc: &impl Accelerator<1>`, or of an `async fn` `acc: &impl BlockAccelerator<1>`";
pub(crate) const RECURSION: &str =
    "a device function that calls itself has no end on some devices; write a loop";
pub(crate) const OTHER_DIMENSIONS: &str = "what threads own has as many dimensions as the accelerator: with `Accelerator<2>` write `OwnElements<T, 2>`, and pass a view of two dimensions, as `buffer.shaped([rows, columns])` gives it";
pub(crate) const MUTABLE_SLICE: &str = "of a slice that is written, each thread of a kernel is handed a part: write `OwnElements<T>` for its own elements, with `for (i, y) in y.each()`, or `OwnBlock<T>` for its part of its block's";
pub(crate) const LIFETIMES: &str = "lifetimes are not needed in kernels; leave them out";
pub(crate) const RESULT: &str =
    "a kernel gives nothing back; write to a parameter of type `OwnElements<T>` or `OwnBlock<T>`";
pub(crate) const SELF: &str = "a kernel that is a method has `#[kernel]` above its `impl`: `#[kernel] impl Scale { fn run(self, acc: &impl Accelerator<1>, …) { … } }`";
pub(crate) const KERNEL_ITEM: &str =
    "`#[kernel]` is for functions, and for `impl` blocks all of whose functions are kernels";
pub(crate) const KERNEL_IMPL: &str = "kernels are methods of a type by itself; leave the trait out";
pub(crate) const KERNEL_METHOD: &str = "all functions of an `impl` with `#[kernel]` are kernels that take `self`; write others in an `impl` of their own, with `#[device]` if kernels call them";
pub(crate) const KERNEL_SELF: &str = "a kernel has a copy of `self`, and nobody sees what it does to that; take `self` or `&self`, and write to a parameter of type `OwnElements<T>`";
pub(crate) const KERNEL_TYPE: &str = "name the type whose methods are kernels: `impl Scale { … }`";
pub(crate) const IMPL_TRAIT: &str = "`impl Trait` parameters other than the accelerator are not in the kernel language; name the type: `fn f<T: Trait>(x: T)`";
pub(crate) const TRAIT_OBJECT: &str = "trait objects and pointers are not in the kernel language; use generics: `fn f<T: Trait>(x: T)`";
pub(crate) const GENERIC_ACCELERATOR: &str =
    "write the accelerator as `acc: &impl Accelerator<1>`, without a type parameter of its own";
pub(crate) const PARAMETER_PATTERN: &str =
    "a parameter is a name here; take it apart with `let` in the body";
pub(crate) const PARAMETER_NAME: &str =
    "a parameter has a name here; one that is not used begins with `_`: `_unused: u32`";
pub(crate) const SHARED_LENGTH: &str = "say how long the shared array is: `#[shared(acc.extent(Block, Threads)[0])] sums: SharedWrite<f32>`";
pub(crate) const SHARED_INITIAL: &str = "behind the length of a shared array may stand `unsafe(uninit)`, if the kernel writes each element before it reads it; else leave it out, and it begins as zeros";
pub(crate) const SHARED_ONLY: &str =
    "`#[shared(length)]` is for parameters of type `SharedWrite<T>`";
pub(crate) const SHARED_RAW: &str = "a shared array is a `SharedWrite<T>` at first; write `#[shared(length)] sums: SharedWrite<T>`, and `let sums = sums.into_raw();` in the body";
pub(crate) const VECTOR: &str =
    "elements that are read are a slice: write `&[T]`; a kernel is passed the buffer, `&x`";
pub(crate) const VIEW_PARAMETER: &str = "a kernel reads a view as `GlobalRef<T, D>`: write `GlobalRef<f32, 2>`, and pass the view, `&x`";
pub(crate) const GLOBAL_MUT: &str = "of memory that is written, each thread of a kernel is handed a part: write `OwnElements<T>` for its own elements, or `RawMut<T>` for all of them through `unsafe` methods";
pub(crate) const MUTABLE_VALUE: &str = "a kernel cannot change a value of its caller: write `OwnElements<T>` for elements of a buffer, of which each thread has its own, or `Atomics<T>` for some that all threads change, as a sum";
pub(crate) const TUPLE_PARAMETER: &str = "how a tuple lies in memory is not known to other devices: write a parameter for each part, or a `#[repr(C)]` struct with `#[derive(Clone, Copy, KernelData)]`";
pub(crate) const OPTION_PARAMETER: &str = "an `Option` or `Result` is a value within kernels, and cannot be passed or lie in memory: pass the value, and a `u32` that says whether it is there";
pub(crate) const INDICES_IN_MEMORY: &str = "`usize` and `isize` have other sizes on some devices: write `u32` or `u64`, and `x[i] as usize` where an index is needed";
pub(crate) const NESTED: &str = "memory of devices holds no slices and vectors: put all elements into one buffer, and write `GlobalRef<T, 2>` for rows and columns, or pass where each part begins as `&[u32]`";
pub(crate) const ALLOCATED: &str = "memory is not allocated in kernels: pass the value itself, or a buffer, which a kernel reads as `&[T]`";
pub(crate) const WIDE: &str =
    "numbers in kernels have up to 64 bits: write `u64` or `i64`, or two of them";
pub(crate) const TUPLES_IN_MEMORY: &str = "how a tuple lies in memory is not known to other devices; write a `#[repr(C)]` struct with `#[derive(Clone, Copy, KernelData)]`, or a slice for each part";
pub(crate) const ATOMIC_CALLS: &str = "of `Atomics` the element's number comes first, and there is no order: `counts.add(i, 1)`, `counts.max(i, value)`, `counts.exchange(i, value)`, `counts.load(i)`, `counts.store(i, value)`, `counts.compare_exchange(i, expected, new)`; each but `store` gives the value before it; for an order write a fence, as `acc.fence_device()`";
pub(crate) const ALLOCATED_VALUE: &str = "memory is not allocated in kernels: write the value itself, an array `[T; N]`, or a buffer as a parameter";
pub(crate) const ATOMIC_ELEMENTS: &str = "devices change numbers of 32 and 64 bits in one step; take `Atomics` of `u32`, `i32`, `u64`, `i64`, `f32` or `f64`";
pub(crate) const MOST_PARAMETERS: &str = "a kernel has up to 12 parameters besides the accelerator and shared arrays; pass values together in a `#[repr(C)]` struct with `#[derive(KernelData)]`";
pub(crate) const CAPTURE_TYPE: &str =
    "say which type it has, as a kernel's source needs it: `[factor: f32]`";
pub(crate) const CLOSURE_KERNEL: &str = "a kernel is a closure here: `kernel_closure!([factor: f32] |acc: &impl Accelerator<1>, x: &[f32], mut y: OwnElements<f32>| { … })`";
pub(crate) const CLOSURE_PARAMETER: &str =
    "say which type the parameter has, as of a kernel: `x: &[f32]`";
pub(crate) const VARIABLE_ONLY: &str = "`#[variable(NAME)]` is for parameters that are memory of the device: `&[T]`, `OwnElements<T>`, `Atomics<T>`, `RawMut<T>`";
pub(crate) const VARIABLE_OF_DEVICE: &str =
    "variables are parameters of kernels; a device function is passed what the kernel has";
pub(crate) const SHARED_ASYNC: &str = "the threads of a block share memory in an `async fn`, which can wait at barriers: write `async fn` and `&impl BlockAccelerator<1>`";
pub(crate) const NOT_AWAITED: &str = "threads wait for each other here: write `.await` behind it";
pub(crate) const AWAIT: &str = "`.await` is for barriers, in an `async fn`";
pub(crate) const PARTED: &str = "every thread of a block has to come to a barrier, and to this only some do; have all of them come to it, some with nothing to do before and after, or ask what is the same for all, as a length, a value that is passed, or a vote (`acc.sync_block_threads_or(…)`); where it is the same for a reason that cannot be seen, say so with `unsafe { acc.assume_uniform(…) }`";
pub(crate) const PARTED_WARP: &str = "every thread of a warp has to come to a function of a warp, and to this only some do; have all of them come to it, or ask what is the same for all, as a length, a value that is passed, or a vote (`acc.warp_any(…)`); where it is the same for a reason that cannot be seen, say so with `unsafe { acc.assume_uniform(…) }`";
pub(crate) const DEVICE_ITEM: &str = "`#[device]` is for functions, traits and `impl` blocks, and above a struct with `#[derive(PartialEq)]`, whose comparisons kernels know then; structs and enums have `#[derive(KernelData)]`";
pub(crate) const ROW_AND_COLUMN: &str = "a view of several dimensions is indexed by a position, which is an array: `view[[row, column]]`";
pub(crate) const UNKNOWN_LABEL: &str = "there is no such loop here";

pub(crate) const TRAIT_OF_STD: &str = "of std's traits kernels know those of operators, as `Add` and `AddAssign`, `PartialEq`, `Default`, `From`, `Index`, `IndexMut`, and `Iterator` by its `next`; leave `#[device]` off this `impl`, \
    and write a method of the type's own: `#[device] impl Point { fn first(self) -> f32 { … } }`; `impl From<A> for B` gives `into`, too";
pub(crate) const OPERATOR_OF_REFERENCES: &str = "in kernels an operator of references is that of what they refer to; leave `#[device]` off this `impl`, and write it above the one for values";

pub(crate) const STD_OF_REFERENCES: &str = "kernels do not tell a reference from what it refers to; leave `#[device]` off this `impl`, and write it above one for values: `impl From<Line> for f32`, `impl Index<usize> for Line`";

pub(crate) const CHOSEN_PLACE: &str = "devices have no reference that depends on a condition; keep the parts in an array and give one by its number, `&mut self.parts[i]`; or leave `#[device]` off this `impl`, and write a method that changes a part: `fn set(&mut self, i: usize, to: f32)`";

pub(crate) const PRINT_FORMAT: &str =
    "what a kernel prints is a text with `{}` or `{name}` for numbers, which have no other format";
pub(crate) const ASSERTION: &str =
    "write `assert!(condition)`, or `assert!(condition, \"message {}\", value)`";
pub(crate) const COMPARISON: &str =
    "write `assert_eq!(a, b)`, or `assert_eq!(a, b, \"message {}\", value)`";
pub(crate) const MATCHES: &str = "write `matches!(value, pattern)`";
pub(crate) const ASSERT_VALUES: &str = "the message of an `assert!` in a kernel shows two values at most, as a device keeps no more of a mistake";
pub(crate) const PRINT_BRACES: &str =
    "a kernel cannot print `{}`; write a space between the braces";

pub(crate) const ELEMENTS_THEMSELVES: &str = "a thread's own elements come with their numbers: write `for (i, y) in y.each()`, or `for y in y.iter_mut()` without numbers";
pub(crate) const ELEMENT_WITH_NUMBER: &str = "`y.each()` gives each element with its number: write `for (i, y) in y.each() { *y = x[i]; }`, or `for y in y.iter_mut()` without numbers";

/// The remedy for an index of a view of this type.
pub(crate) fn index(view: &str) -> Option<&'static str> {
    Some(match view {
        "OwnElements" => {
            "a thread goes through the elements that are its own, which no other touches: `for (i, y) in y.each() { *y = x[i]; }`; elements that threads share are in `Atomics<T>`, and those of which nobody sees who touches them in `RawMut<T>`"
        }
        "OwnRows" => {
            "a thread goes through the rows that are its own, which no other touches: `for (i, row) in y.each() { row[0] = x[i]; }`"
        }
        "OwnBlockTile" => {
            "a thread goes through its own elements of its block's tile, which no other touches: `for (position, y) in y.each() { *y = 0.0; }`"
        }
        "SharedWrite" => {
            "between two barriers a thread writes its own elements of what its block shares, `sums.own()[0] = x[i];`, or all threads read all of it: `let sums = acc.sync(sums).await;`, and then `sums[i]`"
        }
        "Atomics" | "SharedAtomics" => {
            "other threads change these elements meanwhile, so each step is a call: `y.load(i)`, `y.store(i, value)`, `y.add(i, value)`"
        }
        "RawMut" | "SharedRaw" => {
            "nobody sees who touches these elements, so that is for you to know: `unsafe { y.read(i) }`, `unsafe { y.write(i, value) }`"
        }
        _ => return None,
    })
}

/// The remedy for a method that the kernel language does not have, of any type. Methods that users'
/// types may have, too, are refused by the types which they are natively of, in `emit/refused.rs`.
pub(crate) fn method(name: &str) -> Option<&'static str> {
    Some(match name {
        "to_string" | "to_owned" | "as_str" => STRINGS,
        "as_ptr" | "as_mut_ptr" => RAW_ADDRESS,
        _ => return None,
    })
}

/// The remedy for a call of an atomic's method that std's atomics have, and kernels' have not, or
/// that has arguments as std's.
pub(crate) fn atomic<'e>(
    name: &str,
    mut arguments: impl ExactSizeIterator<Item = &'e syn::Expr>,
) -> Option<&'static str> {
    let expected = match name {
        "load" => 1,
        "store" | "inc" | "dec" | "add" | "sub" | "min" | "max" | "and" | "or" | "xor"
        | "exchange" => 2,
        "compare_exchange" => 3,
        "swap" | "compare_exchange_weak" | "into_inner" | "get_mut" => return Some(ATOMIC_CALLS),
        name if name.starts_with("fetch_") => return Some(ATOMIC_CALLS),
        _ => return None,
    };
    let is_order = |argument: &syn::Expr| {
        let orders = ["Relaxed", "Acquire", "Release", "AcqRel", "SeqCst"];
        matches!(argument, syn::Expr::Path(path)
            if path.path.segments.last().is_some_and(|last| orders.iter().any(|name| last.ident == name)))
    };
    (arguments.len() != expected || arguments.any(is_order)).then_some(ATOMIC_CALLS)
}

/// The remedy for a call of a function of a type of std's that kernels do not have.
pub(crate) fn call(function: &syn::Expr) -> Option<&'static str> {
    let syn::Expr::Path(function) = function else {
        return None;
    };
    let mut names = function.path.segments.iter().rev();
    let (name, of) = (names.next()?, names.next()?);
    function_of(&of.ident.to_string(), &name.ident.to_string())
}

fn function_of(type_name: &str, name: &str) -> Option<&'static str> {
    let allocating = [
        "Box", "Rc", "Arc", "Vec", "VecDeque", "HashMap", "HashSet", "BTreeMap", "BTreeSet",
        "Cell", "RefCell", "Mutex",
    ];
    let is_number = type_name.starts_with(char::is_lowercase);
    Some(match (type_name, name) {
        _ if allocating.contains(&type_name) => ALLOCATED_VALUE,
        ("String", _) | (_, "from_str_radix" | "from_str") => STRINGS,
        ("char", _) => STRINGS,
        (_, "try_from") if is_number => MAY_NOT_FIT,
        _ => return None,
    })
}

/// True if a method of std's of this name takes a closure and goes over elements. Kernels know none
/// of these.
pub(crate) fn is_adapter(name: &str) -> bool {
    let names = [
        "fill_with",
        "flat_map",
        "filter_map",
        "skip_while",
        "map_while",
        "scan",
        "inspect",
        "sort_by",
        "sort_by_key",
        "sort_unstable_by",
        "sort_unstable_by_key",
        "binary_search_by",
        "partition_point",
        "reduce",
        "try_fold",
        "try_for_each",
        "find_map",
        "rposition",
        "partition",
        "is_sorted_by",
        "is_sorted_by_key",
    ];
    names.contains(&name)
}

/// The remedy for a macro.
pub(crate) fn macro_call(name: &str) -> String {
    match name {
        "panic" | "unreachable" | "todo" | "unimplemented" => {
            format!(
                "`{name}!` is not in the kernel language: kernels do not panic; use `assert!(condition, \"message\")`"
            )
        }
        "vec" => "memory is not allocated in kernels; use an array `[T; N]`".to_owned(),
        "format" => STRINGS.to_owned(),
        _ => format!("the macro `{name}!` is not in the kernel language; write what it stands for"),
    }
}
