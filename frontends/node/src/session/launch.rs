//! Launches of kernels.

use super::commands::{Begun, Done, Work, access, plain};
use super::prepared::Prepared;
use crate::native::Parameter;
use quipu_protocol::message::{self, Command, Passed as Sent, Word};
use quipu_scheduler::portable::Extents;
use quipu_scheduler::{AccessMode, Error, Event, Passed, PassedParameter, Queue, Request};
use smallvec::SmallVec;
use std::mem::MaybeUninit;

fn extents(words: &[Word]) -> Extents {
    words.iter().map(|word| word.get()).collect()
}

fn core_mode(mode: message::AccessMode) -> AccessMode {
    match mode {
        message::AccessMode::Read => AccessMode::Read,
        message::AccessMode::ReadWrite => AccessMode::ReadWrite,
        message::AccessMode::Overwrite => AccessMode::Overwrite,
    }
}

/// A parameter for who makes the node's own kernels.
fn parameter<'a>(sent: Sent<'a>, passed: &'a PassedParameter) -> Parameter<'a> {
    match sent {
        Sent::Value(bytes) => Parameter::Value(bytes),
        // A kernel of the node's own has no such parameter, and no value of no bytes.
        Sent::Local(_) => Parameter::Value(&[]),
        Sent::Memory {
            mode,
            buffer,
            offset,
            length,
            element,
            ..
        } => Parameter::Memory {
            mode: core_mode(mode),
            buffer,
            range: offset..offset + length,
            element: element.into(),
            shape: match passed {
                PassedParameter::Memory { shape, .. } => shape.as_deref(),
                PassedParameter::Value(_) | PassedParameter::Local(_) => None,
            },
        },
    }
}

impl Work {
    pub(super) fn launch(
        &mut self,
        command: &Command<'_>,
        launch: &message::Launch<'_>,
        waits: &[Event],
    ) -> Done<Result<Begun, Error>> {
        let (device, priority) = (command.device, command.priority);
        let at = match self.prepared.find(device, launch) {
            Some(at) => at,
            None => {
                // First: that also says whether the device is one.
                if let Err(error) = self.objects.queue(device, priority, command.profiled)? {
                    return Ok(Err(error));
                }
                let new = match self.prepare(device, launch)? {
                    Ok(new) => new,
                    Err(error) => return Ok(Err(error)),
                };
                if !new.may_be_kept(launch) {
                    let queue = self.objects.queue(device, priority, command.profiled)?;
                    return Ok(queue.and_then(|queue| enqueue(queue, command, &new, waits)));
                }
                self.prepared.keep(device, launch, new)
            }
        };
        let queue = self.objects.queue(device, priority, command.profiled)?;
        Ok(queue.and_then(|queue| enqueue(queue, command, &self.prepared[at], waits)))
    }

    fn prepare(&self, device: u32, launch: &message::Launch<'_>) -> Done<Result<Prepared, Error>> {
        let mut passed = Passed {
            blocks: extents(launch.blocks),
            threads: extents(launch.threads),
            elements: extents(launch.elements),
            offset: extents(launch.offset),
            all_threads: extents(launch.all_threads),
            shared: launch.shared.iter().map(|word| word.get()).collect(),
            ..Passed::default()
        };
        let mut uses: SmallVec<[_; 4]> = SmallVec::new();
        for parameter in launch.passed() {
            passed.parameters.push(match parameter {
                Sent::Value(bytes) => {
                    let bytes = bytes.iter().copied().map(MaybeUninit::new);
                    PassedParameter::Value(bytes.collect())
                }
                Sent::Memory {
                    mode,
                    buffer,
                    offset,
                    length,
                    element,
                    extents: each,
                    strides,
                } => {
                    let range = offset..offset + length;
                    let memory = self.objects.buffer(buffer, &range)?;
                    uses.push((memory, range, core_mode(mode)));
                    let shape = (extents(each), extents(strides));
                    PassedParameter::Memory {
                        element: element.into(),
                        shape: (!each.is_empty()).then(|| Box::new(shape)),
                    }
                }
                Sent::Local(bytes) => PassedParameter::Local(bytes),
            });
        }
        let device = &self.node.options.devices[device as usize];
        let groups = passed.blocks.iter().product();
        let parameters: SmallVec<[Parameter<'_>; 6]> = launch
            .passed()
            .zip(&passed.parameters)
            .map(|(sent, passed)| parameter(sent, passed))
            .collect();
        let kernel = self
            .objects
            .kernel(launch.program, device, &passed, &parameters)?;
        let prepared = || {
            let kernel = kernel?;
            let uses = uses
                .into_iter()
                .map(|(memory, range, mode)| Ok((memory?, range, mode)));
            Ok(Prepared {
                kernel,
                groups,
                uses: uses.collect::<Result<_, Error>>()?,
            })
        };
        Ok(prepared())
    }
}

fn enqueue(
    queue: &Queue,
    command: &Command<'_>,
    prepared: &Prepared,
    waits: &[Event],
) -> Result<Begun, Error> {
    let uses = prepared.uses.iter();
    let accesses: SmallVec<[_; 6]> = uses
        .map(|(memory, range, mode)| access(memory, range, *mode))
        .collect();
    let request = Request {
        accesses: &accesses,
        waits,
        ..Request::default()
    };
    let event = queue.launch(prepared.kernel.clone(), prepared.groups, &request)?;
    Ok(plain(command, event))
}
