//! The extensions and optional features of OpenCL C that programs are told of by macros.
//!
//! A program is told of those that its device lists, so both are made of one table.

use Need::*;

/// The part of a device that an extension or a feature needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// None: every device has it.
    Nothing,
    /// Numbers of 64 bits.
    Doubles,
    /// Arithmetic of 16 bits.
    Halves,
    /// Atomics of 64 bits.
    WideAtomics,
    /// What OpenCL C 3.0 leaves optional and 2.0 always has: generic pointers, collective functions
    /// of work-groups, and atomics in all orders and scopes.
    Language,
    /// Sub-groups.
    SubGroups,
    /// Images.
    Images,
    /// What this compiler makes of code for processors alone: sub-groups that exchange values, dot
    /// products, atomics of floating-point numbers.
    Extended,
    /// A processor of the machine that lists the device.
    Here,
}

impl Need {
    /// All but [`Nothing`](Self::Nothing).
    pub const ALL: [Self; 8] = [
        Doubles,
        Halves,
        WideAtomics,
        Language,
        SubGroups,
        Images,
        Extended,
        Here,
    ];

    /// An option of a compiler that has a program neither have what needs this, nor be told of it.
    /// It defines a macro, of a kind that clang's own header has, so every compiler takes it. Empty
    /// for [`Nothing`](Self::Nothing).
    #[must_use]
    pub fn absent(self) -> &'static str {
        match self {
            Nothing => "",
            Doubles => "-D__undef_cl_khr_fp64",
            Halves => "-D__undef_cl_khr_fp16",
            WideAtomics => "-D__undef_cl_khr_int64_base_atomics",
            Language => "-D__undef___opencl_c_generic_address_space",
            SubGroups => "-D__undef_cl_khr_subgroups",
            Images => "-D__undef___IMAGE_SUPPORT__",
            Extended => "-D__undef_cl_khr_integer_dot_product",
            Here => "-D__undef___opencl_c_program_scope_global_variables",
        }
    }

    /// True if options have a program not have it.
    pub(crate) fn is_absent(self, options: &[String]) -> bool {
        self != Nothing && options.iter().any(|option| option == self.absent())
    }
}

/// An extension (`cl_…`) or an optional feature (`__opencl_c_…`) of OpenCL C.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Feature {
    /// Its name, which is that of its macro.
    pub name: &'static str,
    /// The part of a device that it needs.
    pub need: Need,
    /// True if programs have it from OpenCL C 2.0 on alone: it is about types of that language.
    pub is_later: bool,
}

impl Feature {
    /// True if its functions are there wherever its macro is, and clang has that macro only from
    /// OpenCL C 2.0 on, or in its header.
    pub(crate) fn is_by_macro(&self) -> bool {
        let is_of_functions = self.is_extension() || self.name.contains("integer_dot_product");
        matches!(self.need, SubGroups | Extended) && is_of_functions && !self.is_later
    }

    /// True if it is an extension, and not a feature of OpenCL C 3.0.
    #[must_use]
    pub fn is_extension(&self) -> bool {
        self.name.starts_with("cl_")
    }
}

const fn first(need: Need, name: &'static str) -> Feature {
    Feature {
        name,
        need,
        is_later: false,
    }
}

const fn later(need: Need, name: &'static str) -> Feature {
    Feature {
        name,
        need,
        is_later: true,
    }
}

/// All that some device has.
pub const FEATURES: [Feature; 46] = [
    first(Nothing, "cl_khr_byte_addressable_store"),
    first(Nothing, "cl_khr_global_int32_base_atomics"),
    first(Nothing, "cl_khr_global_int32_extended_atomics"),
    first(Nothing, "cl_khr_local_int32_base_atomics"),
    first(Nothing, "cl_khr_local_int32_extended_atomics"),
    first(Nothing, "__opencl_c_int64"),
    first(WideAtomics, "cl_khr_int64_base_atomics"),
    first(WideAtomics, "cl_khr_int64_extended_atomics"),
    first(Doubles, "cl_khr_fp64"),
    first(Doubles, "__opencl_c_fp64"),
    first(Halves, "cl_khr_fp16"),
    first(Language, "__opencl_c_generic_address_space"),
    first(Language, "__opencl_c_work_group_collective_functions"),
    first(Language, "__opencl_c_atomic_order_acq_rel"),
    first(Language, "__opencl_c_atomic_order_seq_cst"),
    first(Language, "__opencl_c_atomic_scope_device"),
    first(Language, "__opencl_c_atomic_scope_all_devices"),
    first(SubGroups, "cl_khr_subgroups"),
    first(SubGroups, "__opencl_c_subgroups"),
    first(Images, "cl_khr_3d_image_writes"),
    first(Images, "cl_khr_depth_images"),
    first(Images, "__opencl_c_images"),
    first(Images, "__opencl_c_read_write_images"),
    first(Images, "__opencl_c_3d_image_writes"),
    // Elsewhere each kernel is a program of its own.
    first(Here, "__opencl_c_program_scope_global_variables"),
    first(Extended, "cl_khr_extended_bit_ops"),
    first(Extended, "cl_khr_subgroup_extended_types"),
    first(Extended, "cl_khr_subgroup_non_uniform_vote"),
    first(Extended, "cl_khr_subgroup_ballot"),
    first(Extended, "cl_khr_subgroup_non_uniform_arithmetic"),
    first(Extended, "cl_khr_subgroup_shuffle"),
    first(Extended, "cl_khr_subgroup_shuffle_relative"),
    first(Extended, "cl_khr_subgroup_clustered_reduce"),
    first(Extended, "cl_khr_subgroup_rotate"),
    first(Extended, "cl_khr_integer_dot_product"),
    first(Extended, "__opencl_c_integer_dot_product_input_4x8bit"),
    first(
        Extended,
        "__opencl_c_integer_dot_product_input_4x8bit_packed",
    ),
    later(Extended, "cl_ext_float_atomics"),
    later(Extended, "__opencl_c_ext_fp32_global_atomic_add"),
    later(Extended, "__opencl_c_ext_fp32_local_atomic_add"),
    later(Extended, "__opencl_c_ext_fp32_global_atomic_min_max"),
    later(Extended, "__opencl_c_ext_fp32_local_atomic_min_max"),
    later(Extended, "__opencl_c_ext_fp64_global_atomic_add"),
    later(Extended, "__opencl_c_ext_fp64_local_atomic_add"),
    later(Extended, "__opencl_c_ext_fp64_global_atomic_min_max"),
    later(Extended, "__opencl_c_ext_fp64_local_atomic_min_max"),
];
