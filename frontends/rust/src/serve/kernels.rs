//! The kernels that a program serves.

use super::taking::{Served, Taking, division};
use crate::device::Device;
use crate::kernel::{Call, Called, LaunchBody, Prepared};
use quipu_kernel::emit::ir::{Allowances, Module};
use quipu_kernel::{BuildError, Entry};
use quipu_kernel_names::native_name;
use quipu_node::native::Name;
use quipu_node::{Maker, Natives};
use quipu_scheduler::access::Argument;
use quipu_scheduler::operation::NativeKernel;
use quipu_scheduler::{CodeKey, Error, ErrorKind, Passed, PortableKernel, RawArgument, Result};
use std::any::{Any, TypeId};
use std::fmt;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};

/// The kernels that a program serves: clients that were built with the same ones launch them there.
///
/// A client's arguments are checked against a kernel's parameters, so safe kernels can be served as
/// they are. `unsafe` code in a kernel has to be right for any arguments.
///
/// ```
/// use quipu::prelude::*;
/// use quipu::serve::Kernels;
///
/// #[kernel]
/// fn scale<T: std::ops::Mul<Output = T>>(_acc: &impl Accelerator<1>, by: T, mut x: OwnElements<T>) {
///     for (_, x) in x.each() {
///         *x = *x * by;
///     }
/// }
///
/// let kernels = Kernels::new()
///     .with::<scale<f32>, _>()
///     .with::<scale<u64>, _>();
/// kernels.check()?;
/// # Ok::<(), quipu::Error>(())
/// ```
#[derive(Default)]
pub struct Kernels(Vec<Kernel>);

struct Kernel {
    name: &'static str,
    module: fn() -> std::result::Result<Module, BuildError>,
    /// The name by which clients know it, once that was asked for.
    known_as: OnceLock<Result<Name>>,
    maker: Maker,
}

impl Kernel {
    fn known_as(&self) -> &Result<Name> {
        self.known_as.get_or_init(|| {
            let named = (self.module)().map_err(|error| error.to_string());
            let named =
                named.and_then(|module| native_name(&module).map_err(|error| error.to_string()));
            named.map_err(|message| {
                ErrorKind::Kernel {
                    what: format!("naming kernel '{}', which is to be served", self.name),
                    message,
                }
                .into()
            })
        })
    }
}

impl Kernels {
    /// None.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// With a kernel, by its type: `.with::<saxpy, _>()`, of a generic one with the types that it
    /// is called with. The second parameter is how many dimensions it has, which the compiler
    /// knows.
    #[must_use]
    pub fn with<K, const D: usize>(mut self) -> Self
    where
        K: Entry<D, Parameters: Served<D>>,
    {
        self.0.push(Kernel {
            name: K::NAME,
            module: K::module,
            known_as: OnceLock::new(),
            maker: Arc::new(make::<K, D>),
        });
        self
    }

    /// With the kernel of a call, for those whose types have no name, as a
    /// [`kernel_closure!`](crate::prelude::kernel_closure)'s. The call is never made: its type says
    /// which arguments it would have.
    ///
    /// ```
    /// use quipu::prelude::*;
    /// use quipu::serve::Kernels;
    ///
    /// macro_rules! offset {
    ///     ($by:expr) => {
    ///         kernel_closure!([by: f32 = $by] |_acc: &impl Accelerator<1>, mut y: OwnElements<f32>| {
    ///             for (_, y) in y.each() {
    ///                 *y += by;
    ///             }
    ///         })
    ///     };
    /// }
    ///
    /// let kernels = Kernels::new().with_that_of(|any| offset!(1.0).call(any.of::<&mut Buffer<f32>>()));
    /// assert_eq!(kernels.len(), 1);
    /// ```
    #[must_use]
    pub fn with_that_of<K, A, const D: usize>(
        self,
        call: impl FnOnce(Unpassed) -> Call<K, A, D>,
    ) -> Self
    where
        K: Entry<D, Parameters: Served<D>>,
    {
        let _ = call;
        self.with::<K, D>()
    }

    /// With all of others.
    #[must_use]
    pub fn and(mut self, others: Self) -> Self {
        self.0.extend(others.0);
        self
    }

    /// The number of kernels.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Finds out the names by which clients know them.
    ///
    /// # Errors
    /// If one has no source, by which it would be known: says which part of it, and where.
    pub fn check(&self) -> Result<()> {
        self.0
            .iter()
            .try_for_each(|kernel| match kernel.known_as() {
                Ok(_) => Ok(()),
                Err(error) => Err(error.clone()),
            })
    }
}

impl fmt::Debug for Kernels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.0.iter().map(|kernel| kernel.name))
            .finish()
    }
}

impl Natives for Kernels {
    fn find(&self, name: &Name) -> Option<Maker> {
        let is_it = |kernel: &&Kernel| kernel.known_as().as_ref().is_ok_and(|it| it == name);
        self.0.iter().find(is_it).map(|kernel| kernel.maker.clone())
    }
}

/// An argument of a call that is never made: there is no value of it. See
/// [`Kernels::with_that_of`].
#[derive(Clone, Copy, Debug)]
pub enum Unpassed {}

impl Unpassed {
    /// An argument of this type.
    #[must_use]
    pub fn of<T>(self) -> T {
        match self {}
    }
}

/// Makes a client's launch of a kernel.
fn make<K, const D: usize>(launch: &quipu_node::Launch<'_>) -> Result<Box<dyn NativeKernel>>
where
    K: Entry<D, Parameters: Served<D>>,
{
    let invalid = |problem| -> Error {
        ErrorKind::InvalidArgument {
            what: "launch a kernel of the node's program",
            problem,
        }
        .into()
    };
    let mut from = Taking::new(launch.parameters)?;
    let kept = <K::Parameters as Served<D>>::take(&mut from)?;
    from.finish()?;
    let passed = launch.passed;
    if passed.shared.len() != K::SHARED {
        return Err(invalid(format!(
            "kernel '{}' has {} shared arrays, and the launch {}",
            K::NAME,
            K::SHARED,
            passed.shared.len()
        )));
    }
    let division = division::<D>([&passed.blocks, &passed.threads, &passed.elements])?;
    let limits = Device::of_core(launch.device.clone()).shared_limits();
    division
        .validate(limits)
        .map_err(|error| invalid(format!("kernel '{}': {error}", K::NAME)))?;
    let has_its_blocks = K::BOUNDS.check(K::NAME, &division);
    has_its_blocks.map_err(|error| invalid(error.to_string()))?;
    Ok(Box::new(ClientLaunch {
        body: LaunchBody {
            prepared: Called::<K, _>::new(kept),
            division,
            limits,
            automatic: false,
            allowances: Allowances::default(),
        },
    }))
}

/// A launch by a client.
struct ClientLaunch<P, const D: usize> {
    body: LaunchBody<P, D>,
}

impl<P: Prepared<D>, const D: usize> NativeKernel for ClientLaunch<P, D> {
    fn name(&self) -> &'static str {
        self.body.name()
    }

    unsafe fn begin(&self, arguments: &[RawArgument]) -> Result<()> {
        // SAFETY: `NativeKernel::begin` asks its caller for the same.
        unsafe { self.body.begin(arguments) }
    }

    unsafe fn run(&self, arguments: &[RawArgument], groups: Range<u32>) -> Result<()> {
        // SAFETY: `NativeKernel::run` asks its caller for the same.
        unsafe { self.body.run(arguments, groups) }
    }

    fn portable(&self) -> Option<&dyn PortableKernel> {
        self.body.portable().map(|_| self as &dyn PortableKernel)
    }

    fn serves_many_launches(&self) -> bool {
        true
    }
}

// SAFETY: all that it gives is its body's, which keeps the contract.
unsafe impl<P: Prepared<D>, const D: usize> PortableKernel for ClientLaunch<P, D> {
    fn key(&self) -> CodeKey {
        self.body.key()
    }

    fn code_type(&self) -> TypeId {
        self.body.code_type()
    }

    fn code(&self) -> Result<Arc<dyn Any + Send + Sync>> {
        self.body.code()
    }

    fn pass(&self, arguments: &[Argument<'_>], passed: &mut Passed) -> Result<()> {
        // The lengths of shared arrays are computed by code of the program's, from the client's
        // arguments.
        catch_unwind(AssertUnwindSafe(|| self.body.pass(arguments, passed))).unwrap_or_else(|_| {
            Err(ErrorKind::Panicked {
                what: format!("kernel '{}'", self.name()),
                message: "the lengths of its shared arrays cannot be computed".to_owned(),
            }
            .into())
        })
    }
}
