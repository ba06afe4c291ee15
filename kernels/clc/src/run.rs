//! Runs work-groups of a compiled kernel on the calling thread.

use crate::client::ClcError;
use crate::compiler::{ENTRY, NUMBERS, PLACE, TABLE, place_of_arguments};
use crate::image::Image;
use crate::metadata::{KernelInfo, Layout, MOST_GROUP_BYTES, ParameterKind};
use crate::output::PlainLocale;
use quipu_threads::UsualArithmetic;
use std::cell::RefCell;
use std::ffi::c_void;
use std::fmt;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// The alignment of local memory, arguments and memory that is kept: the largest type of OpenCL C.
const ALIGNMENT: usize = 128;
/// Work-items along an axis of a window, and of a kernel that is not wide the greatest number of
/// one.
const MOST_ITEMS: u64 = i32::MAX as u64;

type Entry = unsafe extern "C" fn(*const u8, *const u64, *mut u8, *mut u8, u64, u64);

/// The division of a launch, along x, y and z.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// The number of its dimensions.
    pub dimensions: u32,
    /// The global number of the first work-item.
    pub offset: [u64; 3],
    global_size: [u64; 3],
    local_size: [u32; 3],
    // Told by the sizes; launches are not to divide.
    groups: [u64; 3],
    last_size: [u32; 3],
}

/// Groups of a launch along each axis, and some of them.
struct Window {
    /// The first group.
    first: [u64; 3],
    groups: [u64; 3],
    /// Numbers within the window, with x first.
    numbers: Range<u64>,
}

impl Grid {
    /// So many work-items, in groups of so many. The last group along an axis has fewer if they do
    /// not divide the work-items evenly.
    #[must_use]
    pub fn new(dimensions: u32, global_size: [u64; 3], local_size: [u32; 3]) -> Self {
        let along = |axis: usize| (global_size[axis], local_size[axis].max(1));
        Self {
            dimensions,
            offset: [0; 3],
            global_size,
            local_size,
            groups: std::array::from_fn(|axis| {
                let (all, size) = along(axis);
                all.div_ceil(size.into())
            }),
            last_size: std::array::from_fn(|axis| {
                let (all, size) = along(axis);
                // Less than the size.
                match (all % u64::from(size)) as u32 {
                    0 => local_size[axis],
                    rest => rest,
                }
            }),
        }
    }

    /// Work-items along each axis.
    #[must_use]
    pub fn global_size(&self) -> [u64; 3] {
        self.global_size
    }

    /// Work-items along each axis of a group that is not the last.
    #[must_use]
    pub fn local_size(&self) -> [u32; 3] {
        self.local_size
    }

    /// Work-groups along each axis.
    #[must_use]
    pub fn groups(&self) -> [u64; 3] {
        self.groups
    }

    /// True if all groups have the same size.
    #[must_use]
    pub fn is_uniform(&self) -> bool {
        self.last_size == self.local_size
    }

    /// True if some group has as many work-items as was asked for.
    pub(crate) fn has_full_groups(&self) -> bool {
        (0..3).all(|axis| self.global_size[axis] >= u64::from(self.local_size[axis]))
    }

    /// True if the kernel [compiled for](crate::Program::compile_for_grid) one launch is the one
    /// for the other, too.
    #[must_use]
    pub fn shares_kernel_with(&self, other: &Self) -> bool {
        let kind = |grid: &Self| (grid.is_wide(), grid.is_uniform(), grid.has_full_groups());
        self.local_size == other.local_size && kind(self) == kind(other)
    }

    /// Some of the groups, in runs of one size each.
    fn runs(&self, groups: Range<u64>) -> impl Iterator<Item = ([u32; 3], Range<u64>)> + use<> {
        let (along, full, last) = (self.groups, self.local_size, self.last_size);
        // A run goes along this axis until it is at its last group; until the end, if all have one
        // size.
        let axis = (0..3).find(|axis| full[*axis] != last[*axis]);
        let end = groups.end;
        let mut next = groups.start;
        std::iter::from_fn(move || {
            let first = next;
            if first >= end {
                return None;
            }
            let Some(axis) = axis else {
                next = end;
                return Some((full, first..end));
            };
            let mut rest = first;
            let size = std::array::from_fn(|axis| {
                let at = rest % along[axis];
                rest /= along[axis];
                let is_last = at + 1 == along[axis];
                if is_last { last[axis] } else { full[axis] }
            });
            let stride = along[..axis].iter().product::<u64>();
            let row = first / stride;
            let to_last = row - row % along[axis] + along[axis] - 1;
            let until = if row < to_last { to_last } else { to_last + 1 };
            next = end.min(until * stride);
            Some((size, first..next))
        })
    }

    /// Some of the groups, in windows that have few enough work-items along each axis for kernels
    /// to count. All are in one window, unless an axis is too long.
    fn windows(&self, groups: Range<u64>) -> impl Iterator<Item = Window> + use<> {
        let (along, size) = (self.groups, self.local_size);
        let axis = (0..3).find(|axis| self.global_size[*axis] > MOST_ITEMS);
        let end = groups.end;
        let mut next = groups.start;
        std::iter::from_fn(move || {
            let start = next;
            if start >= end {
                return None;
            }
            let Some(axis) = axis else {
                next = end;
                return Some(Window {
                    first: [0; 3],
                    groups: along,
                    numbers: start..end,
                });
            };
            // Shorter axes are whole in it, and it has one group along longer ones that follow.
            let stride = along[..axis].iter().product::<u64>();
            let row = start / stride;
            let mut first = [0; 3];
            let mut rest = row;
            for (first, along) in first.iter_mut().zip(along).skip(axis) {
                *first = rest % along;
                rest /= along;
            }
            let most = MOST_ITEMS / u64::from(size[axis].max(1));
            let count = most.min(along[axis] - first[axis]);
            let base = row * stride;
            next = end.min(base + count * stride);
            Some(Window {
                first,
                groups: std::array::from_fn(|other| match other.cmp(&axis) {
                    std::cmp::Ordering::Less => along[other],
                    std::cmp::Ordering::Equal => count,
                    std::cmp::Ordering::Greater => 1,
                }),
                numbers: start - base..next - base,
            })
        })
    }

    /// True if numbers of work-items have more bits than kernels count them with: then they are
    /// counted from the first work-item of a window.
    #[must_use]
    pub fn is_wide(&self) -> bool {
        let mut axes = self.global_size.into_iter().zip(self.offset);
        axes.any(|(size, offset)| size.saturating_add(offset) > MOST_ITEMS)
    }

    /// Work-items of a group.
    fn items(&self) -> u64 {
        self.local_size
            .iter()
            .map(|size| u64::from(*size))
            .product()
    }
}

/// An argument for a parameter.
#[derive(Clone, Copy, Debug)]
pub enum Argument<'a> {
    /// A value's bytes.
    Value(&'a [MaybeUninit<u8>]),
    /// Memory that all work-items reach, of so many bytes.
    Memory(*mut u8, usize),
    /// An address in memory that all work-items reach. How much they reach, and on which side of
    /// it, is not known.
    Address(*mut u8),
    /// So many bytes of each work-group's memory.
    Local(u64),
    /// An image.
    Image(&'a Image),
}

/// Bytes of the arguments that are local memory.
fn locals<'a>(arguments: &'a [Argument<'_>]) -> impl Iterator<Item = u64> + Clone + 'a {
    arguments.iter().filter_map(|argument| match argument {
        Argument::Local(bytes) => Some(*bytes),
        _ => None,
    })
}

/// A kernel that is compiled and loaded.
pub struct Kernel {
    info: KernelInfo,
    layout: Layout,
    entry: Entry,
    /// It takes launches that are [wide](Grid::is_wide), too.
    is_wide: bool,
    /// It takes work-groups of any size.
    is_general: bool,
    /// The kernel that runs the groups that are smaller than others of their launch, where this
    /// takes one size alone.
    edges: OnceLock<Arc<Kernel>>,
    /// The place of each argument, and the bytes of all.
    places: (Vec<u64>, u64),
    _library: Loaded,
    /// The variables that it shares with other kernels of its program.
    _variables: Option<Arc<Variables>>,
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Kernel").field(&self.info.name).finish()
    }
}

thread_local! {
    /// This thread's memory for the groups that it runs.
    static SCRATCH: RefCell<Vec<Line>> = const { RefCell::new(Vec::new()) };
}

/// Memory in whole lines.
#[derive(Clone, Copy)]
#[repr(align(128))]
struct Line {
    _bytes: [MaybeUninit<u8>; ALIGNMENT],
}

impl Kernel {
    /// Loads a shared object.
    pub(crate) fn load(
        info: KernelInfo,
        layout: Layout,
        object: &[u8],
        variables: Option<Arc<Variables>>,
        is_wide: bool,
        is_general: bool,
    ) -> Result<Self, ClcError> {
        let library = Loaded::new(object)?;
        if let Some(variables) = &variables {
            variables.show(&library);
        }
        // SAFETY: the compiler makes the function of this type.
        let entry = unsafe { library.library.get::<Entry>(ENTRY.as_bytes()) };
        let entry = *entry.map_err(|error| ClcError::Failed(error.to_string()))?;
        let places = place_of_arguments(info.parameters.iter().map(
            |parameter| match parameter.kind {
                ParameterKind::Value { size, align } => (u64::from(size), u64::from(align)),
                ParameterKind::Sampler => (4, 4),
                _ => (8, 8),
            },
        ));
        Ok(Self {
            info,
            layout,
            entry,
            is_wide,
            is_general,
            edges: OnceLock::new(),
            places,
            _library: library,
            _variables: variables,
        })
    }

    /// Its description.
    #[must_use]
    pub fn info(&self) -> &KernelInfo {
        &self.info
    }

    /// Bytes of a work-group's memory that it declares itself, without those of its arguments.
    #[must_use]
    pub fn local_bytes(&self) -> u64 {
        self.layout.local_bytes
    }

    /// The kernel that runs groups of another size than this was compiled for.
    fn for_edges(&self) -> Option<&Self> {
        match self.is_general {
            true => Some(self),
            false => self.edges.get().map(Arc::as_ref),
        }
    }

    /// True if it takes launches whose groups have several sizes.
    pub(crate) fn takes_edges(&self) -> bool {
        self.for_edges().is_some()
    }

    /// Has it take such launches, whose smaller groups another kernel runs.
    pub(crate) fn set_edges(&self, edges: Arc<Self>) {
        let _ = self.edges.set(edges);
    }

    /// Looks whether it can be launched so.
    ///
    /// # Errors
    /// If an argument does not fit its parameter, or something is too large.
    pub fn check(&self, grid: &Grid, arguments: &[Argument<'_>]) -> Result<(), ClcError> {
        let name = &self.info.name;
        let bad = |problem: String| Err(ClcError::Launch(format!("kernel '{name}' {problem}")));
        let wanted = self.info.parameters.len();
        if arguments.len() != wanted {
            return bad(format!(
                "has {wanted} parameters, and {} arguments are passed",
                arguments.len()
            ));
        }
        for (number, (parameter, argument)) in
            self.info.parameters.iter().zip(arguments).enumerate()
        {
            let fits = match (parameter.kind, argument) {
                (ParameterKind::Value { size, .. }, Argument::Value(bytes)) => {
                    bytes.len() == size as usize
                }
                (ParameterKind::Sampler, Argument::Value(bytes)) => bytes.len() == 4,
                (ParameterKind::Memory(_), Argument::Memory(..) | Argument::Address(_))
                | (ParameterKind::Image(_), Argument::Image(_))
                | (ParameterKind::Local, Argument::Local(_)) => true,
                _ => false,
            };
            if !fits {
                let given = match argument {
                    Argument::Value(bytes) => format!("a value of {} bytes", bytes.len()),
                    Argument::Memory(..) | Argument::Address(_) => "a buffer".to_owned(),
                    Argument::Local(_) => "local memory".to_owned(),
                    Argument::Image(_) => "an image".to_owned(),
                };
                return bad(format!(
                    "takes `{} {}` as argument {number}, and {given} is passed",
                    parameter.type_name, parameter.name
                ));
            }
        }
        if !grid.is_uniform() && !self.takes_edges() {
            return bad("was compiled for work-groups of one size".to_owned());
        }
        let most = if self.is_wide { u64::MAX } else { MOST_ITEMS };
        for (size, offset) in grid.global_size.into_iter().zip(grid.offset) {
            let end = size.checked_add(offset);
            if end.is_none_or(|end| end > most) {
                return bad(format!(
                    "is launched with {size} work-items from number {offset} on along an axis; at most {most} fit"
                ));
            }
        }
        self.check_room(grid, locals(arguments))
    }

    /// Looks whether there is memory for a work-group, with so many bytes for each argument that is
    /// local memory.
    ///
    /// # Errors
    /// If a work-group takes more than there may be.
    pub fn check_room(
        &self,
        grid: &Grid,
        locals: impl Iterator<Item = u64> + Clone,
    ) -> Result<(), ClcError> {
        let bytes = self.bytes(grid, locals);
        if bytes <= MOST_GROUP_BYTES {
            return Ok(());
        }
        Err(ClcError::Launch(format!(
            "kernel '{}' needs {bytes} bytes for a work-group of {} work-items, and {MOST_GROUP_BYTES} are the most; make the \
             groups smaller",
            self.info.name,
            grid.items()
        )))
    }

    fn spill(&self, grid: &Grid) -> u64 {
        let items = self
            .layout
            .spill_bytes_per_item
            .saturating_mul(grid.items());
        items.saturating_add(self.layout.spill_bytes)
    }

    /// Bytes that a group of a launch takes.
    fn bytes(&self, grid: &Grid, locals: impl Iterator<Item = u64> + Clone) -> u64 {
        let own = self.bytes_of_group(grid, locals.clone());
        match self.for_edges().filter(|_| !grid.is_uniform()) {
            Some(edges) => own.max(edges.bytes_of_group(grid, locals)),
            None => own,
        }
    }

    fn bytes_of_group(&self, grid: &Grid, locals: impl Iterator<Item = u64>) -> u64 {
        let local = locals.fold(self.layout.local_bytes, |sum, bytes| {
            let lines = bytes.div_ceil(ALIGNMENT as u64);
            sum.saturating_add(lines.saturating_mul(ALIGNMENT as u64))
        });
        // Local memory may be read a vector beyond its end by nobody, but be asked for as none at
        // all.
        local
            .saturating_add(self.spill(grid))
            .saturating_add(self.places.1)
            .saturating_add(3 * ALIGNMENT as u64)
    }

    /// Runs work-groups, numbered with x first, then y, then z.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    ///
    /// # Safety
    /// The kernel stays within its arguments, which are valid for what it does with them, and other
    /// threads do nothing to them meanwhile that races with it. No group of a launch runs twice.
    pub unsafe fn run(
        &self,
        grid: &Grid,
        arguments: &[Argument<'_>],
        groups: Range<u64>,
    ) -> Result<(), ClcError> {
        self.check(grid, arguments)?;
        let bytes = self.bytes(grid, locals(arguments)) as usize;
        let run = |scratch: &mut Vec<Line>| {
            let lines = bytes.div_ceil(ALIGNMENT);
            if scratch.len() < lines {
                scratch.resize(
                    lines,
                    Line {
                        _bytes: [MaybeUninit::uninit(); ALIGNMENT],
                    },
                );
            }
            for (size, groups) in grid.runs(groups.clone()) {
                let kernel = match self.for_edges() {
                    Some(edges) if size != grid.local_size => edges,
                    _ => self,
                };
                for window in grid.windows(groups) {
                    let scratch = scratch.as_mut_ptr().cast();
                    // SAFETY: the arguments are the launch's (this function's contract), and there
                    // are as many bytes.
                    unsafe { kernel.run_in(grid, size, arguments, &window, scratch) };
                }
            }
        };
        let ran = SCRATCH.try_with(|scratch| match scratch.try_borrow_mut() {
            Ok(mut scratch) => {
                run(&mut scratch);
                true
            }
            Err(_) => false,
        });
        if ran != Ok(true) {
            run(&mut Vec::new());
        }
        Ok(())
    }

    /// True if what the kernel writes to through one argument is known to be no other's memory.
    fn are_apart(&self, arguments: &[Argument<'_>]) -> bool {
        let extent = |argument: &Argument<'_>| match argument {
            Argument::Memory(start, bytes) => Some((start.addr(), start.addr() + bytes)),
            Argument::Address(address) if address.is_null() => Some((0, 0)),
            Argument::Address(_) => Some((0, usize::MAX)),
            _ => None,
        };
        let writes = |at: usize| match self.info.parameters[at].kind {
            ParameterKind::Memory(access) => access.writes(),
            _ => false,
        };
        let all = || arguments.iter().enumerate();
        all().filter(|(at, _)| writes(*at)).all(|(at, written)| {
            extent(written).is_none_or(|(start, end)| {
                all().filter(|(other, _)| *other != at).all(|(_, other)| {
                    extent(other).is_none_or(|(first, last)| last <= start || end <= first)
                })
            })
        })
    }

    /// Lays out arguments, local memory and what is kept, in this order, and calls the function for
    /// groups of a size in a window.
    ///
    /// # Safety
    /// As [`run`](Self::run); the memory is of [`bytes`](Self::bytes), aligned as a line, and
    /// nobody else's.
    unsafe fn run_in(
        &self,
        grid: &Grid,
        size: [u32; 3],
        arguments: &[Argument<'_>],
        window: &Window,
        memory: *mut u8,
    ) {
        let (places, end) = &self.places;
        // SAFETY: within the memory, as `bytes` counts.
        let local = unsafe { memory.add(*end as usize) };
        let mut local_end = self.layout.local_bytes.next_multiple_of(ALIGNMENT as u64);
        for (argument, place) in arguments.iter().zip(places) {
            let address;
            let bytes: &[MaybeUninit<u8>] = match argument {
                Argument::Value(bytes) => bytes,
                Argument::Memory(memory, _) | Argument::Address(memory) => {
                    address = memory
                        .expose_provenance()
                        .to_ne_bytes()
                        .map(MaybeUninit::new);
                    &address
                }
                Argument::Image(image) => {
                    address = std::ptr::from_ref(*image)
                        .expose_provenance()
                        .to_ne_bytes()
                        .map(MaybeUninit::new);
                    &address
                }
                Argument::Local(bytes) => {
                    // SAFETY: as above.
                    let start = unsafe { local.add(local_end as usize) };
                    local_end += bytes.next_multiple_of(ALIGNMENT as u64);
                    address = start
                        .expose_provenance()
                        .to_ne_bytes()
                        .map(MaybeUninit::new);
                    &address
                }
            };
            // SAFETY: the place has as many bytes, which `check` has compared.
            unsafe {
                let to = memory.add(*place as usize).cast::<MaybeUninit<u8>>();
                to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
            }
        }
        // SAFETY: as above.
        let spill = unsafe { local.add(local_end as usize) };
        let mut info = [0; NUMBERS];
        info[..3].copy_from_slice(&grid.global_size);
        if self.is_wide {
            let first = |axis: usize| window.first[axis] * u64::from(grid.local_size[axis]);
            info[14..17].copy_from_slice(&[0, 1, 2].map(|axis| grid.offset[axis] + first(axis)));
            info[20..23].copy_from_slice(&window.first);
            info[23..26].copy_from_slice(&grid.groups);
            info[26..29].copy_from_slice(&grid.offset);
        } else {
            info[3..6].copy_from_slice(&grid.offset);
        }
        info[6..9].copy_from_slice(&size.map(u64::from));
        info[9..12].copy_from_slice(&window.groups);
        info[12] = u64::from(grid.dimensions);
        info[13] = spill.expose_provenance() as u64 + self.spill(grid);
        info[17..20].copy_from_slice(&grid.local_size.map(u64::from));
        info[29] = u64::from(self.are_apart(arguments));
        let _usual = UsualArithmetic::enter();
        let printing = self.layout.prints.then(PlainLocale::enter);
        // SAFETY: the arguments are valid for these groups (this function's contract); the layout
        // is the one that the code was compiled for.
        unsafe {
            (self.entry)(
                memory,
                info.as_ptr(),
                local,
                spill,
                window.numbers.start,
                window.numbers.end,
            )
        };
        if printing.is_some() {
            // The work-groups that ran may be a command's last.
            crate::output::flush();
        }
    }
}

/// The variables that the kernels of a program share, loaded.
pub(crate) struct Variables {
    /// Addresses of them all.
    table: *const c_void,
    _library: Loaded,
}

// SAFETY: the table is never written to. What kernels do to the variables is theirs to order, as
// with all memory.
unsafe impl Send for Variables {}
// SAFETY: as for `Send`.
unsafe impl Sync for Variables {}

impl Variables {
    /// Loads a shared object.
    pub(crate) fn load(object: &[u8]) -> Result<Self, ClcError> {
        let library = Loaded::new(object)?;
        // SAFETY: a name's address is that of the table, which is not looked at here.
        let table = unsafe { library.library.get::<*const c_void>(TABLE.as_bytes()) };
        let table = table.map_err(|error| not_loaded(&error))?;
        // SAFETY: the library is kept as long as the address.
        let table = unsafe { table.try_as_raw_ptr() };
        let table = table.ok_or_else(|| not_loaded(&"it has no table of variables"))?;
        Ok(Self {
            table,
            _library: library,
        })
    }

    /// Has a kernel find them, if it uses any.
    fn show(&self, kernel: &Loaded) {
        // SAFETY: the compiler makes it a pointer.
        let Ok(place) = (unsafe { kernel.library.get::<*mut *const c_void>(PLACE.as_bytes()) })
        else {
            return;
        };
        // SAFETY: the kernel has just been loaded, so nothing else knows of it.
        unsafe { place.write(self.table) };
    }
}

/// Code that is loaded: from a file without a name where the system has such and lets this process
/// make and find one, else from a file for as long as it takes to load it. Neither is open
/// afterwards.
struct Loaded {
    library: libloading::Library,
    /// The file, on Linux, where a node counts a file that is mapped and cannot be found as one
    /// that hides what it holds.
    _file: Option<Removed>,
}

/// A file that is removed when this is dropped.
struct Removed(PathBuf);

impl Drop for Removed {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Loaded {
    fn new(object: &[u8]) -> Result<Self, ClcError> {
        #[cfg(target_os = "linux")]
        mathematics();
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the code was made by the compiler, and has no initialisers.
        let load = |path: &Path| unsafe { libloading::Library::new(path) };
        // Where `/proc` is not mounted, nothing finds a file without a name.
        let of_nameless = nameless(object, number).and_then(|(path, _file)| load(&path).ok());
        if let Some(library) = of_nameless {
            return Ok(Self {
                library,
                _file: None,
            });
        }
        let named = Removed(named(object, number)?);
        let library = load(&named.0).map_err(|error| not_loaded(&error))?;
        Ok(Self {
            library,
            _file: Some(named).filter(|_| cfg!(target_os = "linux")),
        })
    }
}

fn not_loaded(error: &dyn fmt::Display) -> ClcError {
    ClcError::Failed(format!("its code is not loaded: {error}"))
}

/// A file without a name that holds the code, and a path to it that no file of another number has.
#[cfg(target_os = "linux")]
fn nameless(object: &[u8], number: u64) -> Option<(PathBuf, std::fs::File)> {
    use std::io::Write;
    use std::os::fd::{AsRawFd, FromRawFd};
    // SAFETY: a name that ends with a zero.
    let made = unsafe { libc::memfd_create(c"quipu-clc".as_ptr(), libc::MFD_CLOEXEC) };
    if made < 0 {
        return None;
    }
    // SAFETY: it was just made, and is nobody else's.
    let mut file = unsafe { std::fs::File::from_raw_fd(made) };
    file.write_all(object).ok()?;
    // The loader knows libraries by their paths as they are written, and the next file may have
    // this one's descriptor.
    let number: String = format!("{number:b}")
        .chars()
        .map(|digit| if digit == '0' { "/." } else { "//." })
        .collect();
    let path = format!("/proc/self{number}/fd/{}", file.as_raw_fd());
    Some((path.into(), file))
}

#[cfg(not(target_os = "linux"))]
fn nameless(_object: &[u8], _number: u64) -> Option<(PathBuf, std::fs::File)> {
    None
}

/// A file that holds the code, which nobody else can have made before.
fn named(object: &[u8], number: u64) -> Result<PathBuf, ClcError> {
    use std::io::Write;
    let name = format!("quipu-kernel-{}-{number}.so", std::process::id());
    let path = std::env::temp_dir().join(name);
    // Left over from a process that had the same number and was killed.
    let _ = std::fs::remove_file(&path);
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let made = options.open(&path);
    made.and_then(|mut file| file.write_all(object))
        .map_err(|error| not_loaded(&error))?;
    Ok(path)
}

/// Has the system's mathematical functions be there for code that is loaded.
#[cfg(target_os = "linux")]
fn mathematics() {
    use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
    static LOADED: std::sync::OnceLock<Option<Library>> = std::sync::OnceLock::new();
    // SAFETY: the system's own library.
    LOADED.get_or_init(|| unsafe { Library::open(Some("libm.so.6"), RTLD_NOW | RTLD_GLOBAL) }.ok());
}
