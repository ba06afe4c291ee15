//! Parts of devices (`clCreateSubDevices`).

use super::Device;
use crate::code::{Result, ensure, entry, fail};
use crate::handle::Ref;
use opencl_sys::*;
use quipu_scheduler::Partition;

#[unsafe(export_name = "clCreateSubDevices")]
pub(crate) unsafe extern "C" fn create_sub_devices(
    device: cl_device_id,
    properties: *const cl_device_partition_property,
    entries: cl_uint,
    parts: *mut cl_device_id,
    count: *mut cl_uint,
) -> cl_int {
    entry(|| {
        let device = Ref::<Device>::of(device)?;
        ensure(!properties.is_null(), CL_INVALID_VALUE)?;
        // SAFETY: the program passes a list that ends as its kind says.
        let said = unsafe { partition(properties) }?;
        let units = device.core.properties().multiprocessors;
        let split = match said[0] {
            CL_DEVICE_PARTITION_EQUALLY => {
                let each = u32::try_from(said[1]).ok().filter(|each| *each > 0);
                let each = each.ok_or(crate::code::Code(CL_INVALID_VALUE))?;
                // A device of as many units is no part of it.
                ensure(each <= units, CL_INVALID_DEVICE_PARTITION_COUNT)?;
                ensure(each < units, CL_DEVICE_PARTITION_FAILED)?;
                Partition::Equally(each)
            }
            _ => {
                let counts = said[1..].iter().take_while(|count| **count != 0);
                let counts: Option<Vec<u32>> =
                    counts.map(|count| u32::try_from(*count).ok()).collect();
                let counts = counts.ok_or(crate::code::Code(CL_INVALID_DEVICE_PARTITION_COUNT))?;
                let sum = counts
                    .iter()
                    .try_fold(0_u32, |sum, count| sum.checked_add(*count));
                ensure(
                    !counts.is_empty() && sum.is_some_and(|sum| sum <= units),
                    CL_INVALID_DEVICE_PARTITION_COUNT,
                )?;
                Partition::ByCounts(counts)
            }
        };
        let made = device.core.partition(&split);
        let made = made.or_else(|error| {
            tracing::warn!("{error}");
            fail(CL_DEVICE_PARTITION_FAILED)
        })?;
        ensure(
            parts.is_null() || entries as usize >= made.len(),
            CL_INVALID_VALUE,
        )?;
        if !count.is_null() {
            // SAFETY: the program passes where the number goes.
            unsafe { count.write(made.len() as cl_uint) };
        }
        if parts.is_null() {
            return Ok(());
        }
        let made: Result<Vec<_>> = made
            .into_iter()
            .map(|core| {
                Ref::new(Device {
                    core,
                    parent: Some(device.clone()),
                    partition: said.clone(),
                })
            })
            .collect();
        for (index, part) in made?.iter().enumerate() {
            // SAFETY: the program passes room for as many, as was just compared.
            unsafe { parts.add(index).write(part.give()) };
        }
        Ok(())
    })
}

/// A list of partition properties, with the zero that ends it. The one that ends a list of counts
/// ends the whole for programs that read up to a zero, as other implementations have it.
///
/// # Safety
/// The list ends as its first element says.
unsafe fn partition(
    first: *const cl_device_partition_property,
) -> Result<Vec<cl_device_partition_property>> {
    // SAFETY: as the caller promises.
    let at = |index: usize| unsafe { first.add(index).read() };
    match at(0) {
        CL_DEVICE_PARTITION_EQUALLY => Ok(vec![at(0), at(1), 0]),
        CL_DEVICE_PARTITION_BY_COUNTS => {
            let mut said = vec![at(0)];
            while at(said.len()) != CL_DEVICE_PARTITION_BY_COUNTS_LIST_END {
                said.push(at(said.len()));
            }
            said.push(CL_DEVICE_PARTITION_BY_COUNTS_LIST_END);
            Ok(said)
        }
        _ => fail(CL_INVALID_VALUE),
    }
}
