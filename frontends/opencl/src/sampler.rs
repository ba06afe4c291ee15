//! Samplers: how a kernel reads an image.

use crate::code::{Result, create, ensure, entry, fail};
use crate::context::{Context, pairs};
use crate::handle::{Ref, object, release, retain};
use crate::info::Answer;
use opencl_sys::*;
use std::ffi::c_void;

pub(crate) struct Sampler {
    pub(crate) context: Ref<Context>,
    is_normalised: bool,
    addressing: cl_addressing_mode,
    filter: cl_filter_mode,
    /// As the program said them.
    properties: Vec<cl_sampler_properties>,
}

object!(Sampler, CL_INVALID_SAMPLER);

impl Sampler {
    /// The number that a literal of the same sampler is in OpenCL C.
    pub(crate) fn literal(&self) -> u32 {
        let addressing = match self.addressing {
            CL_ADDRESS_CLAMP_TO_EDGE => 2,
            CL_ADDRESS_CLAMP => 4,
            CL_ADDRESS_REPEAT => 6,
            CL_ADDRESS_MIRRORED_REPEAT => 8,
            _ => 0,
        };
        let filter = match self.filter {
            CL_FILTER_LINEAR => 0x20,
            _ => 0x10,
        };
        addressing | filter | u32::from(self.is_normalised)
    }
}

fn make(
    context: cl_context,
    [normalised, addressing, filter]: [cl_uint; 3],
    properties: Vec<cl_sampler_properties>,
) -> Result<*mut c_void> {
    let context = Ref::<Context>::of(context)?;
    let is_normalised = match normalised {
        CL_TRUE => true,
        CL_FALSE => false,
        _ => return fail(CL_INVALID_VALUE),
    };
    ensure(
        (CL_ADDRESS_NONE..=CL_ADDRESS_MIRRORED_REPEAT).contains(&addressing)
            && matches!(filter, CL_FILTER_NEAREST | CL_FILTER_LINEAR),
        CL_INVALID_VALUE,
    )?;
    // Coordinates repeat by the size of an image.
    let repeats = matches!(addressing, CL_ADDRESS_REPEAT | CL_ADDRESS_MIRRORED_REPEAT);
    ensure(is_normalised || !repeats, CL_INVALID_VALUE)?;
    ensure(context.has_images(), CL_INVALID_OPERATION)?;
    let sampler = Ref::new(Sampler {
        context,
        is_normalised,
        addressing,
        filter,
        properties,
    })?;
    Ok(sampler.give())
}

#[unsafe(export_name = "clCreateSampler")]
pub(crate) unsafe extern "C" fn create_sampler(
    context: cl_context,
    normalised: cl_bool,
    addressing: cl_addressing_mode,
    filter: cl_filter_mode,
    code: *mut cl_int,
) -> cl_sampler {
    let body = || make(context, [normalised, addressing, filter], Vec::new());
    // SAFETY: the program passes where the code goes.
    unsafe { create(code, body) }
}

#[unsafe(export_name = "clCreateSamplerWithProperties")]
pub(crate) unsafe extern "C" fn create_sampler_with_properties(
    context: cl_context,
    properties: *const cl_sampler_properties,
    code: *mut cl_int,
) -> cl_sampler {
    let body = || {
        // SAFETY: the program passes a list that ends with a zero, or null.
        let (pairs, said) = unsafe { pairs(properties) };
        let mut values = [CL_TRUE, CL_ADDRESS_CLAMP, CL_FILTER_NEAREST];
        let mut seen = Vec::new();
        for (key, value) in pairs {
            ensure(!seen.contains(&key), CL_INVALID_VALUE)?;
            seen.push(key);
            let place = match key as cl_sampler_info {
                CL_SAMPLER_NORMALIZED_COORDS => 0,
                CL_SAMPLER_ADDRESSING_MODE => 1,
                CL_SAMPLER_FILTER_MODE => 2,
                _ => return fail(CL_INVALID_VALUE),
            };
            values[place] = cl_uint::try_from(value).unwrap_or(cl_uint::MAX);
        }
        make(context, values, said)
    };
    // SAFETY: the program passes where the code goes.
    unsafe { create(code, body) }
}

#[unsafe(export_name = "clRetainSampler")]
pub(crate) unsafe extern "C" fn retain_sampler(sampler: cl_sampler) -> cl_int {
    entry(|| retain::<Sampler>(sampler))
}

#[unsafe(export_name = "clReleaseSampler")]
pub(crate) unsafe extern "C" fn release_sampler(sampler: cl_sampler) -> cl_int {
    entry(|| release::<Sampler>(sampler))
}

#[unsafe(export_name = "clGetSamplerInfo")]
pub(crate) unsafe extern "C" fn get_sampler_info(
    sampler: cl_sampler,
    name: cl_sampler_info,
    size: usize,
    value: *mut c_void,
    size_ret: *mut usize,
) -> cl_int {
    entry(|| {
        let sampler = Ref::<Sampler>::of(sampler)?;
        // SAFETY: the program passes what it wants the answer in.
        let answer = unsafe { Answer::new(size, value, size_ret) };
        match name {
            CL_SAMPLER_REFERENCE_COUNT => answer.value(sampler.references()),
            CL_SAMPLER_CONTEXT => answer.value(sampler.context.handle()),
            CL_SAMPLER_NORMALIZED_COORDS => answer.truth(sampler.is_normalised),
            CL_SAMPLER_ADDRESSING_MODE => answer.value(sampler.addressing),
            CL_SAMPLER_FILTER_MODE => answer.value(sampler.filter),
            CL_SAMPLER_PROPERTIES => answer.slice(&sampler.properties),
            _ => fail(CL_INVALID_VALUE),
        }
    })
}
