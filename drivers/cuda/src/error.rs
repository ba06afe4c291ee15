//! CUDA's refusals as the core's errors: the device, the call and the code, in words.

use crate::native::CallError;
use cudarc::driver::sys::CUresult;
use quipu_device_queue::Failure;

/// The meaning of a code, for people.
fn meaning(code: CUresult) -> &'static str {
    use CUresult as C;
    match code {
        C::CUDA_ERROR_INVALID_VALUE => "an argument has a value that is not allowed",
        C::CUDA_ERROR_OUT_OF_MEMORY => "there is no memory",
        C::CUDA_ERROR_NOT_INITIALIZED => "the CUDA driver is not initialised",
        C::CUDA_ERROR_DEINITIALIZED => "the process ends, and CUDA's driver with it",
        C::CUDA_ERROR_STUB_LIBRARY => {
            "the library is a stub, for linking only; install NVIDIA's driver"
        }
        C::CUDA_ERROR_DEVICE_UNAVAILABLE => {
            "the device is not available: another process has it for itself"
        }
        C::CUDA_ERROR_NO_DEVICE => "there is no device",
        C::CUDA_ERROR_INVALID_IMAGE | C::CUDA_ERROR_NO_BINARY_FOR_GPU => {
            "the compiled code is not for this device"
        }
        C::CUDA_ERROR_INVALID_CONTEXT => "the context is not valid",
        C::CUDA_ERROR_INVALID_PTX => "the compiled code is not valid",
        C::CUDA_ERROR_UNSUPPORTED_PTX_VERSION => {
            "the compiler is newer than NVIDIA's driver; use an older NVRTC (QUIPU_NVRTC) or a newer driver"
        }
        C::CUDA_ERROR_NOT_FOUND => "there is nothing of that name",
        C::CUDA_ERROR_ILLEGAL_ADDRESS => {
            "a kernel touched memory that is not its own, on this device or another: CUDA is of no use to this process any more"
        }
        C::CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES => {
            "a block needs more registers or shared memory than the device has for one; use smaller blocks"
        }
        C::CUDA_ERROR_LAUNCH_TIMEOUT => "a kernel took longer than the system allows",
        C::CUDA_ERROR_ASSERT => "an assertion in a kernel did not hold",
        C::CUDA_ERROR_HARDWARE_STACK_ERROR => "a kernel's stack is too small",
        C::CUDA_ERROR_ILLEGAL_INSTRUCTION => {
            "a kernel has an instruction that the device does not know"
        }
        C::CUDA_ERROR_MISALIGNED_ADDRESS => {
            "a kernel touched memory at an address that is not aligned"
        }
        C::CUDA_ERROR_LAUNCH_FAILED => "a kernel failed on the device",
        C::CUDA_ERROR_ECC_UNCORRECTABLE => {
            "the device's memory has an error that cannot be corrected"
        }
        C::CUDA_ERROR_SYSTEM_DRIVER_MISMATCH => {
            "NVIDIA's library and kernel module are of different versions; restart the machine"
        }
        _ => "the call failed",
    }
}

impl Failure for CallError {
    /// True if the context is broken, for good.
    fn is_loss(&self) -> bool {
        use CUresult as C;
        matches!(
            self.code,
            C::CUDA_ERROR_ILLEGAL_ADDRESS
                | C::CUDA_ERROR_LAUNCH_TIMEOUT
                | C::CUDA_ERROR_CONTEXT_IS_DESTROYED
                | C::CUDA_ERROR_ASSERT
                | C::CUDA_ERROR_HARDWARE_STACK_ERROR
                | C::CUDA_ERROR_ILLEGAL_INSTRUCTION
                | C::CUDA_ERROR_MISALIGNED_ADDRESS
                | C::CUDA_ERROR_INVALID_ADDRESS_SPACE
                | C::CUDA_ERROR_INVALID_PC
                | C::CUDA_ERROR_LAUNCH_FAILED
                | C::CUDA_ERROR_ECC_UNCORRECTABLE
                | C::CUDA_ERROR_NVLINK_UNCORRECTABLE
                | C::CUDA_ERROR_DEVICE_UNAVAILABLE
                | C::CUDA_ERROR_EXTERNAL_DEVICE
                | C::CUDA_ERROR_DEINITIALIZED
                | C::CUDA_ERROR_UNKNOWN
        )
    }

    fn is_out_of_memory(&self) -> bool {
        self.code == CUresult::CUDA_ERROR_OUT_OF_MEMORY
    }

    fn text(&self) -> String {
        let Self { call, code } = self;
        format!("{call}: {} ({code:?}, {})", meaning(*code), *code as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quipu_device_queue::error::of_call;
    use quipu_scheduler::error::ErrorKind;

    #[test]
    fn errors_name_device_call_and_code_in_words() {
        let call = CallError {
            call: "cuLaunchKernel",
            code: CUresult::CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES,
        };
        let error = of_call("a GPU", "run 'saxpy'", &call).to_string();
        for part in [
            "'a GPU'",
            "run 'saxpy'",
            "cuLaunchKernel",
            "use smaller blocks",
            "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
            "701",
        ] {
            assert!(error.contains(part), "'{part}' in {error}");
        }
    }

    #[test]
    fn a_device_with_a_broken_context_is_lost() {
        let call = CallError {
            call: "cuEventQuery",
            code: CUresult::CUDA_ERROR_ILLEGAL_ADDRESS,
        };
        let error = of_call("a GPU", "run commands", &call);
        assert!(
            matches!(error.kind(), ErrorKind::DeviceLost { .. }),
            "{error}"
        );
    }
}
