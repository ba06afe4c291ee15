/* A program for OpenCL that prints what it is told of the programs that it builds, good ones and others. */
#define CL_TARGET_OPENCL_VERSION 300
#include "check.h"
#include <string.h>

static const char *good =
    "#warning of this text\n"
    "struct pair { int left; double right; };\n"
    "kernel __attribute__((reqd_work_group_size(8, 4, 1))) __attribute__((vec_type_hint(float4)))\n"
    "void several(global const float4 *restrict in, global volatile int *out, constant uchar *table, local short *part,\n"
    "             struct pair pair, float3 scale, ulong count) {\n"
    "  local int own[32];\n"
    "  own[get_local_id(0)] = table[0] + pair.left;\n"
    "  barrier(CLK_LOCAL_MEM_FENCE);\n"
    "  part[0] = own[1];\n"
    "  *out = (int)(in[0].x * scale.y) + (int)count;\n"
    "}\n"
    "kernel __attribute__((intel_reqd_sub_group_size(8))) void eight() {}\n"
    "kernel void nothing() {}\n";

static const char *bad = "kernel void broken(global int *out) { *out = missing; }\n";

static int build(cl_context context, cl_device_id device, const char *source, const char *options, cl_program *program) {
  cl_int code;
  cl_build_status status;
  char log[4096], names[256];
  *program = clCreateProgramWithSource(context, 1, &source, NULL, &code);
  CHECK(code);
  code = clBuildProgram(*program, 1, &device, options, NULL, NULL);
  CHECK(clGetProgramBuildInfo(*program, device, CL_PROGRAM_BUILD_STATUS, sizeof status, &status, NULL));
  CHECK(clGetProgramBuildInfo(*program, device, CL_PROGRAM_BUILD_LOG, sizeof log, log, NULL));
  printf("built '%s': %d, status %d, log:\n%s\n", options, code, status, log);
  if (code == CL_SUCCESS) {
    CHECK(clGetProgramInfo(*program, CL_PROGRAM_KERNEL_NAMES, sizeof names, names, NULL));
    printf("kernels: %s\n", names);
  }
  return 0;
}

static int tell(cl_program program, cl_device_id device, const char *name) {
  cl_int code;
  cl_uint count;
  char text[256];
  size_t size[3], items, groups, local = 20;
  cl_ulong bytes;
  cl_kernel kernel = clCreateKernel(program, name, &code);
  CHECK(code);
  CHECK(clGetKernelInfo(kernel, CL_KERNEL_NUM_ARGS, sizeof count, &count, NULL));
  CHECK(clGetKernelInfo(kernel, CL_KERNEL_ATTRIBUTES, sizeof text, text, NULL));
  CHECK(clGetKernelWorkGroupInfo(kernel, device, CL_KERNEL_COMPILE_WORK_GROUP_SIZE, sizeof size, size, NULL));
  CHECK(clGetKernelWorkGroupInfo(kernel, device, CL_KERNEL_LOCAL_MEM_SIZE, sizeof bytes, &bytes, NULL));
  printf("%s: %u arguments, '%s', %zux%zux%zu, %lu bytes\n", name, count, text, size[0], size[1], size[2],
         (unsigned long)bytes);
  CHECK(clGetKernelSubGroupInfo(kernel, device, CL_KERNEL_MAX_SUB_GROUP_SIZE_FOR_NDRANGE, sizeof local, &local,
                                sizeof items, &items, NULL));
  CHECK(clGetKernelSubGroupInfo(kernel, device, CL_KERNEL_SUB_GROUP_COUNT_FOR_NDRANGE, sizeof local, &local,
                                sizeof groups, &groups, NULL));
  printf("  %zu of %zu work-items in %zu sub-groups\n", items, local, groups);
  for (cl_uint i = 0; i < count; i++) {
    char type[256];
    cl_kernel_arg_address_qualifier address;
    cl_kernel_arg_access_qualifier access;
    cl_kernel_arg_type_qualifier qualifiers = ~(cl_kernel_arg_type_qualifier)0;
    CHECK(clGetKernelArgInfo(kernel, i, CL_KERNEL_ARG_NAME, sizeof text, text, NULL));
    CHECK(clGetKernelArgInfo(kernel, i, CL_KERNEL_ARG_TYPE_NAME, sizeof type, type, NULL));
    CHECK(clGetKernelArgInfo(kernel, i, CL_KERNEL_ARG_ADDRESS_QUALIFIER, sizeof address, &address, NULL));
    CHECK(clGetKernelArgInfo(kernel, i, CL_KERNEL_ARG_ACCESS_QUALIFIER, sizeof access, &access, NULL));
    CHECK(clGetKernelArgInfo(kernel, i, CL_KERNEL_ARG_TYPE_QUALIFIER, sizeof qualifiers, &qualifiers, NULL));
    printf("  %s %s: %x %x %lx\n", type, text, address, access, (unsigned long)qualifiers);
  }
  /* A value has the size that the text says. */
  if (count > 4) {
    char value[16] = {0};
    printf("  sizes: %d %d\n", clSetKernelArg(kernel, 4, 12, value), clSetKernelArg(kernel, 4, 16, value));
  }
  CHECK(clReleaseKernel(kernel));
  return 0;
}

int main(void) {
  cl_platform_id platform;
  cl_device_id device;
  cl_bool has_compiler;
  cl_int code;
  cl_program program;
  CHECK(clGetPlatformIDs(1, &platform, NULL));
  CHECK(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL));
  CHECK(clGetDeviceInfo(device, CL_DEVICE_COMPILER_AVAILABLE, sizeof has_compiler, &has_compiler, NULL));
  printf("compiler: %u\n", has_compiler);
  cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &code);
  CHECK(code);
  if (build(context, device, bad, "", &program)) return 1;
  clCreateKernel(program, "broken", &code);
  printf("a kernel of it: %d\n", code);
  CHECK(clReleaseProgram(program));
  if (build(context, device, good, "-no-such-option", &program)) return 1;
  CHECK(clReleaseProgram(program));
  if (build(context, device, good, "-cl-std=CL1.2 -cl-kernel-arg-info", &program)) return 1;
  if (tell(program, device, "several") || tell(program, device, "eight") || tell(program, device, "nothing")) return 1;
  CHECK(clReleaseProgram(program));
  CHECK(clReleaseContext(context));
  return 0;
}
