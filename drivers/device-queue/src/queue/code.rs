//! Code of launches: asked for before they can go, compiled on threads of the host.

use super::ledger::Key;
use super::pump::Caller;
use crate::Shared;
use crate::error::of_device;
use crate::graph::TakenGraph;
use crate::launch::{Code, fit, likely_width, limit_blocks, one_element_each, width_of};
use crate::programs::{Found, ProgramId};
use crate::vendor::{Vendor, VendorDevice};
use quipu_kernel_ir::IndexWidth;
use quipu_scheduler::driver::CommandRef;
use quipu_scheduler::error::{ErrorKind, Result};
use quipu_scheduler::native::panicked;
use quipu_scheduler::operation::{Operation, drop_panic};
use quipu_scheduler::panics::quietly;
use quipu_scheduler::{
    Command, CommandView, DeviceKind, Error, Graph, KernelAttributes, Passed, PortableKernel, clock,
};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// The reason for which a launch's code is not there.
pub(super) enum Delay {
    Building,
    Never(Error),
}

/// A launch has no form that a device can run.
pub(super) fn native_code<V: Vendor>(kernel: &str) -> Error {
    ErrorKind::Unsupported {
        driver: V::NAME,
        what: format!("run '{kernel}', which is native code"),
        instead: V::INSTEAD,
    }
    .into()
}

impl<V: Vendor> Shared<V> {
    /// Asks a kernel for the parameters of a launch. That may run a user's code, as for the size of
    /// a block's shared memory. If it panics, the launch fails, and not the thread that happens to
    /// pump.
    pub(super) fn pass(
        &self,
        device: usize,
        portable: &dyn PortableKernel,
        command: &CommandView,
        passed: &mut Passed,
    ) -> Result<()> {
        let pass = AssertUnwindSafe(|| portable.pass(command.arguments(), passed));
        catch_unwind(pass).unwrap_or_else(|panic| Err(panicked(command.label(), panic)))?;
        let device = self.device(device);
        if passed.all_threads.is_empty() || device.text_features().non_uniform_blocks {
            return Ok(());
        }
        Err(ErrorKind::Unsupported {
            driver: V::NAME,
            what: format!("run blocks of several sizes on device '{}'", device.name()),
            instead: "make the number of threads a multiple of the block's, and have the kernel compare its number with what \
                      there is",
        }
        .into())
    }

    /// True if a launch's code is there, or cannot be, with indices of the width that it likely
    /// needs.
    pub(super) fn is_built(
        &self,
        device: usize,
        portable: &dyn PortableKernel,
        command: &Command,
    ) -> bool {
        let (key, width) = (portable.key(), likely_width(command.arguments()));
        self.programs.is_built(ProgramId { device, key, width })
    }

    /// Begins to compile a launch's code before the launch can go, with indices of the width that
    /// it likely needs.
    pub(super) fn prepare(self: &Arc<Self>, launch: Key) {
        let Some((device, held)) = self.ledger().of_launch(launch) else {
            return;
        };
        let look = |command: &Command| {
            let key = command.portable()?.key();
            let width = likely_width(command.arguments());
            Some(ProgramId { device, key, width })
        };
        // SAFETY: a launch whose code is not there is not finished.
        let found = match unsafe { held.with(look) } {
            Some(id) => self.find(id, launch, || Source::Launch(held)),
            None => return,
        };
        if let Found::Built(_) = found {
            self.ledger().built(launch);
        }
    }

    /// A program for a launch, which is compiled from now on if it was not.
    fn find(
        self: &Arc<Self>,
        id: ProgramId,
        launch: Key,
        source: impl FnOnce() -> Source,
    ) -> Found<V::Compiled> {
        let found = self.programs.find(id, launch);
        if let Found::Missing = found {
            let (shared, source) = (self.clone(), source());
            self.workers
                .run(Box::new(move || shared.compile(id, &source)));
        }
        found
    }

    /// Compiles a launch's code. Called on a thread of the host.
    fn compile(self: &Arc<Self>, id: ProgramId, source: &Source) {
        let device = self.device(id.device);
        let begun = clock::now_ns();
        let compile = |command: &CommandView| -> Result<_> {
            let portable = command
                .portable()
                .ok_or_else(|| native_code::<V>(command.label()))?;
            self.compiled(device, portable, id.width)
        };
        let guarded = AssertUnwindSafe(|| match source {
            // SAFETY: the launch is held until this has told of its code.
            Source::Launch(held) => unsafe { held.with(|command| compile(command)) },
            Source::Graph(graph, number) => with_command(graph, *number, compile),
        });
        let outcome = catch_unwind(guarded).unwrap_or_else(|panic| {
            drop_panic(panic);
            let what = "compile a kernel for it";
            Err(of_device(
                device.name(),
                what,
                "the compiler panicked".to_owned(),
            ))
        });
        let took = clock::now_ns() - begun;
        quietly(|| {
            tracing::debug!(
                device = device.name(),
                nanoseconds = took,
                ok = outcome.is_ok(),
                "compiled"
            );
        });
        let waiting = self.programs.built(id, outcome);
        {
            let mut ledger = self.ledger();
            for launch in waiting {
                ledger.built(launch);
            }
        }
        self.pump(Caller::Host);
    }

    /// A kernel's code, compiled here.
    fn compiled(
        &self,
        device: &V::Device,
        kernel: &dyn PortableKernel,
        width: IndexWidth,
    ) -> Result<Arc<V::Compiled>> {
        let mut outcome = None;
        kernel.while_compiling(&mut || {
            let compile = |code| self.vendor.compile(device, &code, width);
            outcome = Some(kernel.code().and_then(compile));
        });
        let never = || {
            let what = "compile a kernel for it";
            Err(of_device(device.name(), what, "nobody did".to_owned()))
        };
        outcome.unwrap_or_else(never).map(Arc::new)
    }

    /// The limits of a kernel on a device, with indices of 32 bits; compiled here, if it was not
    /// yet.
    pub(super) fn kernel_attributes(
        &self,
        device: usize,
        kernel: &dyn PortableKernel,
    ) -> Result<KernelAttributes> {
        let unsupported = || {
            Error::from(ErrorKind::Unsupported {
                driver: V::NAME,
                what: "say what a kernel is on its devices".to_owned(),
                instead: "take the limits of the device",
            })
        };
        if !V::SAYS_ATTRIBUTES {
            return Err(unsupported());
        }
        let id = ProgramId {
            device,
            key: kernel.key(),
            width: IndexWidth::Bits32,
        };
        let device = self.device(device);
        let outcome = self.programs.known_outcome(id).unwrap_or_else(|| {
            // A launch that waits for the same is told by the thread that compiles it for that.
            let outcome = self.compiled(device, kernel, id.width);
            self.programs.keep(id, &outcome);
            outcome
        });
        self.vendor
            .attributes(device, &*outcome?)
            .ok_or_else(unsupported)
    }

    /// The code of a launch, if the command is one that has any; writes its parameters to `passed`.
    pub(super) fn code_of(
        self: &Arc<Self>,
        launch: Key,
        device: usize,
        held: CommandRef,
        command: &Command,
        passed: &mut Passed,
    ) -> std::result::Result<Option<Arc<V::Compiled>>, Delay> {
        if let Operation::Graph(graph) = command.operation() {
            return self.codes_of(launch, graph).map(|()| None);
        }
        if command.groups() == 0 || !matches!(command.operation(), Operation::Launch { .. }) {
            return Ok(None);
        }
        let Some(portable) = command.portable() else {
            return Err(Delay::Never(native_code::<V>(command.label())));
        };
        self.pass(device, portable, command, passed)
            .map_err(Delay::Never)?;
        let width = width_of(command.arguments(), passed);
        let key = portable.key();
        let id = ProgramId { device, key, width };
        let compiled = match self.programs.known_program(id) {
            Some(compiled) => compiled,
            None => {
                // First, so that the thread that compiles it is not too early to say so.
                self.ledger().expect_code(launch);
                match self.find(id, launch, || Source::Launch(held)) {
                    Found::Built(outcome) => {
                        self.ledger().built(launch);
                        outcome.map_err(Delay::Never)?
                    }
                    Found::Building | Found::Missing => return Err(Delay::Building),
                }
            }
        };
        self.divide(device, &compiled, passed, command);
        Ok(Some(compiled))
    }

    /// Has a kernel's work divided as suits its code.
    pub(super) fn divide(
        &self,
        device: usize,
        compiled: &V::Compiled,
        passed: &mut Passed,
        command: &CommandView,
    ) {
        let device = self.device(device);
        let properties = device.properties();
        let threads = |passed: &Passed| passed.threads.iter().product();
        let most_blocks =
            |passed: &Passed| self.vendor.most_blocks(device, compiled, threads(passed));
        let is_gpu = properties.kind == DeviceKind::Gpu;
        if is_gpu && !self.vendor.reads_ahead(compiled) && most_blocks(passed).is_none() {
            one_element_each(passed, command.arguments(), properties.max_grid_blocks);
        }
        let most = properties.max_block_threads;
        let fitting = |asked| self.vendor.fitting_threads(device, compiled, asked);
        fit(passed, command.arguments(), most, fitting);
        if let Some(most) = most_blocks(passed) {
            limit_blocks(passed, most);
        }
    }

    /// Has the code of all launches of a graph that was taken, which the graph then keeps.
    fn codes_of(self: &Arc<Self>, launch: Key, graph: &Graph) -> std::result::Result<(), Delay> {
        let Some(taken) = TakenGraph::<V::Compiled>::of(graph) else {
            return Ok(());
        };
        if taken.has_codes() {
            return Ok(());
        }
        // First, so that a thread that compiles one is not too early to say so.
        self.ledger().expect_code(launch);
        let mut programs: HashMap<ProgramId, Option<Arc<V::Compiled>>> = HashMap::new();
        let mut codes = Vec::with_capacity(graph.len());
        let (mut number, mut problem) = (0, None);
        graph.for_each_command(|command, _| {
            let source = || Source::Graph(graph.clone(), number);
            if problem.is_none() {
                match self.code_within(launch, taken.device(), command, &mut programs, source) {
                    Ok(code) => codes.push(code),
                    Err(error) => problem = Some(error),
                }
            }
            number += 1;
        });
        if let Some(error) = problem {
            return Err(Delay::Never(error));
        }
        if programs.values().any(Option::is_none) {
            return Err(Delay::Building);
        }
        self.ledger().built(launch);
        taken.keep(codes);
        Ok(())
    }

    /// The code of a command of a graph, if it is a launch that does anything; none, too, if it is
    /// being compiled.
    fn code_within(
        self: &Arc<Self>,
        launch: Key,
        device: usize,
        command: &CommandView,
        programs: &mut HashMap<ProgramId, Option<Arc<V::Compiled>>>,
        source: impl FnOnce() -> Source,
    ) -> Result<Option<Code<V::Compiled>>> {
        let Operation::Launch { groups: 1.. } = command.operation() else {
            return Ok(None);
        };
        let portable = command
            .portable()
            .ok_or_else(|| native_code::<V>(command.label()))?;
        let mut passed = Passed::default();
        self.pass(device, portable, command, &mut passed)?;
        let id = ProgramId {
            device,
            key: portable.key(),
            width: width_of(command.arguments(), &passed),
        };
        let known = match programs.entry(id) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => place.insert(match self.find(id, launch, source) {
                Found::Built(outcome) => Some(outcome?),
                Found::Building | Found::Missing => None,
            }),
        };
        Ok(known.clone().map(|compiled| {
            self.divide(device, &compiled, &mut passed, command);
            Code { compiled, passed }
        }))
    }
}

/// The origin of the code of a program.
enum Source {
    /// A launch, which is held.
    Launch(CommandRef),
    /// The command of a graph that has this number.
    Graph(Graph, usize),
}

/// Looks at the command of a graph that has this number.
fn with_command<R>(
    graph: &Graph,
    number: usize,
    look: impl FnOnce(&CommandView) -> Result<R>,
) -> Result<R> {
    let (mut look, mut outcome, mut at) = (Some(look), None, 0);
    graph.for_each_command(|command, _| {
        if at == number {
            outcome = look.take().map(|look| look(command));
        }
        at += 1;
    });
    outcome.unwrap_or_else(|| {
        let what = "compile a recorded kernel for it";
        let message = format!("its graph has no command {number}");
        Err(of_device("a device", what, message))
    })
}
