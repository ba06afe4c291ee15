//! The process of one OpenCL implementation: it prepares and launches as it is told, a line at a
//! time.
//!
//! | it is told | it answers |
//! |---|---|
//! | `load NAME SCALE` | `ok SECONDS`, which the build took |
//! | `run` | `ok SECONDS`, which the launches took |
//! | `read` | `ok BYTES`, and so many bytes of results |
//! | `call NAME COUNT` | `ok SECONDS`, which so many calls took |
//!
//! Or `failed` with the reason. Its answers begin with [`ANSWER`]: an implementation may print
//! lines of its own.

use super::calling::Calling;
use super::case::{Case, Given, Size};
use super::entries;
use crate::error::{BenchError, SubjectError};
use crate::harness::Scale;
use cl3::types::{
    cl_command_queue, cl_context, cl_device_id, cl_int, cl_kernel, cl_mem, cl_program,
};
use std::ffi::{CString, c_void};
use std::io::{self, BufRead, Write};
use std::ptr::{null, null_mut};
use std::time::Instant;

/// The beginning of answers.
pub(super) const ANSWER: &str = "opencl-kernels: ";

/// Serves the platform of this name until there is no more input.
pub(super) fn serve(platform: &str) -> Result<(), BenchError> {
    let device = Device::open(platform).map_err(|reason| failed("opening a platform", reason))?;
    let mut loaded: Option<Loaded<'_>> = None;
    let mut calling: Option<Calling> = None;
    let mut stdout = io::stdout();
    for line in io::stdin().lock().lines() {
        let line = line?;
        let words: Vec<&str> = line.split(' ').collect();
        let mut results = Vec::new();
        let answer = match (&words[..], &mut loaded) {
            (["load", name, scale], loaded) => {
                *loaded = None;
                device.load(name, scale).map(|(case, seconds)| {
                    *loaded = Some(case);
                    seconds.to_string()
                })
            }
            (["run"], Some(case)) => case.run().map(|seconds| seconds.to_string()),
            (["read"], Some(case)) => case.read().map(|bytes| {
                results = bytes;
                results.len().to_string()
            }),
            (["call", name, count], _) => device
                .call(&mut calling, name, count)
                .map(|seconds| seconds.to_string()),
            _ => Err(format!("no answer to {line:?}")),
        };
        match answer {
            Ok(answer) => writeln!(stdout, "{ANSWER}ok {answer}")?,
            Err(reason) => writeln!(stdout, "{ANSWER}failed {}", reason.replace('\n', " | "))?,
        }
        stdout.write_all(&results)?;
        stdout.flush()?;
    }
    Ok(())
}

fn failed(what: &str, reason: String) -> BenchError {
    SubjectError::failed(what, reason).into()
}

pub(super) fn called<T>(call: &str, result: Result<T, cl_int>) -> Result<T, String> {
    result.map_err(|code| format!("{call} gives error {code}"))
}

/// A device with a queue, both for as long as the process runs.
pub(super) struct Device {
    pub(super) device: cl_device_id,
    pub(super) context: cl_context,
    queue: cl_command_queue,
}

/// A case on a device.
struct Loaded<'a> {
    device: &'a Device,
    case: Case,
    program: cl_program,
    kernels: Vec<cl_kernel>,
    memory: Vec<cl_mem>,
}

impl Device {
    fn open(platform: &str) -> Result<Self, String> {
        let platforms = called("clGetPlatformIDs", cl3::platform::get_platform_ids())?;
        let name = cl3::platform::CL_PLATFORM_NAME;
        let found = platforms.into_iter().find(|candidate| {
            cl3::platform::get_platform_info(*candidate, name)
                .is_ok_and(|name| name.to_string().contains(platform))
        });
        let found = found.ok_or_else(|| format!("there is no platform {platform}"))?;
        let cpu = cl3::device::CL_DEVICE_TYPE_CPU;
        let devices = called("clGetDeviceIDs", cl3::device::get_device_ids(found, cpu))?;
        let device = *devices.first().ok_or("it has no device for processors")?;
        let context = cl3::context::create_context(&[device], null(), None, null_mut());
        let context = called("clCreateContext", context)?;
        // The call of OpenCL 1, which all have.
        #[allow(deprecated)]
        // SAFETY: the device is the context's.
        let queue = unsafe { cl3::command_queue::create_command_queue(context, device, 0) };
        Ok(Device {
            device,
            context,
            queue: called("clCreateCommandQueue", queue)?,
        })
    }

    fn load(&self, name: &str, scale: &str) -> Result<(Loaded<'_>, f64), String> {
        let scale = match scale {
            "tiny" => Scale::Tiny,
            _ => Scale::Full,
        };
        let entry = entries().find(|entry| entry.name == name);
        let entry = entry.ok_or_else(|| format!("there is no case {name}"))?;
        let case = (entry.make)(Size(scale));
        let start = Instant::now();
        let made = cl3::program::create_program_with_source(self.context, &[case.source]);
        let program = called("clCreateProgramWithSource", made)?;
        let mut loaded = Loaded {
            device: self,
            case,
            program,
            kernels: Vec::new(),
            memory: Vec::new(),
        };
        let built = cl3::program::build_program(program, &[self.device], c"", None, null_mut());
        built.map_err(|code| self.log(program, code))?;
        for launch in &loaded.case.launches {
            let name = CString::new(launch.kernel).map_err(|error| error.to_string())?;
            let kernel = cl3::kernel::create_kernel(program, &name);
            loaded.kernels.push(called("clCreateKernel", kernel)?);
        }
        let seconds = start.elapsed().as_secs_f64();
        for given in &loaded.case.memory {
            let (Given::In(data) | Given::Out(data) | Given::Both(data)) = given else {
                return Err("an argument is among the case's memory".to_owned());
            };
            let flags = cl3::memory::CL_MEM_READ_WRITE;
            // SAFETY: no host memory is given.
            let buffer = unsafe {
                cl3::memory::create_buffer(self.context, flags, data.bytes.len(), null_mut())
            };
            let buffer = called("clCreateBuffer", buffer)?;
            loaded.memory.push(buffer);
            self.write(buffer, &data.bytes)?;
        }
        for (launch, kernel) in loaded.case.launches.iter().zip(&loaded.kernels) {
            for (index, given) in launch.arguments.iter().enumerate() {
                let (size, pointer): (usize, *const c_void) = match given {
                    Given::Value(bytes) => (bytes.len(), bytes.as_ptr().cast()),
                    Given::Local(bytes) => (*bytes, null()),
                    Given::At(at) => (size_of::<cl_mem>(), (&raw const loaded.memory[*at]).cast()),
                    _ => return Err("memory is among a launch's arguments".to_owned()),
                };
                // SAFETY: so many bytes can be read there.
                let set =
                    unsafe { cl3::kernel::set_kernel_arg(*kernel, index as u32, size, pointer) };
                called("clSetKernelArg", set)?;
            }
        }
        Ok((loaded, seconds))
    }

    /// The compiler's messages.
    fn log(&self, program: cl_program, code: cl_int) -> String {
        let log = cl3::program::CL_PROGRAM_BUILD_LOG;
        let log = cl3::program::get_program_build_info(program, self.device, log);
        let text = log.map(|log| log.to_string()).unwrap_or_default();
        format!("clBuildProgram gives error {code}: {text}")
    }

    /// Makes calls, whose objects are made at the first.
    fn call(&self, calling: &mut Option<Calling>, name: &str, count: &str) -> Result<f64, String> {
        let count = count.parse();
        let count = count.map_err(|error| format!("a count: {error}"))?;
        let calling = match calling {
            Some(calling) => calling,
            None => calling.insert(Calling::open(self)?),
        };
        calling.call(self, name, count)
    }

    /// The first number of a buffer.
    pub(super) fn number(&self, buffer: cl_mem) -> Result<i32, String> {
        let mut bytes = [0; 4];
        self.read(buffer, &mut bytes)?;
        Ok(i32::from_le_bytes(bytes))
    }

    fn read(&self, buffer: cl_mem, bytes: &mut [u8]) -> Result<(), String> {
        // SAFETY: the buffer has as many bytes, and the call comes back when they are written.
        let event = unsafe {
            cl3::command_queue::enqueue_read_buffer(
                self.queue,
                buffer,
                cl3::types::CL_TRUE,
                0,
                bytes.len(),
                bytes.as_mut_ptr().cast(),
                0,
                null(),
            )
        };
        let event = called("clEnqueueReadBuffer", event)?;
        // SAFETY: made by the call, nobody else's.
        called("clReleaseEvent", unsafe {
            cl3::event::release_event(event)
        })
    }

    pub(super) fn write(&self, buffer: cl_mem, bytes: &[u8]) -> Result<(), String> {
        let blocking = cl3::types::CL_TRUE;
        // SAFETY: the buffer has as many bytes, and the call comes back when they are read.
        let event = unsafe {
            cl3::command_queue::enqueue_write_buffer(
                self.queue,
                buffer,
                blocking,
                0,
                bytes.len(),
                bytes.as_ptr().cast(),
                0,
                null(),
            )
        };
        let event = called("clEnqueueWriteBuffer", event)?;
        // SAFETY: made by the call, nobody else's.
        called("clReleaseEvent", unsafe {
            cl3::event::release_event(event)
        })
    }
}

impl Loaded<'_> {
    /// Seconds of all launches, and the wait for them, from memory as the case has it.
    fn run(&self) -> Result<f64, String> {
        for (given, buffer) in self.case.memory.iter().zip(&self.memory) {
            if let Given::Both(data) = given {
                self.device.write(*buffer, &data.bytes)?;
            }
        }
        let start = Instant::now();
        for (launch, kernel) in self.case.launches.iter().zip(&self.kernels) {
            // SAFETY: all arguments are set, both sizes have as many axes, and kernels stay within
            // their memory.
            let event = unsafe {
                cl3::command_queue::enqueue_nd_range_kernel(
                    self.device.queue,
                    *kernel,
                    launch.global.len() as u32,
                    null(),
                    launch.global.as_ptr(),
                    launch.local.as_ptr(),
                    0,
                    null(),
                )
            };
            let event = called("clEnqueueNDRangeKernel", event)?;
            // SAFETY: made by the call, nobody else's.
            called("clReleaseEvent", unsafe {
                cl3::event::release_event(event)
            })?;
        }
        called("clFinish", cl3::command_queue::finish(self.device.queue))?;
        Ok(start.elapsed().as_secs_f64())
    }

    /// All that kernels have written.
    fn read(&self) -> Result<Vec<u8>, String> {
        let mut all = Vec::new();
        for (index, data) in self.case.results() {
            let mut bytes = vec![0_u8; data.bytes.len()];
            self.device.read(self.memory[index], &mut bytes)?;
            all.append(&mut bytes);
        }
        Ok(all)
    }
}

impl Drop for Loaded<'_> {
    fn drop(&mut self) {
        // SAFETY: each was made here, is released once, and nothing is enqueued any more.
        unsafe {
            for kernel in &self.kernels {
                let _ = cl3::kernel::release_kernel(*kernel);
            }
            for buffer in &self.memory {
                let _ = cl3::memory::release_mem_object(*buffer);
            }
            let _ = cl3::program::release_program(self.program);
        }
    }
}
