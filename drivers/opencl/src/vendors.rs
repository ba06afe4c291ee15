//! Platforms: those of the system's loader, or those that a folder lists.
//!
//! A program that is run with Quipu as its only platform has a loader that knows no other
//! (`quipu exec`). Their libraries are then found as a loader finds them: each file `*.icd` of a
//! folder has a library's name in its first line. Calls still go through the loader, which follows
//! the table of functions that each platform begins with.

use crate::device::{LOOK, LeftOut};
use crate::native::named;
use cl3::types::{cl_int, cl_platform_id, cl_uint};
use libloading::Library;
use quipu_device_queue::Failure;
use quipu_device_queue::error::no_devices;
use quipu_environment::OPENCL_VENDORS;
use quipu_scheduler::error::Result;
use std::ffi::{c_char, c_void};
use std::path::{Path, PathBuf};
use std::ptr::null_mut;

/// The platforms there are. The others are added to those that are left out.
///
/// # Errors
/// The reason, if there are none.
pub(crate) fn platforms(left_out: &mut Vec<LeftOut>) -> Result<Vec<cl_platform_id>> {
    let listed = OPENCL_VENDORS
        .get()
        .map_err(|error| no_devices(LOOK, error.to_string()))?;
    let Some(place) = listed else {
        let platforms = named("clGetPlatformIDs", cl3::platform::get_platform_ids())
            .map_err(|error| no_devices(LOOK, error.text()))?;
        return Ok(platforms);
    };
    let mut platforms = Vec::new();
    for list in lists(&place) {
        match platforms_of(&list) {
            Ok(found) => platforms.extend(found),
            Err(problem) => {
                let what = "platform";
                left_out.push(LeftOut { what, problem });
            }
        }
    }
    Ok(platforms)
}

/// The files of a folder that name a library, in the order of their names; or the one file that is
/// meant.
fn lists(place: &Path) -> Vec<PathBuf> {
    if place.is_file() {
        return vec![place.to_owned()];
    }
    let Ok(entries) = std::fs::read_dir(place) else {
        return Vec::new();
    };
    let is_list = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "icd");
    let paths = entries.flatten().map(|entry| entry.path());
    let mut lists: Vec<PathBuf> = paths.filter(is_list).collect();
    lists.sort();
    lists
}

/// `clGetPlatformIDs`.
type GetPlatformIds =
    unsafe extern "system" fn(cl_uint, *mut cl_platform_id, *mut cl_uint) -> cl_int;

/// The first word of a table of functions if its loader has to know the platform:
/// `CL_ICD2_TAG_KHR`. Ours does not.
const FOR_A_LOADER_THAT_KNOWS_IT: usize = 0x4F50_454E_434C_3331;

fn platforms_of(list: &Path) -> std::result::Result<Vec<cl_platform_id>, String> {
    let about = |problem: String| format!("{}: {problem}", list.display());
    let text = std::fs::read_to_string(list).map_err(|error| about(error.to_string()))?;
    let name = text.lines().next().unwrap_or_default().trim();
    // SAFETY: the user's own list names it, as for every loader; vendors' libraries may be loaded
    // at any time.
    let library = unsafe { Library::new(name) };
    let library =
        library.map_err(|error| about(format!("cannot load {name}: {}", whole(&error))))?;
    let get = listing(&library).map_err(about)?;
    // Its objects live as long as the process.
    std::mem::forget(library);
    let failed = |code: cl_int| {
        let call = "clIcdGetPlatformIDsKHR";
        about(crate::native::CallError { call, code }.text())
    };
    let mut count = 0;
    // SAFETY: there is room for the number.
    match unsafe { get(0, null_mut(), &raw mut count) } {
        0 => {}
        // It has none, for this machine lacks its devices.
        -1001 => return Ok(Vec::new()),
        code => return Err(failed(code)),
    }
    let mut platforms: Vec<cl_platform_id> = vec![null_mut(); count as usize];
    // SAFETY: there is room for as many.
    match unsafe { get(count, platforms.as_mut_ptr(), null_mut()) } {
        0 => {}
        code => return Err(failed(code)),
    }
    platforms.retain(|platform| {
        // SAFETY: a platform begins with the address of its table of functions, and that with a
        // function's.
        let first = unsafe { platform.cast::<*const *const c_void>().read().read() };
        first.addr() != FOR_A_LOADER_THAT_KNOWS_IT
    });
    Ok(platforms)
}

/// The text of an error, with its causes.
fn whole(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(": ")
}

/// The function that lists a library's platforms: one of its own names, or the one that it gives.
fn listing(library: &Library) -> std::result::Result<GetPlatformIds, String> {
    const NAME: &[u8] = b"clIcdGetPlatformIDsKHR\0";
    // SAFETY: OpenCL says which function has this name.
    if let Ok(get) = unsafe { library.get::<GetPlatformIds>(NAME) } {
        return Ok(*get);
    }
    type GetAddress = unsafe extern "system" fn(*const c_char) -> *mut c_void;
    // SAFETY: as for the name above.
    let address = unsafe { library.get::<GetAddress>(b"clGetExtensionFunctionAddress\0") };
    let address = address.map_err(|error| whole(&error))?;
    // SAFETY: the name ends with a zero.
    let get = unsafe { address(NAME.as_ptr().cast()) };
    if get.is_null() {
        return Err("it has no clIcdGetPlatformIDsKHR".to_owned());
    }
    // SAFETY: OpenCL says which function has this name; an address that is not null is a pointer to
    // it.
    Ok(unsafe { std::mem::transmute::<*mut c_void, GetPlatformIds>(get) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_files_of_their_kind_by_name() {
        let folder = std::env::temp_dir().join(format!("quipu-vendors-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        for name in ["b.icd", "a.icd", "c.txt"] {
            std::fs::write(folder.join(name), "/nowhere/libOther.so\n").unwrap();
        }
        let found = lists(&folder);
        assert_eq!(found, [folder.join("a.icd"), folder.join("b.icd")]);
        assert_eq!(lists(&folder.join("c.txt")), [folder.join("c.txt")]);
        assert!(lists(&folder.join("none")).is_empty());
        let problem = platforms_of(&found[0]).unwrap_err();
        assert!(
            problem.contains("a.icd") && problem.contains("libOther.so"),
            "{problem}"
        );
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
