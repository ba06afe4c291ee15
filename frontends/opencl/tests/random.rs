//! Random calls with random arguments: handles that are valid, released, of another kind or no
//! handles at all, from several threads. The library answers each call.
//!
//! `QUIPU_TEST_CALLS` says how many calls each thread makes (20,000 without it).

#![allow(clippy::unwrap_used, reason = "a promise that is not kept panics")]

mod support;

use opencl_sys::*;
use std::ffi::c_void;
use std::ptr::{null, null_mut};
use std::sync::Mutex;
use support::*;

/// Numbers that look random, the same each time.
struct Draw(u64);

impl Draw {
    fn number(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: usize) -> usize {
        (self.number() % end as u64) as usize
    }
}

#[derive(Clone, Copy)]
enum Of {
    Context,
    Queue,
    Memory,
    Program,
    Kernel,
    Event,
    UserEvent,
    CommandBuffer,
    Command,
    Unified,
    Sampler,
    Semaphore,
}

const KINDS: usize = 12;

/// Handles, as addresses, by their kinds: those that were given out, whether they were released
/// since or not.
#[derive(Default)]
struct World {
    handles: [Vec<usize>; KINDS],
}

impl World {
    fn keep(&mut self, of: Of, handle: *mut c_void, draw: &mut Draw) {
        if handle.is_null() {
            return;
        }
        let known = &mut self.handles[of as usize];
        if known.len() < 48 {
            known.push(handle.expose_provenance());
        } else {
            let place = draw.below(48);
            // One that is forgotten is never released, and as good as one that is.
            known[place] = handle.expose_provenance();
        }
    }

    /// A handle of a kind, mostly.
    fn any(&self, of: Of, draw: &mut Draw) -> *mut c_void {
        let kind = match draw.below(10) {
            0 => draw.below(KINDS),
            _ => of as usize,
        };
        let known = &self.handles[kind];
        let address = match draw.below(40) {
            0 => 0,
            1 => 0xdead_beef,
            2 => usize::MAX - 7,
            _ if known.is_empty() => 0,
            _ => known[draw.below(known.len())],
        };
        let shift = usize::from(draw.below(50) == 0) * 8;
        std::ptr::with_exposed_provenance_mut(address.wrapping_add(shift))
    }
}

const BYTES: usize = 4096;

/// Sizes and offsets around what fits.
fn size(draw: &mut Draw) -> usize {
    match draw.below(8) {
        0 => 0,
        1 => usize::MAX,
        2 => BYTES,
        3 => BYTES + 1,
        _ => 1 + draw.below(BYTES),
    }
}

/// One call.
fn call(
    setup: &Setup,
    world: &Mutex<World>,
    draw: &mut Draw,
    host: *mut c_void,
    code: &mut cl_int,
) {
    let any = |of, draw: &mut Draw| world.lock().unwrap().any(of, draw);
    let keep = |of, handle, draw: &mut Draw| world.lock().unwrap().keep(of, handle, draw);
    let waits: Vec<cl_event> = (0..draw.below(3)).map(|_| any(Of::Event, draw)).collect();
    let (count, list) = (
        waits.len() as u32,
        if waits.is_empty() {
            null()
        } else {
            waits.as_ptr()
        },
    );
    let mut event = null_mut();
    // Memory that is passed holds as many bytes as any valid call can mean. So a call that is
    // refused may name more. SAFETY: pointers are null or valid for what valid calls read and
    // write; handles need no promise.
    unsafe {
        match draw.below(32) {
            0 => keep(
                Of::Context,
                clCreateContext()(null(), 1, &raw const setup.device, None, null_mut(), code),
                draw,
            ),
            1 => {
                let properties = draw.number() & 3;
                let context = any(Of::Context, draw);
                keep(
                    Of::Queue,
                    clCreateCommandQueue()(context, setup.device, properties, code),
                    draw,
                );
            }
            2 | 3 => {
                let flags = [0, CL_MEM_COPY_HOST_PTR, CL_MEM_READ_ONLY, 1 << 40][draw.below(4)];
                let pointer = if draw.below(4) == 0 { null_mut() } else { host };
                let pointer = if flags & CL_MEM_COPY_HOST_PTR == 0 {
                    null_mut()
                } else {
                    pointer
                };
                let context = any(Of::Context, draw);
                let bytes = if draw.below(9) == 0 { 0 } else { BYTES };
                keep(
                    Of::Memory,
                    clCreateBuffer()(context, flags, bytes, pointer, code),
                    draw,
                );
            }
            4 => {
                let region = cl_buffer_region {
                    origin: draw.below(8) * 128,
                    size: size(draw),
                };
                let of = any(Of::Memory, draw);
                let part = clCreateSubBuffer()(
                    of,
                    0,
                    CL_BUFFER_CREATE_TYPE_REGION,
                    (&raw const region).cast(),
                    code,
                );
                keep(Of::Memory, part, draw);
            }
            5 => {
                let mut text = c"kernel void k(global int *x) {}".as_ptr();
                let context = any(Of::Context, draw);
                keep(
                    Of::Program,
                    clCreateProgramWithSource()(context, 1, &raw mut text, null(), code),
                    draw,
                );
            }
            6 => {
                let program = any(Of::Program, draw);
                keep(
                    Of::Kernel,
                    clCreateKernel()(program, c"k".as_ptr(), code),
                    draw,
                );
            }
            7 => {
                let user = clCreateUserEvent()(any(Of::Context, draw), code);
                keep(Of::UserEvent, user, draw);
                keep(Of::Event, user, draw);
            }
            8 => {
                *code = clSetUserEventStatus()(any(Of::UserEvent, draw), -(draw.below(3) as cl_int))
            }
            9 => *code = clRetainContext()(any(Of::Context, draw)),
            10 => *code = clReleaseContext()(any(Of::Context, draw)),
            11 => *code = clReleaseCommandQueue()(any(Of::Queue, draw)),
            12 => *code = clReleaseMemObject()(any(Of::Memory, draw)),
            13 => *code = clRetainMemObject()(any(Of::Memory, draw)),
            14 => *code = clReleaseProgram()(any(Of::Program, draw)),
            15 => *code = clReleaseKernel()(any(Of::Kernel, draw)),
            16 => *code = clReleaseEvent()(any(Of::Event, draw)),
            17 => {
                let argument = any(Of::Memory, draw);
                *code = set(any(Of::Kernel, draw), draw.below(3) as u32, &argument);
            }
            18 => {
                // Two dimensions are read of it, if it is asked for them.
                let (global, local) = ([draw.below(9) * 8, 1], [draw.below(9), 1]);
                *code = clEnqueueNDRangeKernel()(
                    any(Of::Queue, draw),
                    any(Of::Kernel, draw),
                    draw.below(3) as u32,
                    null(),
                    global.as_ptr(),
                    match local[0] {
                        0 => null(),
                        _ => local.as_ptr(),
                    },
                    count,
                    list,
                    &raw mut event,
                );
            }
            19 => {
                let (offset, bytes) = (size(draw) % (BYTES + 1), size(draw));
                let (queue, memory) = (any(Of::Queue, draw), any(Of::Memory, draw));
                *code = clEnqueueReadBuffer()(
                    queue,
                    memory,
                    CL_FALSE,
                    offset,
                    bytes,
                    host,
                    count,
                    list,
                    &raw mut event,
                );
            }
            20 => {
                let (offset, bytes) = (size(draw) % (BYTES + 1), size(draw));
                let (queue, memory) = (any(Of::Queue, draw), any(Of::Memory, draw));
                *code = clEnqueueFillBuffer()(
                    queue,
                    memory,
                    host,
                    1 << draw.below(8),
                    offset,
                    bytes,
                    count,
                    list,
                    &raw mut event,
                );
            }
            21 => {
                let (queue, from, to) = (
                    any(Of::Queue, draw),
                    any(Of::Memory, draw),
                    any(Of::Memory, draw),
                );
                *code = clEnqueueCopyBuffer()(
                    queue,
                    from,
                    to,
                    size(draw),
                    size(draw),
                    size(draw),
                    count,
                    list,
                    &raw mut event,
                );
            }
            22 => {
                let (queue, memory) = (any(Of::Queue, draw), any(Of::Memory, draw));
                let flags = draw.number() & 7;
                let mapped = clEnqueueMapBuffer()(
                    queue,
                    memory,
                    CL_FALSE,
                    flags,
                    size(draw),
                    size(draw),
                    count,
                    list,
                    &raw mut event,
                    code,
                );
                let pointer = if draw.below(3) == 0 { host } else { mapped };
                clEnqueueUnmapMemObject()(queue, memory, pointer, 0, null(), null_mut());
            }
            23 => {
                let queue = any(Of::Queue, draw);
                *code = match draw.below(2) {
                    0 => clEnqueueMarkerWithWaitList()(queue, count, list, &raw mut event),
                    _ => clEnqueueBarrierWithWaitList()(queue, count, list, &raw mut event),
                };
            }
            24 => {
                let mut answer = [0_u64; 64];
                let name = 0x11D0 + draw.below(8) as u32;
                let room = draw.below(size_of_val(&answer));
                *code = clGetEventInfo()(
                    any(Of::Event, draw),
                    name,
                    room,
                    answer.as_mut_ptr().cast(),
                    null_mut(),
                );
            }
            25 | 26 => {
                let format = cl_image_format {
                    image_channel_order: CL_R + draw.below(20) as u32,
                    image_channel_data_type: CL_SNORM_INT8 + draw.below(16) as u32,
                };
                let format = match draw.below(2) {
                    0 => format,
                    _ => cl_image_format {
                        image_channel_order: CL_RGBA,
                        image_channel_data_type: CL_UNORM_INT8,
                    },
                };
                let buffer = match draw.below(4) {
                    0 => any(Of::Memory, draw),
                    _ => null_mut(),
                };
                let desc = cl_image_desc {
                    image_type: CL_MEM_OBJECT_BUFFER + draw.below(8) as u32,
                    image_width: draw.below(9),
                    image_height: draw.below(9),
                    image_depth: draw.below(4),
                    image_array_size: draw.below(4),
                    image_row_pitch: 0,
                    image_slice_pitch: 0,
                    num_mip_levels: 0,
                    num_samples: 0,
                    buffer,
                };
                // Rows are eight texels of sixteen bytes at most, so the largest fits what is
                // passed.
                let flags = [0, CL_MEM_COPY_HOST_PTR, CL_MEM_READ_ONLY, 1 << 40][draw.below(4)];
                let pointer = match flags {
                    CL_MEM_COPY_HOST_PTR => host,
                    _ => null_mut(),
                };
                let context = any(Of::Context, draw);
                let image = clCreateImage()(
                    context,
                    flags,
                    &raw const format,
                    &raw const desc,
                    pointer,
                    code,
                );
                keep(Of::Memory, image, draw);
            }
            27 => {
                let [origin, to] = [0, 0].map(|_: i32| {
                    [0, 0, 0].map(|_: i32| if draw.below(9) == 0 { size(draw) } else { 0 })
                });
                let region = [1 + draw.below(6), 1 + draw.below(3), 1];
                let (queue, from, into) = (
                    any(Of::Queue, draw),
                    any(Of::Memory, draw),
                    any(Of::Memory, draw),
                );
                *code = match draw.below(3) {
                    0 => clEnqueueCopyImage()(
                        queue,
                        from,
                        into,
                        origin.as_ptr(),
                        to.as_ptr(),
                        region.as_ptr(),
                        count,
                        list,
                        &raw mut event,
                    ),
                    1 => clEnqueueCopyImageToBuffer()(
                        queue,
                        from,
                        into,
                        origin.as_ptr(),
                        region.as_ptr(),
                        to[0],
                        count,
                        list,
                        &raw mut event,
                    ),
                    _ => clEnqueueCopyBufferToImage()(
                        queue,
                        from,
                        into,
                        to[0],
                        origin.as_ptr(),
                        region.as_ptr(),
                        count,
                        list,
                        &raw mut event,
                    ),
                };
            }
            28 => {
                let origin =
                    [0, 0, 0].map(|_: i32| if draw.below(9) == 0 { size(draw) } else { 0 });
                let region = [1 + draw.below(6), 1 + draw.below(3), 1];
                let (queue, image) = (any(Of::Queue, draw), any(Of::Memory, draw));
                match draw.below(3) {
                    0 => {
                        *code = clEnqueueReadImage()(
                            queue,
                            image,
                            CL_FALSE,
                            origin.as_ptr(),
                            region.as_ptr(),
                            0,
                            0,
                            host,
                            count,
                            list,
                            &raw mut event,
                        );
                    }
                    1 => {
                        *code = clEnqueueFillImage()(
                            queue,
                            image,
                            host,
                            origin.as_ptr(),
                            region.as_ptr(),
                            count,
                            list,
                            &raw mut event,
                        );
                    }
                    _ => {
                        let (mut row, mut slice) = (0, 0);
                        let mapped = clEnqueueMapImage()(
                            queue,
                            image,
                            CL_FALSE,
                            draw.number() & 7,
                            origin.as_ptr(),
                            region.as_ptr(),
                            &raw mut row,
                            &raw mut slice,
                            count,
                            list,
                            &raw mut event,
                            code,
                        );
                        clEnqueueUnmapMemObject()(queue, image, mapped, 0, null(), null_mut());
                    }
                }
            }
            29 => {
                let modes = [CL_ADDRESS_CLAMP, CL_ADDRESS_REPEAT, 0][draw.below(3)];
                let context = any(Of::Context, draw);
                let sampler = clCreateSampler()(
                    context,
                    draw.below(3) as u32,
                    modes,
                    CL_FILTER_NEAREST,
                    code,
                );
                keep(Of::Sampler, sampler, draw);
            }
            30 => {
                let sampler = any(Of::Sampler, draw);
                *code = match draw.below(2) {
                    0 => set(any(Of::Kernel, draw), draw.below(3) as u32, &sampler),
                    _ => clReleaseSampler()(sampler),
                };
            }
            _ => *code = clFlush()(any(Of::Queue, draw)),
        }
    }
    keep(Of::Event, event, draw);
}

/// Functions of extensions.
struct Extension {
    create: clCreateCommandBufferKHR_t,
    finalize: clFinalizeCommandBufferKHR_t,
    release: clReleaseCommandBufferKHR_t,
    enqueue: clEnqueueCommandBufferKHR_t,
    copy: clCommandCopyBufferKHR_t,
    fill: clCommandFillBufferKHR_t,
    kernel: clCommandNDRangeKernelKHR_t,
    update: clUpdateMutableCommandsKHR_t,
    allocate: clSharedMemAllocINTEL_t,
    free: clMemBlockingFreeINTEL_t,
    fill_memory: clEnqueueMemFillINTEL_t,
    describe: clGetMemAllocInfoINTEL_t,
    create_semaphore: clCreateSemaphoreWithPropertiesKHR_t,
    release_semaphore: clReleaseSemaphoreKHR_t,
    ask_semaphore: clGetSemaphoreInfoKHR_t,
    wait: clEnqueueWaitSemaphoresKHR_t,
    signal: clEnqueueSignalSemaphoresKHR_t,
    set_address: clSetKernelArgDevicePointerEXT_t,
    set_content_size: clSetContentSizeBufferPoCL_t,
}

impl Extension {
    fn new() -> Self {
        Self {
            create: extension("clCreateCommandBufferKHR"),
            finalize: extension("clFinalizeCommandBufferKHR"),
            release: extension("clReleaseCommandBufferKHR"),
            enqueue: extension("clEnqueueCommandBufferKHR"),
            copy: extension("clCommandCopyBufferKHR"),
            fill: extension("clCommandFillBufferKHR"),
            kernel: extension("clCommandNDRangeKernelKHR"),
            update: extension("clUpdateMutableCommandsKHR"),
            allocate: extension("clSharedMemAllocINTEL"),
            free: extension("clMemBlockingFreeINTEL"),
            fill_memory: extension("clEnqueueMemFillINTEL"),
            describe: extension("clGetMemAllocInfoINTEL"),
            create_semaphore: extension("clCreateSemaphoreWithPropertiesKHR"),
            release_semaphore: extension("clReleaseSemaphoreKHR"),
            ask_semaphore: extension("clGetSemaphoreInfoKHR"),
            wait: extension("clEnqueueWaitSemaphoresKHR"),
            signal: extension("clEnqueueSignalSemaphoresKHR"),
            set_address: extension("clSetKernelArgDevicePointerEXT"),
            set_content_size: extension("clSetContentSizeBufferPoCL"),
        }
    }
}

/// One call of an extension.
fn call_extension(
    extension: &Extension,
    world: &Mutex<World>,
    draw: &mut Draw,
    host: *mut c_void,
    code: &mut cl_int,
) {
    let any = |of, draw: &mut Draw| world.lock().unwrap().any(of, draw);
    let keep = |of, handle, draw: &mut Draw| world.lock().unwrap().keep(of, handle, draw);
    let points: Vec<u32> = (0..draw.below(3)).map(|_| draw.below(6) as u32).collect();
    let (count, first) = match points.is_empty() {
        true => (0, null()),
        false => (points.len() as u32, points.as_ptr()),
    };
    let (buffer, none) = (any(Of::CommandBuffer, draw), null_mut());
    let mut handle = null_mut();
    let handle_of = match draw.below(2) {
        0 => null_mut(),
        _ => &raw mut handle,
    };
    // SAFETY: pointers are null or valid for what valid calls read and write; handles need no
    // promise.
    unsafe {
        match draw.below(13) {
            10 => call_semaphore(extension, world, draw, code),
            11 => {
                let mut events = [null_mut(); 2];
                let semaphores = [any(Of::Semaphore, draw), any(Of::Semaphore, draw)];
                let semaphore_count = draw.below(3) as u32;
                for (enqueue, event) in [extension.signal, extension.wait].iter().zip(&mut events) {
                    *code = enqueue.unwrap()(
                        any(Of::Queue, draw),
                        semaphore_count,
                        semaphores.as_ptr(),
                        null(),
                        0,
                        null(),
                        event,
                    );
                    keep(Of::Event, *event, draw);
                }
            }
            12 => {
                *code = match draw.below(2) {
                    // A kernel that reaches memory by an address that is none is the program's own
                    // fault. The host's memory is an address, too.
                    0 => {
                        let address = host.expose_provenance() as u64;
                        extension.set_address.unwrap()(any(Of::Kernel, draw), 0, address)
                    }
                    _ => {
                        let size = any(Of::Memory, draw);
                        extension.set_content_size.unwrap()(any(Of::Memory, draw), size)
                    }
                }
            }
            0 | 1 => {
                let properties = [CL_COMMAND_BUFFER_FLAGS_KHR, draw.number() & 3, 0];
                let queues = [any(Of::Queue, draw), any(Of::Queue, draw)];
                let queue_count = 1 + draw.below(2) as u32;
                let made = extension.create.unwrap()(
                    queue_count,
                    queues.as_ptr(),
                    properties.as_ptr(),
                    code,
                );
                keep(Of::CommandBuffer, made, draw);
            }
            2 => *code = extension.finalize.unwrap()(buffer),
            3 if draw.below(4) == 0 => *code = extension.release.unwrap()(buffer),
            3 | 4 => {
                let mut event = null_mut();
                *code =
                    extension.enqueue.unwrap()(0, null_mut(), buffer, 0, null(), &raw mut event);
                keep(Of::Event, event, draw);
            }
            5 => {
                let (from, to) = (any(Of::Memory, draw), any(Of::Memory, draw));
                let (from_offset, to_offset, bytes) = (size(draw), size(draw), size(draw));
                *code = extension.copy.unwrap()(
                    buffer,
                    none,
                    null(),
                    from,
                    to,
                    from_offset,
                    to_offset,
                    bytes,
                    count,
                    first,
                    null_mut(),
                    null_mut(),
                );
            }
            6 => {
                let memory = any(Of::Memory, draw);
                let (pattern, offset, bytes) = (1 << draw.below(8), size(draw), size(draw));
                *code = extension.fill.unwrap()(
                    buffer,
                    none,
                    null(),
                    memory,
                    host,
                    pattern,
                    offset,
                    bytes,
                    count,
                    first,
                    null_mut(),
                    handle_of,
                );
            }
            7 => {
                let global = draw.below(9) * 8;
                let kernel = any(Of::Kernel, draw);
                *code = extension.kernel.unwrap()(
                    buffer,
                    none,
                    null(),
                    kernel,
                    1,
                    null(),
                    &raw const global,
                    null(),
                    count,
                    first,
                    null_mut(),
                    handle_of,
                );
            }
            8 => {
                let global = draw.below(9) * 8;
                let config = cl_mutable_dispatch_config_khr {
                    command: any(Of::Command, draw),
                    num_args: 0,
                    num_svm_args: 0,
                    num_exec_infos: 0,
                    work_dim: draw.below(3) as u32,
                    arg_list: null(),
                    arg_svm_list: null(),
                    exec_info_list: null(),
                    global_work_offset: null(),
                    global_work_size: match draw.below(2) {
                        0 => null(),
                        _ => &raw const global,
                    },
                    local_work_size: null(),
                };
                let kind = draw.below(2) as u32;
                let mut configs = [(&raw const config).cast()];
                let update = extension.update.unwrap();
                *code = update(buffer, 1, &raw const kind, configs.as_mut_ptr());
            }
            _ => {
                let context = any(Of::Context, draw);
                let bytes = size(draw) % (2 * BYTES);
                match draw.below(4) {
                    0 => {
                        let made =
                            extension.allocate.unwrap()(context, none, null(), bytes, 0, code);
                        keep(Of::Unified, made, draw);
                    }
                    1 => {
                        let pointer = any(Of::Unified, draw);
                        // A fill of memory that is freed is the program's own fault, so what is
                        // filled is not freed.
                        let mut kind = 0_u32;
                        let room = (&raw mut kind).cast();
                        let name = CL_MEM_ALLOC_TYPE_INTEL;
                        *code = extension.describe.unwrap()(
                            context,
                            pointer,
                            name,
                            4,
                            room,
                            null_mut(),
                        );
                    }
                    2 => {
                        let queue = any(Of::Queue, draw);
                        let pattern = 1 << draw.below(8);
                        let mut event = null_mut();
                        *code = extension.fill_memory.unwrap()(
                            queue,
                            host,
                            host,
                            pattern,
                            BYTES,
                            0,
                            null(),
                            &raw mut event,
                        );
                        keep(Of::Event, event, draw);
                    }
                    // A free waits for all commands, which wait for events that nobody may ever
                    // complete. So what is freed here is no allocation.
                    _ => *code = extension.free.unwrap()(any(Of::Context, draw), host),
                }
            }
        }
    }
    keep(Of::Command, handle, draw);
}

/// One call that makes, asks or releases a semaphore.
///
/// # Safety
/// None is asked for: handles need no promise.
unsafe fn call_semaphore(
    extension: &Extension,
    world: &Mutex<World>,
    draw: &mut Draw,
    code: &mut cl_int,
) {
    let any = |of, draw: &mut Draw| world.lock().unwrap().any(of, draw);
    let semaphore = any(Of::Semaphore, draw);
    let kind = u64::from(CL_SEMAPHORE_TYPE_KHR);
    let properties = [
        kind,
        1 + draw.below(2) as u64,
        [0, kind][draw.below(2)],
        1,
        0,
    ];
    let (mut value, mut length) = ([0_u64; 8], 0);
    // SAFETY: a list that ends with a zero, and room for the answer.
    unsafe {
        match draw.below(3) {
            0 => {
                let context = any(Of::Context, draw);
                let made = extension.create_semaphore.unwrap()(context, properties.as_ptr(), code);
                world.lock().unwrap().keep(Of::Semaphore, made, draw);
            }
            1 => {
                let name = CL_SEMAPHORE_CONTEXT_KHR + draw.below(6) as u32;
                *code = extension.ask_semaphore.unwrap()(
                    semaphore,
                    name,
                    64,
                    value.as_mut_ptr().cast(),
                    &raw mut length,
                );
            }
            _ => *code = extension.release_semaphore.unwrap()(semaphore),
        }
    }
}

#[test]
fn whatever_is_called_with_whatever_has_an_answer() {
    let calls = std::env::var("QUIPU_TEST_CALLS").map_or(20_000, |calls| calls.parse().unwrap());
    let setup = Setup::new();
    let compiled = compiles();
    let extension = Extension::new();
    let world = Mutex::new(World::default());
    if compiled {
        let (program, code, _) = setup.try_build(
            // It stays within whatever it is passed: buffers of any size, and none.
            "kernel void k(global uchar *x) { if (x) x[0] = 1; }
            kernel void i(read_only image2d_t a, sampler_t s, write_only image2d_t b) {
                write_imagef(b, (int2)(get_global_id(0), 0), read_imagef(a, s, (float2)(0.5f, 0.5f)));
            }",
            "",
        );
        ok(code);
        let mut draw = Draw(1);
        let mut world = world.lock().unwrap();
        // Kernels are found again and again, though references to their program are given up.
        for number in 0..12 {
            let name = if number < 8 { c"k" } else { c"i" };
            // SAFETY: a text that ends with a zero.
            let kernel = made(|code| unsafe { clCreateKernel()(program, name.as_ptr(), code) });
            world.keep(Of::Kernel, kernel, &mut draw);
        }
        world.keep(Of::Program, program, &mut draw);
        world.keep(Of::Context, setup.context, &mut draw);
        world.keep(Of::Queue, setup.queue, &mut draw);
    }
    // What its own handles are of lives as long as the test.
    // SAFETY: handles.
    unsafe {
        for _ in 0..calls {
            clRetainContext()(setup.context);
            clRetainCommandQueue()(setup.queue);
        }
    }
    let succeeded: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (1..=3_u64)
            .map(|seed| {
                let (world, extension) = (&world, &extension);
                scope.spawn(move || {
                    let mut draw = Draw(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
                    // Commands that are enqueued may use it after this thread has ended.
                    let host: *mut c_void = vec![0_u8; 2 * BYTES].leak().as_mut_ptr().cast();
                    let mut succeeded = 0;
                    for _ in 0..calls {
                        let mut code = CL_INVALID_VALUE;
                        match draw.below(4) {
                            0 => call_extension(extension, world, &mut draw, host, &mut code),
                            _ => call(&setup, world, &mut draw, host, &mut code),
                        }
                        succeeded += usize::from(code == CL_SUCCESS);
                    }
                    succeeded
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .sum()
    });
    // A test of refusals alone would test little.
    assert!(succeeded > calls / 4, "{succeeded} of {calls} calls");
    // All that still waits for the program goes on.
    for user in &world.lock().unwrap().handles[Of::UserEvent as usize] {
        // SAFETY: a handle, or what was one.
        unsafe {
            clSetUserEventStatus()(std::ptr::with_exposed_provenance_mut(*user), CL_COMPLETE)
        };
    }
}
