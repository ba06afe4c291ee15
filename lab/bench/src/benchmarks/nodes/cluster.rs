//! Several nodes, each of which offers a device of its own; and these devices without nodes.
//!
//! A node's session has a process of its own, which is this program, started anew
//! ([`serve_session`]), where the user of this crate says how
//! ([`Options::sessions`](crate::harness::Options::sessions)) and the system has such. Such a
//! process sees no other of CUDA's devices than the one that it offers.

use super::add::makers;
use super::{Doing, Hosted, together};
use crate::benchmarks::devices::id;
use crate::error::{BenchError, SubjectError};
use crate::harness::{Machine, Session};
use crate::kernels;
use crate::reference::network::Way;
use quipu::drivers::Options as CpuOptions;
use quipu::drivers::sources::{Options as SourceOptions, Source};
use quipu::serve::Kernels;
use quipu::{Device, DeviceKind, Platform};
use quipu_node::native::Name;
use quipu_node::{Maker, Natives};
use quipu_scheduler::Driver;
use std::collections::HashMap;
use std::fmt;
use std::num::NonZero;
use std::str::FromStr;
use std::sync::Arc;

/// The variable that says which devices CUDA's driver sees.
#[cfg(target_os = "linux")]
const VISIBLE: &str = "CUDA_VISIBLE_DEVICES";

/// The offer of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Offer {
    /// So many workers on this machine's cores.
    Workers(NonZero<usize>),
    /// A device of this machine, by its driver's name and its number there.
    Device(String, usize),
    /// A camera, which gives synthetic pictures of so many pixels as JPEG.
    Camera(u32, u32),
    /// A decoder.
    Decoder,
}

impl fmt::Display for Offer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Workers(count) => write!(f, "workers={count}"),
            Self::Device(driver, number) => write!(f, "{driver}:{number}"),
            Self::Camera(width, height) => write!(f, "camera={width}x{height}"),
            Self::Decoder => f.write_str("decoder"),
        }
    }
}

impl FromStr for Offer {
    type Err = BenchError;

    fn from_str(text: &str) -> Result<Self, BenchError> {
        let workers = text.strip_prefix("workers=");
        let workers = workers.and_then(|count| count.parse().ok());
        let device = || {
            let (driver, number) = text.split_once(':')?;
            Some(Self::Device(driver.to_owned(), number.parse().ok()?))
        };
        let camera = || {
            let (width, height) = text.strip_prefix("camera=")?.split_once('x')?;
            Some(Self::Camera(width.parse().ok()?, height.parse().ok()?))
        };
        let decoder = (text == "decoder").then_some(Self::Decoder);
        let offer = workers.map(Self::Workers).or(decoder);
        let offer = offer.or_else(camera).or_else(device);
        offer.ok_or_else(|| BenchError::UnknownDevice {
            asked: text.to_owned(),
            known: "workers=1, cuda:0 and the like".to_owned(),
        })
    }
}

/// The offers of nodes, one each.
#[derive(Debug)]
pub(super) struct Set {
    /// For the device column.
    pub(super) name: String,
    /// For the column of workers: of each.
    pub(super) workers: usize,
    pub(super) offers: Vec<Offer>,
}

/// All devices here.
fn here() -> Platform {
    Platform::builder().without_nodes().build_available()
}

/// The sets that the user chose: of each driver that was named, and of all single devices together.
/// Without any: the cores, and CUDA's devices, if there are several.
pub(super) fn chosen(session: &Session<'_>) -> Result<Vec<Set>, BenchError> {
    let platform = here();
    let of_driver = |driver: &str| -> Vec<usize> {
        let devices = platform.devices().iter();
        let of_it = devices.filter(|device| device.driver_name() == driver);
        of_it.map(|device| device.core().index()).collect()
    };
    let mut asked = session.options.devices.clone();
    if asked.is_empty() {
        asked.push("cpu".to_owned());
        if of_driver("cuda").len() > 1 {
            asked.push("cuda".to_owned());
        }
    }
    let (mut sets, mut single) = (Vec::new(), Vec::new());
    for name in &asked {
        let unknown = || BenchError::UnknownDevice {
            asked: name.clone(),
            known: platform
                .devices()
                .iter()
                .map(id)
                .collect::<Vec<_>>()
                .join(", "),
        };
        if name == "cpu" || name == "cpu:0" {
            sets.push(cores(session)?);
        } else if let Some((driver, number)) = name.split_once(':') {
            let number = number.parse().map_err(|_| unknown())?;
            if !of_driver(driver).contains(&number) {
                return Err(unknown());
            }
            single.push(Offer::Device(driver.to_owned(), number));
        } else {
            let numbers = of_driver(name);
            if numbers.is_empty() {
                return Err(unknown());
            }
            let offers = numbers.into_iter();
            let offers = offers.map(|number| Offer::Device(name.clone(), number));
            sets.push(first(session, name, offers.collect())?);
        }
    }
    if !single.is_empty() {
        let name = single.iter().map(Offer::to_string).collect::<Vec<_>>();
        sets.push(first(session, &name.join(","), single)?);
    }
    Ok(sets)
}

/// Workers for each node: those that the user chose, or an even part of the cores.
fn cores(session: &Session<'_>) -> Result<Set, BenchError> {
    let nodes = session.options.nodes.unwrap_or(3);
    let cores = Machine::describe().cores.unwrap_or(1);
    let workers = session.options.workers.first().copied();
    let workers = workers.unwrap_or(cores / nodes);
    let workers = NonZero::new(workers).unwrap_or(NonZero::<usize>::MIN);
    // The last number of an address within the switch's network.
    if nodes > 200 {
        return Err(BenchError::InvalidOption {
            option: "--nodes",
            given: nodes.to_string(),
            wrong: "which is more than there are addresses for",
            advice: "give at most 200",
        });
    }
    Ok(Set {
        name: "cpu".to_owned(),
        workers: workers.get(),
        offers: vec![Offer::Workers(workers); nodes],
    })
}

/// As many of these as there are to be nodes.
fn first(session: &Session<'_>, name: &str, mut offers: Vec<Offer>) -> Result<Set, BenchError> {
    let nodes = session.options.nodes.unwrap_or(offers.len());
    if nodes > offers.len() {
        return Err(BenchError::InvalidOption {
            option: "--nodes",
            given: nodes.to_string(),
            wrong: "which is more than there are such devices",
            advice: "give at most as many; `quipu devices` lists them",
        });
    }
    offers.truncate(nodes);
    Ok(Set {
        name: name.to_owned(),
        workers: 0,
        offers,
    })
}

impl Set {
    /// True if many threads side by side are what its devices are fast with.
    pub(super) fn is_wide(&self) -> Result<bool, BenchError> {
        let is_gpu = |device: &Device| device.kind() == DeviceKind::Gpu;
        Ok(match &self.offers[..] {
            [Offer::Workers(_), ..] => false,
            offers => devices(offers)?.iter().all(is_gpu),
        })
    }
}

/// The devices of offers, each of its own: pools of threads are not shared.
pub(super) fn devices(offers: &[Offer]) -> Result<Vec<Device>, BenchError> {
    let platform = here();
    let device = |offer: &Offer| -> Result<Device, BenchError> {
        let found = match offer {
            Offer::Workers(count) => {
                let pool = Platform::builder().without_embedded();
                let pool = pool.cpu(CpuOptions::new().workers(*count)).build();
                pool.doing("starting a pool")?.devices().first().cloned()
            }
            Offer::Device(driver, number) => {
                let is_it = |device: &&Device| {
                    device.driver_name() == driver && device.core().index() == *number
                };
                platform.devices().iter().find(is_it).cloned()
            }
            Offer::Camera(width, height) => {
                let camera = Source::synthetic("camera", *width, *height, true);
                source(SourceOptions::new().source(camera))?
            }
            Offer::Decoder => source(SourceOptions::new().decoder())?,
        };
        found.ok_or_else(|| {
            SubjectError::failed(format!("opening {offer}"), "it is not there").into()
        })
    };
    offers.iter().map(device).collect()
}

/// The only device of a driver of sources.
fn source(options: SourceOptions) -> Result<Option<Device>, BenchError> {
    let driver = options.start().doing("starting a source")?;
    let platform = Platform::builder().without_embedded().driver(driver);
    let platform = platform.build().doing("starting a source")?;
    Ok(platform.devices().first().cloned())
}

/// The native kernels of a node.
struct Own {
    /// The product, what brings its inputs, and a stream's.
    kernels: Kernels,
    /// The kernel that adds one.
    add: HashMap<Name, Maker>,
}

impl Natives for Own {
    fn find(&self, name: &Name) -> Option<Maker> {
        let add = self.add.get(name).cloned();
        add.or_else(|| self.kernels.find(name))
    }
}

/// The options of a node that serves sessions of these devices in its own process.
pub(super) fn serving(devices: &[Device]) -> quipu_node::Options {
    let devices = devices.iter().map(|device| device.core().clone());
    let product = quipu_algorithms::served::matrix_product::<f32>();
    let natives = Own {
        kernels: product
            .with::<kernels::peek<f32>, _>()
            .and(super::edge::kernels()),
        add: makers(),
    };
    quipu_node::Options {
        natives: Arc::new(natives),
        ..quipu_node::Options::new(devices.collect())
    }
}

/// The options of a benchmark's node that offers this, and starts a process for each session where
/// the user of this crate says how.
pub(super) fn node_options(
    session: &Session<'_>,
    offer: &Offer,
) -> Result<quipu_node::Options, BenchError> {
    #[cfg_attr(not(target_os = "linux"), allow(unused_mut, reason = "no processes"))]
    let mut options = serving(&devices(std::slice::from_ref(offer))?);
    #[cfg(target_os = "linux")]
    if let Some(arguments) = &session.options.sessions {
        options.processes = Some(spawn(arguments, offer)?);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = session;
    Ok(options)
}

/// Serves one session of a node of a benchmark's, in the process that it has started for that, with
/// what it was started with at the end of [`Options::sessions`](crate::harness::Options::sessions).
/// Returns only if it cannot. The caller has started no threads.
///
/// # Errors
/// If it was not a node that has started this process, or the device cannot be used.
pub fn serve_session(offer: &str) -> Result<std::convert::Infallible, BenchError> {
    let offer: Offer = offer.parse()?;
    #[cfg(target_os = "linux")]
    {
        let served =
            quipu_node::serve_session(|_| Ok::<_, BenchError>(serving(&devices(&[offer])?)));
        served.doing("serving a session")
    }
    #[cfg(not(target_os = "linux"))]
    {
        let problem = format!("sessions of {offer} have no processes of their own on this system");
        Err(SubjectError::failed("serving a session", problem).into())
    }
}

/// The way in which a node starts a session's process, and its offer there.
#[cfg(target_os = "linux")]
fn spawn(arguments: &[std::ffi::OsString], offer: &Offer) -> Result<quipu_node::Spawn, BenchError> {
    let (mut offered, mut environment) = (offer.clone(), Vec::new());
    if let Offer::Device(driver, number) = offer
        && driver == "cuda"
    {
        // Of those that this process sees.
        let seen = std::env::var(VISIBLE).ok();
        let seen = seen
            .as_deref()
            .and_then(|seen| seen.split(',').nth(*number));
        let alone = seen.map_or_else(|| number.to_string(), |seen| seen.trim().to_owned());
        environment.push((VISIBLE.into(), Some(alone.into())));
        offered = Offer::Device(driver.clone(), 0);
    }
    let arguments = arguments
        .iter()
        .cloned()
        .chain([offered.to_string().into()]);
    let mut spawn = quipu_node::Spawn::own(arguments).doing("looking for this program")?;
    // For this process alone.
    environment
        .extend(["QUIPU_HOME", "QUIPU_TRACE", "QUIPU_NODES"].map(|name| (name.into(), None)));
    spawn.environment = environment;
    Ok(spawn)
}

/// Nodes that serve, one for each offer.
pub(super) struct Cluster(Vec<Hosted>);

impl Cluster {
    /// A node for each offer, at the far end of a way each, whose near ends are one.
    pub(super) fn new(
        session: &Session<'_>,
        offers: &[Offer],
        ways: &[Way],
    ) -> Result<Self, BenchError> {
        let mut nodes = Vec::new();
        for (number, (offer, way)) in offers.iter().zip(ways).enumerate() {
            let options = node_options(session, offer)?;
            let name = format!("node-{}", number + 1);
            nodes.push(Hosted::new(&name, way, options)?);
        }
        Ok(Self(nodes))
    }

    /// Their devices, in the order of the offers, of nodes that are used together.
    pub(super) fn together(&self, network: &Way) -> Result<Vec<Device>, BenchError> {
        self.devices(vec![together(network, &self.0)?])
    }

    /// The same of nodes that know nothing of each other.
    pub(super) fn apart(&self, network: &Way) -> Result<Vec<Device>, BenchError> {
        let alone = |node| together(network, [node]);
        self.devices(self.0.iter().map(alone).collect::<Result<_, _>>()?)
    }

    fn devices(&self, drivers: Vec<Arc<dyn Driver>>) -> Result<Vec<Device>, BenchError> {
        let platform = Platform::builder().without_embedded();
        let add = |platform: quipu::PlatformBuilder, driver| platform.driver(driver);
        let platform = drivers.into_iter().fold(platform, add);
        let platform = platform.build().doing("listing devices")?;
        let found = platform.devices();
        if found.len() != self.0.len() {
            let problem = format!("{} nodes have {} devices", self.0.len(), found.len());
            return Err(SubjectError::failed("listing devices", problem).into());
        }
        Ok(found.to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_session_is_told_to_offer_it_understands() {
        for text in [
            "workers=3",
            "cuda:1",
            "opencl:0",
            "camera=640x480",
            "decoder",
        ] {
            assert_eq!(text.parse::<Offer>().expect(text).to_string(), text);
        }
        for text in [
            "",
            "workers=0",
            "workers=",
            "cuda",
            "cuda:",
            "cuda:-1",
            "camera=1",
        ] {
            let error = text.parse::<Offer>().expect_err(text).to_string();
            assert!(error.contains("workers=1"), "{error}");
        }
    }
}
