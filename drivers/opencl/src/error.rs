//! OpenCL's refusals as the core's errors: the device, the call and the code, in words.

use crate::native::CallError;
use cl3::error_codes::CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST;
use cl3::error_codes::error_text;
use quipu_device_queue::Failure;

/// The meaning of a code, for people.
fn meaning(code: i32) -> &'static str {
    match code {
        -1001 => "there is no platform: no vendor's OpenCL is installed",
        -1 => "there is no such device",
        -2 => "the device is not available",
        -3 => "there is no compiler",
        -4 => "there is no memory for the buffer on the device",
        -5 => "the device's resources are used up",
        -6 => "the host's memory is used up",
        -7 => "the queue takes no timestamps",
        -11 => "the program cannot be built",
        -14 => "a command that it waits for failed",
        -30 => "an argument has a value that is not allowed",
        -34 => "the context is not valid",
        -36 => "the queue is not valid",
        -38 => "the memory object is not valid",
        -43 => "the compiler does not know an option",
        -45 => "the program is not built for the device",
        -46 => "the program has no kernel of that name",
        -49 => "the kernel has no argument of that number",
        -50 => "an argument has a value that is not allowed",
        -51 => "an argument has the wrong size",
        -52 => "an argument of the kernel is not set",
        -54 => "the block has more threads than the device takes, or a size that it does not take",
        -55 => "the block has too many threads along an axis",
        -56 => "the grid's offset is not allowed",
        -57 => "a wait is not valid",
        -61 => "the buffer is larger than the device allows",
        -63 => "the grid is not of a size that the device takes",
        -9999 => "the kernel touched memory that is not its own",
        _ => "the call failed",
    }
}

impl Failure for CallError {
    fn is_loss(&self) -> bool {
        // Not available, an illegal access on NVIDIA's devices, and the answer of their queues
        // after one.
        matches!(self.code, -2 | -9999 | -36)
    }

    fn is_out_of_memory(&self) -> bool {
        matches!(self.code, -6..=-4)
    }

    fn is_of_a_wait(&self) -> bool {
        self.code == CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST
    }

    fn text(&self) -> String {
        let Self { call, code } = self;
        format!("{call}: {} ({}, {code})", meaning(*code), error_text(*code))
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
            call: "clEnqueueNDRangeKernel",
            code: -54,
        };
        let error = of_call("a GPU", "run 'saxpy'", &call).to_string();
        for part in [
            "'a GPU'",
            "run 'saxpy'",
            "clEnqueueNDRangeKernel",
            "more threads than the device takes",
            "CL_INVALID_WORK_GROUP_SIZE",
            "-54",
        ] {
            assert!(error.contains(part), "'{part}' in {error}");
        }
    }

    #[test]
    fn a_device_that_is_not_available_is_lost() {
        let call = CallError {
            call: "clFlush",
            code: -2,
        };
        let error = of_call("a GPU", "run commands", &call);
        assert!(
            matches!(error.kind(), ErrorKind::DeviceLost { .. }),
            "{error}"
        );
    }
}
